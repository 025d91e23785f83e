"""Connections in any state, by real bytes and calls.

A state is reached as a peer and a caller would reach it, never by setting it. `OURS` is the version of the connection
under test; its peer is older, the same or newer by a parameter, because that decides who must decide.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from tolliver_proto import (
    Closed,
    Connection,
    Event,
    Frame,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Message,
    Revision,
    Role,
    Subscription,
    encode,
)
from tolliver_proto.layouts import State

ME = UUID("01890000-0000-7000-8000-00000000000a")
PEER = UUID("01890000-0000-7000-8000-00000000000b")
OLDER, OURS, NEWER = 4, 5, 6
VERSIONS = (OLDER, OURS, NEWER)
REVISIONS = (Revision.DRAFT_1, Revision.DRAFT_2)
BY_ROLE = {Role.CLIENT: Role.SERVER, Role.SERVER: Role.CLIENT}
LISTED = (Subscription("weather", "oslo"), Subscription("", ""))
HELLO = Message("weather", "oslo", b"rain", 7)


def connection(role: Role, revision: Revision = Revision.DRAFT_2, **options: Any) -> Connection:
    """A connection of version OURS that speaks every other version."""
    settings: dict[str, Any] = {
        "instance_id": ME,
        "version": OURS,
        "speaks": lambda _version: True,
        "revision": revision,
        "now": 0.0,
    }
    return Connection(role, **(settings | options))


@contextmanager
def peak() -> Iterator[Callable[[], int]]:
    """Bytes that the block had allocated at once, at most."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    try:
        yield lambda: tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def feed(conn: Connection, *frames: Frame | bytes) -> list[Event]:
    """The events of these frames, or of raw bytes."""
    for frame in frames:
        conn.receive_data(frame if isinstance(frame, bytes) else encode(frame, conn.revision))
    return list(conn.events())


def where(conn: Connection) -> State:
    """The state, freshly read: to a type checker an attribute that was compared once stays what it was."""
    return conn.state


def shutting(conn: Connection) -> bool:
    """`wants_write_shutdown`, freshly read."""
    return conn.wants_write_shutdown


def sent(conn: Connection) -> bytes:
    return b"".join(conn.data_to_send())


def request(version: int = OURS, subscriptions: tuple[Subscription, ...] = LISTED, peer: UUID = PEER) -> Frame:
    return HandshakeRequest(version, peer, subscriptions)


def response(status: HandshakeStatus, version: int, subscriptions: tuple[Subscription, ...] = LISTED) -> Frame:
    return HandshakeResponse(version, PEER, status, subscriptions)


# The response that agrees with a client of version OURS, by the server's version.
ANSWERS = {
    OLDER: HandshakeStatus.OLDER,
    OURS: HandshakeStatus.SAME_VERSION,
    NEWER: HandshakeStatus.NEWER_COMPATIBLE,
}


def handshake(conn: Connection, version: int) -> None:
    """As far as AGREED, with a peer of that version."""
    if conn.role is Role.CLIENT:
        conn.receive_data(encode(response(ANSWERS[version], version), conn.revision))
        conn.next_event()
        if version < OURS:
            conn.accept()
        return
    conn.receive_data(encode(request(version), conn.revision))
    conn.next_event()
    conn.accept()
    if version > OURS:
        conn.receive_data(encode(HandshakeFinal(True), conn.revision))
        conn.next_event()


def _established(conn: Connection, version: int) -> None:
    handshake(conn, version)
    conn.next_event()


def _renewing(conn: Connection, version: int) -> None:
    _established(conn, version)
    feed(conn, request(version))


def _renewed(conn: Connection, version: int) -> None:
    _renewing(conn, version)
    conn.accept()


def _closing(conn: Connection, version: int) -> None:
    _established(conn, version)
    conn.close()


def _closed(conn: Connection, version: int) -> None:
    _established(conn, version)
    conn.receive_eof()
    assert list(conn.events()) == [Closed()]


def _decide(conn: Connection, version: int) -> None:
    feed(conn, request(version) if conn.role is Role.SERVER else response(HandshakeStatus.OLDER, version))


def _defer(conn: Connection, version: int) -> None:
    _decide(conn, version)
    conn.accept()


_ROUTES: dict[State, tuple[set[Role], set[int], Callable[[Connection, int], None]]] = {
    State.AWAITING_REQUEST: ({Role.SERVER}, {*VERSIONS}, lambda _conn, _version: None),
    State.AWAITING_RESPONSE: ({Role.CLIENT}, {*VERSIONS}, lambda _conn, _version: None),
    State.DECIDING: ({Role.SERVER}, {*VERSIONS}, _decide),
    State.CONFIRMING: ({Role.CLIENT}, {OLDER}, _decide),
    State.AWAITING_FINAL: ({Role.SERVER}, {NEWER}, _defer),
    State.AGREED: ({*Role}, {*VERSIONS}, handshake),
    State.ESTABLISHED: ({*Role}, {*VERSIONS}, _established),
    State.RENEWING: ({*Role}, {*VERSIONS}, _renewing),
    State.RENEWED: ({*Role}, {NEWER}, _renewed),
    State.CLOSING: ({*Role}, {*VERSIONS}, _closing),
    State.CLOSED: ({*Role}, {*VERSIONS}, _closed),
}
"""State -> the roles that can be in it, the peer's versions with which, and the way there."""

PLACES = [
    (state, role, version)
    for state, (roles, versions, _) in _ROUTES.items()
    for role in Role
    for version in VERSIONS
    if role in roles and version in versions
]
"""Every state with every role and peer that can be in it."""


def ways(state: State) -> list[tuple[Role, int]]:
    """The roles and peers' versions with which a connection can be in that state."""
    return [(role, version) for place, role, version in PLACES if place is state]


def reach(state: State, role: Role, version: int, revision: Revision = Revision.DRAFT_2, **options: Any) -> Connection:
    """A connection in that state, its output taken."""
    conn = connection(role, revision, **options)
    _ROUTES[state][2](conn, version)
    assert conn.state is state
    conn.data_to_send()
    return conn


class Side:
    """A connection, what it handed out and the units that it wrote."""

    def __init__(self, conn: Connection) -> None:
        self.conn = conn
        self.events: list[Event] = []
        self.units: list[bytes] = []

    @property
    def closed(self) -> Closed:
        """The last event, which must be Closed."""
        last = self.events[-1]
        assert isinstance(last, Closed)
        return last


Cut = Callable[[bytes], Sequence[bytes]]


def talk(client: Connection, server: Connection, cut: Cut = lambda unit: [unit], rounds: int = 20) -> tuple[Side, Side]:
    """Let two connections exchange what they have until both are quiet, accepting what waits for it.

    The transport is an orderly one: when a side wants its write side shut, the other reads the end of stream.
    """
    one, two = Side(client), Side(server)
    shut: set[Side] = set()
    for _ in range(rounds):
        moved = False
        for side, other in ((one, two), (two, one)):
            units = side.conn.data_to_send()
            side.units += units
            for piece in (piece for unit in units for piece in cut(unit)):
                other.conn.receive_data(piece)
                _take(other)
            if side.conn.wants_write_shutdown and side not in shut:
                shut.add(side)
                moved = True
                other.conn.receive_eof()
            _take(other)
            moved = moved or bool(units)
        if not moved:
            return one, two
    raise AssertionError(f"no end after {rounds} rounds: {one.events}, {two.events}")


def _take(side: Side) -> None:
    for event in side.conn.events():
        side.events.append(event)
        if side.conn.state in (State.DECIDING, State.CONFIRMING, State.RENEWING):
            side.conn.accept()
