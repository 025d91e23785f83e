"""Streams whose subscriber is absent, or goes without a word."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import repeat

import anyio
import pytest
from tolliver.anyio import Streams, StreamsOptions, create_streams

from tests.anyio.nodes import until
from tolliver_proto.reactive import UNBOUNDED, Limits

pytestmark = pytest.mark.anyio

ELEMENT = bytes(1000)
MANY = 1500  # more than the interpreter nests calls


@asynccontextmanager
async def connected(limits: Limits) -> AsyncIterator[tuple[Streams, Streams]]:
    """(publisher, subscriber), with one connection."""
    listening = StreamsOptions(listen="127.0.0.1:0", plaintext=True)
    async with (
        create_streams(listening) as publisher,
        create_streams(StreamsOptions(plaintext=True, limits=limits)) as subscriber,
    ):
        await subscriber.connect(f"127.0.0.1:{publisher.port}")
        yield publisher, subscriber


async def paused(streams: Streams) -> None:
    await until(lambda: streams.stats().get("paused"))


FEW_UNREAD = Limits(max_unread=65536, handshake_timeout=60)  # no timer that would set things going again


async def test_reading_goes_on_when_the_subscriber_does() -> None:
    async with connected(FEW_UNREAD) as (publisher, subscriber):
        publisher.publish("all at once", [ELEMENT] * 20_000)
        subscription = subscriber.subscribe("all at once", demand=UNBOUNDED)
        await paused(subscriber)
        assert len([element async for element in subscription]) == 20_000


async def test_reading_goes_on_when_a_stream_that_is_over_is_dropped() -> None:
    async with connected(Limits(max_unread=1000, handshake_timeout=60)) as (publisher, subscriber):
        cancelled = anyio.Event()

        async def late(_name: str) -> AsyncIterator[bytes]:
            await cancelled.wait()
            yield ELEMENT

        publisher.publish("few", [ELEMENT] * 2)
        publisher.publish("late", late)
        second = subscriber.subscribe("late", demand=UNBOUNDED)
        first = subscriber.subscribe("few", demand=UNBOUNDED)
        await paused(subscriber)
        with anyio.move_on_after(1):  # its end came with its elements, or it was not read
            await until(lambda: first.closed)
        first.cancel()
        cancelled.set()
        assert [element async for element in second] == [ELEMENT]


async def test_any_number_of_subscriptions_may_be_dropped_at_once() -> None:
    async with connected(Limits(max_streams=MANY)) as (publisher, subscriber):
        publisher.publish("endless", lambda _name: repeat(ELEMENT))
        subscriptions = [subscriber.subscribe("endless", demand=0) for _ in range(MANY)]
        assert subscriber.stats()["streams_taken"] == MANY
        del subscriptions
        await until(lambda: not subscriber.stats()["streams_taken"])
        async with subscriber.subscribe("endless") as another:
            assert await anext(another) == ELEMENT


async def test_an_id_that_is_used_again_before_its_feed_has_begun() -> None:
    async with connected(Limits()) as (publisher, subscriber):
        publisher.publish("endless", lambda _name: repeat(ELEMENT))
        for _ in range(200):  # ids up to 127 are all used once before one of them is used again
            subscriber.subscribe("endless", demand=0).cancel()
        assert subscriber.stats()["streams_taken"] == 0
        for _ in range(100):
            async with subscriber.subscribe("endless") as another:
                subscriber.subscribe("endless").cancel()
                assert await anext(another) == ELEMENT
