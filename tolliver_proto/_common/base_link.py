"""Life cycle of one connection's transport, as a table.

As in `_wire/state.py`, states and signals are data, and a missing pair is a bug that raises KeyError. The two halves of
a connection end separately. Our half ends when ShutdownWrite is asked for; the peer's half ends when the connection has
handed out Closed, its last event. A link whose transport goes before that drains first: the events of the bytes that
came are still handed out.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Generic, Protocol, TypeVar

from .compiling import mypyc_attr
from .errors import TolliverError
from .transport import PeerIdentity, Remote, Role


class LinkState(Enum):
    """State of a link: of its transport, its handshake and its close."""

    CONNECTING = auto()  # TCP and TLS: there is no connection yet
    OPEN = auto()
    ENDING = auto()  # we ended the connection: queued frames still go out
    WRITE_CLOSED = auto()  # our half has ended, the peer may still send
    READ_CLOSED = auto()  # the connection handed out Closed: queued frames still go out
    CLOSED = auto()  # both halves have ended: only the transport is left
    DRAINING = auto()  # the transport is gone: events of the bytes that came are still handed out
    FORGOTTEN = auto()  # no further event or action names the cid


class LinkSignal(Enum):
    """Event that moves a link to another state."""

    OPENED = auto()  # the transport stands, and proved an identity
    END = auto()  # we close the connection
    SHUT = auto()  # ShutdownWrite is asked for
    CLOSED = auto()  # the connection handed out Closed
    LOST = auto()  # the transport is gone
    FORGET = auto()


_S, _X = LinkState, LinkSignal
_FORGET = {_X.FORGET: _S.FORGOTTEN}
_READING = {_X.CLOSED: _S.READ_CLOSED, _X.LOST: _S.DRAINING}

TRANSITIONS: dict[LinkState, dict[LinkSignal, LinkState]] = {
    _S.CONNECTING: {_X.OPENED: _S.OPEN, **_FORGET},
    # Our half may end without END: a failed handshake ends it before Closed is handed out.
    _S.OPEN: {_X.END: _S.ENDING, _X.SHUT: _S.WRITE_CLOSED, **_READING, **_FORGET},
    _S.ENDING: {_X.END: _S.ENDING, _X.SHUT: _S.WRITE_CLOSED, **_READING, **_FORGET},
    _S.WRITE_CLOSED: {_X.END: _S.WRITE_CLOSED, _X.CLOSED: _S.CLOSED, _X.LOST: _S.DRAINING, **_FORGET},
    _S.READ_CLOSED: {_X.END: _S.READ_CLOSED, _X.SHUT: _S.CLOSED, **_FORGET},
    _S.CLOSED: {_X.END: _S.CLOSED, **_FORGET},
    _S.DRAINING: {_X.END: _S.DRAINING, _X.CLOSED: _S.CLOSED, _X.LOST: _S.DRAINING, **_FORGET},
    _S.FORGOTTEN: {},
}

HANDING_OUT = frozenset(state for state, steps in TRANSITIONS.items() if LinkSignal.CLOSED in steps)
"""States in which the connection has not handed out its last event, Closed."""

SHUTTABLE = frozenset(state for state, steps in TRANSITIONS.items() if LinkSignal.SHUT in steps)
"""States in which our half is open."""


class Connection(Protocol):
    """The calls of a protocol's connection that ConnectionTable uses."""

    @property
    def state(self) -> Enum: ...

    @property
    def unsent_bytes(self) -> int: ...

    @property
    def wants_write_shutdown(self) -> bool: ...

    @property
    def close_deadline(self) -> float | None: ...

    def receive_data(self, data: bytes, now: float | None = None) -> None: ...

    def receive_eof(self, now: float | None = None) -> None: ...

    def data_to_send(self) -> list[bytes]: ...

    def next_timeout(self) -> float | None: ...

    def handle_timeout(self, now: float | None = None) -> None: ...


C_co = TypeVar("C_co", bound=Connection, covariant=True)


@mypyc_attr(allow_interpreted_subclasses=True)
class BaseLink(Generic[C_co]):
    """Record of one connection, from the moment that it has a cid: its transport, its machine, and its state."""

    __slots__ = ("cid", "connection", "error", "first", "identity", "in_transit", "paused", "remote", "role", "state")

    connection: C_co | None

    def __init__(self, cid: int, role: Role, remote: Remote | None) -> None:
        self.cid: int = cid
        self.role: Role = role
        self.remote: Remote | None = remote  # None if the peer dialled us
        self.identity: PeerIdentity = PeerIdentity()
        self.connection = None  # until TLS is done
        self.first: bytes = b""  # the first bytes that came: they may name another protocol
        self.state: LinkState = LinkState.CONNECTING
        self.in_transit: int = 0  # bytes of the Transmit that is outstanding
        self.paused: bool = False  # the transport was told to pause reading
        self.error: TolliverError | None = None  # the reason of an end that the connection does not know

    def move(self, signal: LinkSignal) -> None:
        self.state = TRANSITIONS[self.state][signal]

    @property
    def unsent(self) -> int:
        """Bytes on their way to the peer: queued in the connection, and in transit to the socket."""
        queued = self.connection.unsent_bytes if self.connection is not None else 0
        return queued + self.in_transit
