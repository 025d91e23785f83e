"""Peer of Reactive Streams under the contract of the conformance kit: our implementation, on each adapter.

It publishes streams of its own, subscribes to `conform.in` of whoever is connected, and passes on under `conform.out`
what it takes there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import count
from threading import Event, Timer
from typing import Any

from attrs import evolve
from tolliver._options.streams import StreamsOptions
from tolliver.events import StreamsEvent, StreamsPeerDown, StreamsPeerUp

from tests.adapters.facade import Gate, World, deadline
from tests.adapters.kinds import make_world
from tolliver_proto.reactive import StreamError

ADAPTERS = {"asyncio": "asyncio", "trio": "trio", "twisted": "twisted", "threads": "blocking"}
"""By the name that a user gives: the kind of the tests."""

IN, OUT = "conform.in", "conform.out"
DEMAND = 16  # elements, of which the contract has it ask for 1 to 64
PAUSE = 0.1  # seconds from the end of a connection to the next dial
NUMBERS = 100


def _failing(_name: str) -> Iterator[bytes]:
    yield from (b"0", b"1", b"2")
    raise ValueError("conform.fail has an error behind its third element")


def _endless(_name: str) -> Iterator[bytes]:
    return (b"%d" % number for number in count())


class _Outlet:
    """Elements for one subscriber of `conform.out`, one of a list. One thread puts them, another takes them."""

    def __init__(self, all_of_them: list[_Outlet]) -> None:
        self._all = all_of_them
        self._all.append(self)
        self._waiting: deque[bytes] = deque()
        self._more = Gate()

    def put(self, element: bytes) -> None:
        self._waiting.append(element)
        self._more.open()

    def close(self) -> None:
        """End it: its stream is over, or the peer is closed. The second time does nothing."""
        if self in self._all:
            self._all.remove(self)
            self._more.open(EOFError("the peer is closed"))

    def __iter__(self) -> Iterator[bytes | Gate]:
        while True:
            more = self._more = Gate()  # before the look: what is put after it opens this one
            while self._waiting:
                yield self._waiting.popleft()
            yield more


class _Peer:
    """Streams of the contract, in their world."""

    def __init__(self, world: World, remotes: Sequence[str]) -> None:
        self._world = world
        self._remotes = remotes
        self._outlets: list[_Outlet] = []
        self._over = Event()
        self._streams: Any = None

    def begin(self, streams: Any) -> None:
        self._streams = streams
        streams.publish("conform.count", [b"%d" % number for number in range(NUMBERS)])
        streams.publish("conform.sized", [number.to_bytes(4, "big") for number in range(NUMBERS)], element_size=4)
        streams.publish("conform.fail", _failing)
        streams.publish("conform.endless", _endless)
        streams.publish(OUT, self._passed_on)

    def dial(self) -> None:
        for remote in self._remotes:
            self._dial(remote)

    def _dial(self, remote: str) -> None:
        if not self._over.is_set():
            dialled = self._world.start("connect", lambda: self._streams.connect(remote, timeout=10))
            dialled.then(partial(self._dialled, remote))

    def _dialled(self, remote: str, outcome: object) -> None:
        if isinstance(outcome, Exception):
            self._later(remote)

    def _later(self, remote: str) -> None:
        timer = Timer(PAUSE, self._dial, (remote,))
        timer.daemon = True
        timer.start()

    def _passed_on(self, _name: str) -> Any:
        return self._world.waiting(_Outlet(self._outlets))

    def _put(self, element: bytes) -> None:
        for outlet in tuple(self._outlets):
            outlet.put(element)

    def on_event(self, event: StreamsEvent[Any]) -> None:
        if isinstance(event, StreamsPeerUp):
            taking = event.peer.subscribe(IN, prefetch=DEMAND)
            self._world.start("take", partial(taking.for_each, self._put)).then(self._ended)
        elif isinstance(event, StreamsPeerDown) and event.peer.remote is not None:
            self._later(str(event.peer.remote))

    def _ended(self, outcome: object) -> None:
        """A stream that goes with its connection does not end: a late `error` would reach the next one."""
        if outcome is None or isinstance(outcome, StreamError):
            self._put(b"complete" if outcome is None else b"error")

    def close(self) -> None:
        self._over.set()
        for outlet in tuple(self._outlets):
            outlet.close()


@contextmanager
def streams_contract(adapter: str, options: StreamsOptions, remotes: Sequence[str] = ()) -> Iterator[int | None]:
    """The port that it listens on, if it does. It dials the remotes, and again after each connection."""
    with closing(make_world(ADAPTERS[adapter])) as world, closing(_Peer(world, remotes)) as peer:
        streams, close = world.open(evolve(options, on_event=peer.on_event))
        try:
            world.start("publish", lambda: peer.begin(streams)).wait()
            peer.dial()
            yield streams.port
        finally:
            deadline.restart()
            peer.close()
            close().wait()
