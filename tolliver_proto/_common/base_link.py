"""Life cycle of one connection's transport, as a table.

As in `_wire/state.py`, states and signals are data, and a pair that is missing is a bug: it raises. The two halves of a
connection end separately. Our half has ended when ShutdownWrite was asked for; the peer's has when the connection
handed out Closed, its last event. Only then is nothing lost when the transport goes: before that, what it brought is
still to be handed out.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Protocol

from .errors import TolliverError
from .transport import PeerIdentity, Remote, Role


class LinkState(Enum):
    """State of a link."""

    CONNECTING = auto()  # TCP and TLS: there is no connection yet
    OPEN = auto()
    ENDING = auto()  # it was we who ended it: what is queued still goes out
    WRITE_CLOSED = auto()  # our half has ended, the peer may still send
    READ_CLOSED = auto()  # the connection has said its last, what is queued still goes out
    CLOSED = auto()  # both: only the transport is still there
    DRAINING = auto()  # the transport is gone, what it brought is still being handed out
    FORGOTTEN = auto()  # nothing comes of its cid any more


class LinkSignal(Enum):
    """Things that can happen to a link."""

    OPENED = auto()  # the transport stands, and proved an identity
    END = auto()  # we close the connection
    SHUT = auto()  # ShutdownWrite is asked for
    CLOSED = auto()  # the connection has said its last
    LOST = auto()  # the transport is gone
    FORGET = auto()


_S, _X = LinkState, LinkSignal
_FORGET = {_X.FORGET: _S.FORGOTTEN}
_READING = {_X.CLOSED: _S.READ_CLOSED, _X.LOST: _S.DRAINING}

TRANSITIONS: dict[LinkState, dict[LinkSignal, LinkState]] = {
    _S.CONNECTING: {_X.OPENED: _S.OPEN, **_FORGET},
    # Our half may end without END: by a handshake that failed, before its Closed is handed out.
    _S.OPEN: {_X.END: _S.ENDING, _X.SHUT: _S.WRITE_CLOSED, **_READING, **_FORGET},
    _S.ENDING: {_X.END: _S.ENDING, _X.SHUT: _S.WRITE_CLOSED, **_READING, **_FORGET},
    _S.WRITE_CLOSED: {_X.END: _S.WRITE_CLOSED, _X.CLOSED: _S.CLOSED, _X.LOST: _S.DRAINING, **_FORGET},
    _S.READ_CLOSED: {_X.END: _S.READ_CLOSED, _X.SHUT: _S.CLOSED, **_FORGET},
    _S.CLOSED: {_X.END: _S.CLOSED, **_FORGET},
    _S.DRAINING: {_X.END: _S.DRAINING, _X.CLOSED: _S.CLOSED, _X.LOST: _S.DRAINING, **_FORGET},
    _S.FORGOTTEN: {},
}

HANDING_OUT = frozenset(state for state, steps in TRANSITIONS.items() if LinkSignal.CLOSED in steps)
"""States in which the connection may still have something to hand out: its end, at least."""

SHUTTABLE = frozenset(state for state, steps in TRANSITIONS.items() if LinkSignal.SHUT in steps)
"""States in which our half still stands."""


class Connection(Protocol):
    """A connection of either protocol, as far as a table of connections drives it."""

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


class BaseLink:
    """One connection, from its cid on."""

    __slots__ = ("cid", "connection", "error", "first", "identity", "in_transit", "paused", "remote", "role", "state")

    connection: Connection | None

    def __init__(self, cid: int, role: Role, remote: Remote | None) -> None:
        self.cid = cid
        self.role = role
        self.remote = remote  # None where the peer dialled us
        self.identity = PeerIdentity()
        self.connection = None  # until TLS is done
        self.first = b""  # bytes that came, as many as tell whose they are
        self.state = LinkState.CONNECTING
        self.in_transit = 0  # bytes of the Transmit that is outstanding
        self.paused = False  # the transport reads no more for now
        self.error: TolliverError | None = None  # why it ends, where the connection does not know

    def move(self, signal: LinkSignal) -> None:
        self.state = TRANSITIONS[self.state][signal]

    @property
    def unsent(self) -> int:
        """Bytes that we hold for the peer, in our buffer and in the socket's hands."""
        queued = self.connection.unsent_bytes if self.connection is not None else 0
        return queued + self.in_transit
