"""Relays whose subscribers leave: each is cancelled upstream, and nothing of it stays (rule 4.1).

The relay is a victim: it dials us, and gives on what we publish. We subscribe there, on the same connection, and leave:
at once, while the relay waits for demand, for its first element, or for the next one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from itertools import cycle, islice
from time import monotonic
from typing import Any, NamedTuple

import anyio
from tolliver.anyio import Peer, Streams, StreamsOptions, Subscription, create_streams

from tests.certificates import Certificates

from .facade import Stuck, deadline
from .victim import Relay, Usage

PIECE = 25  # relays at once
FORMS = ("passed on", "mapped", "itself")


class Way(NamedTuple):
    """Demand of a subscriber, and what it gets and waits for before it leaves."""

    demand: int
    elements: int
    begun: bool = True


WAYS = (
    Way(1, 1),  # the relay waits for demand
    Way(10, 0),  # for the first element
    Way(10, 1),  # for the next one
    Way(1, 0, begun=False),  # the subscriber leaves at once
)


async def source(name: str) -> AsyncIterator[bytes]:
    """As many elements as the name says, and then none, for ever."""
    for _ in range(int(name.split()[-1])):
        yield b"x"
    await anyio.sleep_forever()


async def relay_and_leave(certs: Certificates, relay: Relay, count: int, warm_up: int = 0) -> Usage:
    """Growth of the relay's usage after so many have left, counted from when the first ones had."""
    options = StreamsOptions(listen="127.0.0.1:0", tls=certs.tls("mallory"))
    async with create_streams(options) as streams:
        streams.publish("in *", source)
        await anyio.to_thread.run_sync(relay.relay, f"127.0.0.1:{streams.port}")
        await _until(lambda: streams.peers(), "the relay")
        await _leave(streams, relay, warm_up)
        before = relay.usage()
        await _leave(streams, relay, count)
        await _until(lambda: not relay.stats()["streams_given"], "the end of what it gives")
        await _until(lambda: not relay.stats()["streams_taken"], "the end of what it takes")
        await _until(lambda: relay.usage().threads <= before.threads, "the end of its threads")
        return relay.usage().since(before)


async def _leave(streams: Streams, relay: Relay, count: int) -> None:
    (peer,) = streams.peers()
    for way, form, number in islice(_pieces(count), count):
        await _leave_some(streams, peer, relay, way, form, number)


def _pieces(count: int) -> Iterator[tuple[Way, str, int]]:
    for way, form in cycle((way, form) for way in WAYS for form in FORMS):
        if count <= 0:
            return
        yield way, form, min(PIECE, count)
        count -= PIECE


async def _leave_some(streams: Streams, peer: Peer, relay: Relay, way: Way, form: str, count: int) -> None:
    name = f"in {way.elements}"
    if form == "itself":
        await anyio.to_thread.run_sync(relay.give_itself, name, count)
    names = [f"{form} {number} {name}" for number in range(count)]
    taken: list[Subscription[Any]] = [peer.subscribe(one, demand=way.demand, prefetch=0) for one in names]
    if way.begun:
        for one in taken:
            for _ in range(way.elements):
                assert await anext(one)
        await _until(lambda: streams.stats().streams_given == count, "all relays upstream")
        await _until(lambda: all(one.element_size is not None for one in taken), "all that were asked for")
    for one in taken:
        one.cancel()
    if way.begun:
        await _until(lambda: not streams.stats().streams_given, "the cancel of every relay")
    if form == "itself":  # one that was not begun waits for another subscriber, until it is cancelled
        await anyio.to_thread.run_sync(relay.take_back)
    await _until(lambda: not streams.stats().streams_given, "the cancel of every relay")


async def _until(true: Callable[[], object], what: str) -> None:
    end = monotonic() + deadline.patience()
    while not true():
        if monotonic() > end:
            raise Stuck(f"{what} did not come true")
        await anyio.sleep(0.001)
