"""Cause of a failed dial, from its error and its first bytes."""

from __future__ import annotations

from .dial_causes import DialCause, is_handshake
from .errors import ConnectionLost, RemoteProtocolError, TolliverError, UnexpectedEOF
from .records import frozen


@frozen
class DialFailure:
    """Why a remote is not connected; its text has both, for people. It keeps no error, which would keep a socket."""

    cause: DialCause
    detail: str

    def __str__(self) -> str:
        return f"{self.cause.text}: {self.detail}"


def failure_of(error: TolliverError | None, first: bytes, own: DialCause | None = None) -> DialFailure:
    """Failure of a dial that ended so after these bytes came. `own` is the protocol that was dialled, where its bytes
    tell it."""
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
        return DialCause.LAYOUT  # where another one has a length, it has us wait for more
    if error.cause is not None and error.cause is own:
        return DialCause.NOT_TLS  # seen where TLS was dialled
    return error.cause or DialCause.CLOSED
