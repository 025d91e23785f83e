"""Streams whose last word comes when nothing else happens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import repeat
from typing import Any

import anyio
import pytest
from tolliver.anyio import Streams, StreamsOptions, create_streams

from tolliver_proto.reactive import UNBOUNDED, Limits, StreamError

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def pair(**options: Any) -> AsyncIterator[tuple[Streams, Streams]]:
    """A publisher, and a subscriber that is connected to it. The options are the subscriber's."""
    async with (
        create_streams(StreamsOptions(listen="127.0.0.1:0", plaintext=True)) as publisher,
        create_streams(StreamsOptions(plaintext=True, **options)) as subscriber,
    ):
        await subscriber.connect(f"127.0.0.1:{publisher.port}")
        yield publisher, subscriber


async def test_a_last_element_of_a_wrong_size_is_told() -> None:
    """R-24."""
    async with pair() as (publisher, subscriber):
        publisher.publish("mixed", [b"aa", b"b"], element_size=2)
        subscription = subscriber.subscribe("mixed")
        with anyio.fail_after(5):  # before the next timer makes a turn
            assert await anext(subscription) == b"aa"
            with pytest.raises(StreamError, match=r"rule 1\.4"):
                await anext(subscription)


async def test_what_is_not_read_for_a_while_is_read_again() -> None:
    """A connection that is read no longer, as too much has come, is read again when that is taken."""
    async with pair(limits=Limits(max_unread=1000)) as (publisher, subscriber):
        publisher.publish("large", lambda _name: repeat(bytes(10_000), 300))
        taken = [element async for element in subscriber.subscribe("large", demand=UNBOUNDED)]
        assert len(taken) == 300


async def test_many_are_dropped_at_once() -> None:
    async with pair(limits=Limits(max_streams=2001)) as (publisher, subscriber):
        publisher.publish("good", [b"x"])
        dropped = [subscriber.subscribe("nothing") for _ in range(2000)]
        dropped.clear()
        assert [element async for element in subscriber.subscribe("good")] == [b"x"]
        assert not subscriber.stats()["streams_taken"]
