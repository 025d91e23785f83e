"""The peer of `tolliver bench`.

It accepts messages, answers requests, and publishes streams. All its names begin with `tolliver-bench/`. Messages are
counted by key, and a request for a key returns the count; a stream's name has the number and size of its elements.
"""

from __future__ import annotations

import os
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator
from time import perf_counter

import anyio

from tolliver_proto import Delivery
from tolliver_proto.reactive import Limits

from .._options.instance import InstanceOptions
from .._options.streams import StreamsOptions
from ..anyio import Instance, Streams, create_instance, create_streams
from . import words

PUBLISH = "tolliver-bench/publish"
SEND = "tolliver-bench/send"
REQUEST = "tolliver-bench/request"
COUNT = "tolliver-bench/count"
STREAM = "tolliver-bench/stream"
_STAMP = struct.Struct("<d")
_KEYS = 1000  # most keys with counts: the newest
Taken = Callable[[Delivery], object]


class Filler:
    """Makes bodies of one size in bytes, each with its time of creation if there is space for that."""

    def __init__(self, size: int) -> None:
        self._rest = os.urandom(max(0, size - _STAMP.size))
        self._plain = os.urandom(size) if size < _STAMP.size else None

    def body(self) -> bytes:
        return self._plain if self._plain is not None else _STAMP.pack(perf_counter()) + self._rest


def age(body: bytes) -> float | None:
    """Seconds since the body was created, in this process; None if it has no time of creation."""
    return perf_counter() - _STAMP.unpack_from(body)[0] if len(body) >= _STAMP.size else None


async def take(instance: Instance, taken: Taken) -> None:
    """Make this instance the peer of a benchmark; `taken` is called with each message."""
    counts: OrderedDict[str, int] = OrderedDict()

    def came(delivery: Delivery) -> None:
        counts[delivery.key] = counts.get(delivery.key, 0) + 1
        if len(counts) > _KEYS:
            counts.popitem(last=False)
        taken(delivery)

    for channel in (PUBLISH, SEND):
        instance.register_callback(channel, "", came)
        await instance.subscribe(channel)
    instance.respond(REQUEST, lambda request: request.body)
    instance.respond(COUNT, lambda request: str(counts.get(request.key, 0)).encode())


def stream_name(size: int, count: int) -> str:
    return f"{STREAM}/{size}/{count}"


def publish(streams: Streams) -> None:
    """Publish a stream for each name of the form that `stream_name` makes."""
    streams.publish(f"{STREAM}/*", _elements)


def _elements(name: str) -> Iterator[bytes]:
    size, count = map(int, name.rsplit("/", 2)[1:])
    if not 0 <= size <= Limits().max_element:
        raise ValueError(f"an element has at most {Limits().max_element:,} bytes")
    filler = Filler(size)
    return (filler.body() for _ in range(count))


async def serve_messages(options: InstanceOptions) -> None:
    """Serve as the peer for messages, for ever."""
    async with create_instance(options) as instance:
        await take(instance, lambda _delivery: None)
        _say(instance.addresses, "publish, send and request")
        await anyio.sleep_forever()


async def serve_streams(options: StreamsOptions) -> None:
    """Serve as the peer for streams, for ever."""
    async with create_streams(options) as streams:
        publish(streams)
        _say(streams.addresses, "stream")
        await anyio.sleep_forever()


def _say(addresses: list[tuple[str, int]], kinds: str) -> None:
    words.say(f"the other end of `tolliver bench` for {kinds}{words.listening(addresses)}; Ctrl-C ends")
