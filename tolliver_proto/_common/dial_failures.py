"""Cause of a failed dial, from error and first bytes."""

from __future__ import annotations

from .dial_causes import DialCause, is_handshake
from .errors import ConnectionLost, RemoteProtocolError, TolliverError, UnexpectedEOF
from .records import frozen


@frozen
class DialFailure:
    """Cause and detail of a failed dial. The error itself is not kept: its traceback would keep the socket."""

    cause: DialCause
    detail: str

    def __str__(self) -> str:
        return f"{self.cause.text}: {self.detail}"


def failure_of(error: TolliverError | None, first: bytes, own: DialCause | None = None) -> DialFailure:
    """Returns the failure of a dial that ended with `error` after receiving the bytes `first`.

    `own` is the cause that the first bytes of the dialled protocol would suggest, which is ignored.
    """
    error = error or ConnectionLost("the connection was ended here", DialCause.HERE)
    return DialFailure(_cause_of(error, first, own), str(error))


def _cause_of(error: TolliverError, first: bytes, own: DialCause | None) -> DialCause:
    seen = DialCause.told_by(first)
    told = None if seen is own else seen
    if isinstance(error, UnexpectedEOF):
        return told or DialCause.CLOSED
    if isinstance(error, RemoteProtocolError):
        return told or (DialCause.LAYOUT if is_handshake(first) else DialCause.PROTOCOL)
    if not isinstance(error, ConnectionLost):
        return error.cause or DialCause.HERE
    if error.cause is DialCause.NO_ANSWER and is_handshake(first):
        return DialCause.LAYOUT  # another layout's bytes, read as a length, make the decoder wait for more
    if error.cause is not None and error.cause is own:
        return DialCause.NOT_TLS  # TLS was dialled, and the bytes are of the protocol that TLS should have carried
    return error.cause or DialCause.CLOSED
