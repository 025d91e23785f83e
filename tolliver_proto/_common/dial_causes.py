"""Causes of failed dials, and protocols by their first bytes.

A server of another protocol shows by its first bytes which protocol that is. The protocol's name helps an operator more
than the fault that our decoder finds in those bytes.
"""

from __future__ import annotations

from enum import StrEnum

FIRST_BYTES = 32
"""Number of received bytes of a connection that are kept to name the protocol."""

_HEAD = 25  # bytes of code, version and UUID: alike in every layout of messages
_MAX_VERSION = 2**16
_VARIANT, _VARIANT_BITS = 0b10, 6  # of a UUID, in the upper bits of its ninth byte (RFC 9562)


class DialCause(StrEnum):
    """The cause for which a remote is not connected."""

    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    NAME = "name"
    NO_ANSWER = "no_answer"
    CLOSED = "closed"
    TLS = "tls"
    NEEDS_TLS = "needs_tls"
    NOT_TLS = "not_tls"
    HTTP = "http"
    STREAMS = "streams"
    LAYOUT = "layout"
    PROTOCOL = "protocol"
    CERTIFICATE = "certificate"
    IDENTITY = "identity"
    VERSION = "version"
    ACCESS = "access"
    SELF = "self"
    LOST = "lost"
    HERE = "here"

    @property
    def text(self) -> str:
        """Returns the cause as a clause for people, to be followed by a colon and details."""
        return _TEXTS[self]

    @property
    def is_refusal(self) -> bool:
        """True if one side refused the other (refusals, T-73): the dial may succeed later, or after a repair."""
        return self in _REFUSALS

    @staticmethod
    def told_by(first: bytes) -> DialCause | None:
        """Returns HTTP, NEEDS_TLS or STREAMS if the peer's first bytes belong to that protocol, else None."""
        return next((cause for cause, beginnings in _BEGINNINGS if first.startswith(beginnings)), None)


_REFUSALS = frozenset({DialCause.CERTIFICATE, DialCause.IDENTITY, DialCause.VERSION, DialCause.ACCESS, DialCause.SELF})

_TEXTS = {
    DialCause.REFUSED: "nobody listens there",
    DialCause.UNREACHABLE: "there is no way to it",
    DialCause.NAME: "its name is not found",
    DialCause.NO_ANSWER: "nobody answers",
    DialCause.CLOSED: "it closed before the handshake was over",
    DialCause.TLS: "TLS fails",
    DialCause.NEEDS_TLS: "it speaks TLS, and this side has plaintext=True",
    DialCause.NOT_TLS: "it does not speak TLS",
    DialCause.HTTP: "it speaks HTTP: is this the right port?",
    DialCause.STREAMS: "it is a port of streams: dial it with connect() of create_streams",
    DialCause.LAYOUT: "its handshake has another layout: both sides need the same revision",
    DialCause.PROTOCOL: "it speaks another protocol",
    DialCause.CERTIFICATE: "a certificate is refused",
    DialCause.IDENTITY: "it is somebody else",
    DialCause.VERSION: "its version is incompatible",
    DialCause.ACCESS: "the access rules here keep it out",
    DialCause.SELF: "it is this instance itself",
    DialCause.LOST: "the connection ended",
    DialCause.HERE: "this side ended it",
}

_BEGINNINGS: tuple[tuple[DialCause, tuple[bytes, ...]], ...] = (
    (DialCause.HTTP, (b"HTTP/", b"GET ", b"HEAD ", b"POST ", b"PUT ", b"OPTIONS ", b"CONNECT ", b"PRI * HTTP")),
    # A TLS record begins with its type and the version 3.x.
    (DialCause.NEEDS_TLS, tuple(bytes((kind, 3, minor)) for kind in (20, 21, 22, 23) for minor in range(5))),
    # The codes of ServerHello and Goodbye: no peer of the messaging protocol begins with them.
    (DialCause.STREAMS, (b"\x02", b"\x0b")),
)


def is_handshake(first: bytes) -> bool:
    """True if the first bytes have a version and a UUID where every layout of messages has them."""
    return (
        len(first) >= _HEAD
        and first[0] in (0, 1)
        and int.from_bytes(first[1:9]) < _MAX_VERSION
        and first[17] >> _VARIANT_BITS == _VARIANT
    )
