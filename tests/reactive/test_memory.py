"""Memory and time of streams, counted instead of timed.

All that is over costs nothing, what is announced costs nothing, and time is linear.

These tests watch every allocation, so they stay out of the coverage run.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tolliver_proto._common import buffer
from tolliver_proto.reactive import (
    UNBOUNDED,
    ClientHello,
    Closed,
    Connection,
    Limits,
    OnComplete,
    OnNext,
    Role,
    ServerHello,
    Subscribe,
    Subscribed,
    encode,
)

CYCLES = 20_000


@contextmanager
def traced() -> Iterator[list[int]]:
    """[kept, at most] bytes of Python objects, once it is over."""
    figures: list[int] = []
    tracemalloc.start()
    try:
        yield figures
        figures += tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


def joined() -> tuple[Connection, Connection]:
    client, server = Connection(Role.CLIENT), Connection(Role.SERVER)
    for _ in range(2):
        exchange(client, server)
    return client, server


def exchange(client: Connection, server: Connection) -> None:
    for one, two in ((client, server), (server, client)):
        for unit in one.data_to_send():
            two.receive_data(unit)
        for _ in two.events():
            pass


@pytest.mark.parametrize("last", [b"", encode(OnNext(1, b"x"))[:-1], b"\xff" * 11], ids=["eof", "cut", "no frame"])
def test_a_connection_is_freed_when_it_is_let_go(last: bytes) -> None:
    """At once, and not with the next full garbage collection, which counts no bytes: its last event is held still."""
    gc.disable()
    try:
        client, server = joined()
        client.receive_data(last)
        client.receive_eof()
        events = list(client.events())
        assert isinstance(events[-1], Closed)
        parts = [weakref.ref(one) for one in (client, server, client._decoder)]
        del client, server
        assert [part() for part in parts] == [None, None, None]
    finally:
        gc.enable()


@pytest.mark.parametrize("end", ["cancel", "complete", "cancel before the answer"])
@pytest.mark.parametrize("size", [0, 4])
def test_streams_that_are_over_leave_nothing(end: str, size: int) -> None:
    """3.13: the slope is zero."""
    client, server = joined()

    def cycle() -> None:
        stream = client.subscribe("p", 1)
        if end == "cancel before the answer":
            client.cancel(stream)
        exchange(client, server)
        server.subscribed(stream, size)
        if end == "complete":
            server.complete(stream)
        exchange(client, server)
        client.cancel(stream)
        exchange(client, server)

    kept = []
    with traced():
        for _ in range(2):
            for _ in range(CYCLES // 20):
                cycle()
            kept.append(tracemalloc.get_traced_memory()[0])
    assert kept[1] - kept[0] < 512, "bytes kept of 1,000 streams"


def test_each_element_asks_for_the_next_on_a_small_stack() -> None:
    """3.3, scaled to the time of a test run: each element's handling requests one more."""
    client, server = joined()
    stream = client.subscribe("p", 1)
    exchange(client, server)
    server.subscribed(stream)
    limit, count = sys.getrecursionlimit(), 0
    depth = len([*_frames()])
    sys.setrecursionlimit(depth + 60)
    try:
        while count < CYCLES:
            server.next(stream, b"x")
            for unit in server.data_to_send():
                client.receive_data(unit)
            for event in client.events():
                if isinstance(event, OnNext):
                    count += 1
                    client.request(stream, 1)
            for unit in client.data_to_send():
                server.receive_data(unit)
            for _ in server.events():
                pass
    finally:
        sys.setrecursionlimit(limit)


def _frames() -> Iterator[object]:
    frame = sys._getframe()
    while frame.f_back:
        frame = frame.f_back
        yield frame


HOSTILE = [
    encode(ClientHello()) + bytes([code, 1]) + b"\xff" * 9 + b"\1" + b"\xff" * 9 + b"\1" for code in range(3, 12)
] + [b"\1\0" + b"\xff" * 9 + b"\1"]


def test_hostile_heads_cost_nothing() -> None:
    """V11: 2^64-1 of anything, refused at the number."""
    for data in HOSTILE:
        with traced() as figures:
            conn = Connection(Role.SERVER)
            conn.receive_data(data)
            for _ in conn.events():
                pass
        assert figures[1] < 64 * 1024


def test_a_large_element_byte_by_byte_is_joined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linear time, counted in copied bytes."""
    copied = 0

    def join(parts: list[bytes]) -> bytes:
        nonlocal copied
        data = b"".join(parts)
        copied += len(data)
        return data

    monkeypatch.setattr(buffer, "_join", join)
    client = Connection(Role.CLIENT)
    stream = client.subscribe("p", UNBOUNDED)
    client.receive_data(encode(ServerHello()) + encode(Subscribed(stream)))
    data = encode(OnNext(stream, bytes(50_000))) * 3 + encode(OnComplete(stream))
    events = 0
    for at in range(len(data)):
        client.receive_data(data[at : at + 1])
        events += len([*client.events()])
    assert events == 2 + 3 + 1
    assert copied < 3 * len(data)


def test_a_hello_of_many_extensions_byte_by_byte() -> None:
    """It goes on where it stopped."""
    data = encode(ClientHello(0, tuple(range(2**64 - 1024, 2**64))))
    server = Connection(Role.SERVER)
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        for at in range(len(data)):
            server.receive_data(data[at : at + 1])
            server.next_event()
    finally:
        sys.setprofile(None)
    assert server.state.name == "OPEN"
    assert calls < 40 * len(data)


def test_subscribes_that_are_not_answered_are_bounded() -> None:
    """A peer's subscriptions cost memory up to `max_streams`; beyond that each is refused."""
    server = Connection(Role.SERVER, limits=Limits(max_streams=10_000))
    server.receive_data(encode(ClientHello()))
    with traced() as figures:
        for number in range(15_000):
            server.receive_data(encode(Subscribe("p", number, 1)))
            for _ in server.events():
                pass
            server.data_to_send()
    assert figures[0] < 10_000 * 400
