"""Release of connections at once, without the garbage collector (D-12).

A full collection comes when objects have become a quarter more, and counts no bytes. A connection in a circle of
references would keep what it has read of a frame, up to the largest body, until some hundreds of others have ended.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from tolliver_proto import Closed, Connection, Event, HandshakeRequest, Role, encode

from .drive import HELLO, PEER, connection, feed

REQUEST = encode(HandshakeRequest(5, PEER))
WHOLE = encode(HELLO)


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def _end(conn: Connection, data: bytes) -> list[Event]:
    events = feed(conn, REQUEST)
    conn.accept()
    events += feed(conn, data)
    conn.receive_eof()
    return events + list(conn.events())


@pytest.mark.parametrize(
    ("data", "ended_well"),
    [(WHOLE, True), (WHOLE + WHOLE[:-1], False), (b"\xff", False), (REQUEST[:20] + bytes(len(REQUEST) - 20), False)],
    ids=["in order", "inside a frame", "no frame", "another peer"],
)
def test_a_connection_is_freed_when_it_is_let_go(data: bytes, ended_well: bool) -> None:
    """Also while its last event, and the error in that, are still held."""
    conn = connection(Role.SERVER)
    events = _end(conn, data)
    assert isinstance(events[-1], Closed)
    assert (events[-1].error is None) is ended_well
    parts: list[weakref.ref[Any]] = [weakref.ref(conn), weakref.ref(conn._decoder)]
    del conn
    assert [part() for part in parts] == [None, None]
