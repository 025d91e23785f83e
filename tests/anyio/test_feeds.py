"""Sources of streams that end: they hear of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from tolliver._streams.publishing import OutboundStream
from tolliver.anyio import StreamsOptions, create_streams

from tests.anyio.nodes import until
from tolliver_proto.reactive import StreamError


class Source:
    """One that is told."""

    def __init__(self) -> None:
        self.times_over = 0

    def __iter__(self) -> Iterator[bytes]:
        return iter([b"1", b"2"])

    def _attach_outbound(self, feed: OutboundStream) -> None:
        feed.on_over = self._over

    def _over(self) -> None:
        self.times_over += 1


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["cancel", "loss", "completion"])
async def test_a_source_is_told_once_however_its_stream_ends(how: str) -> None:
    sources: list[Source] = []

    def source(_name: str) -> Source:
        sources.append(Source())
        return sources[-1]

    async with create_streams(StreamsOptions(listen="127.0.0.1:0", plaintext=True)) as giver:
        giver.publish("numbers", source)
        async with create_streams(StreamsOptions(plaintext=True)) as taker:
            await taker.connect(f"127.0.0.1:{giver.port}")
            async with taker.subscribe("numbers", demand=1, prefetch=0) as stream:
                await anext(stream)
                assert [one.times_over for one in sources] == [0]
                if how == "loss":
                    taker.goodbye(taker.peers()[0])
                elif how == "completion":
                    stream.request(2)
            await until(lambda: not giver.stats()["streams_given"])
        assert [one.times_over for one in sources] == [1]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("element", "text"), [("text", "must be bytes"), (b"five.", "4")], ids=["no-bytes", "wrong-size"]
)
async def test_what_a_source_yields_may_end_it_while_it_waits(element: object, text: str) -> None:
    closed = anyio.Event()

    async def source(_name: str) -> AsyncIterator[Any]:
        try:
            yield element
            await anyio.sleep_forever()
        finally:
            closed.set()

    async with (
        create_streams(StreamsOptions(listen="127.0.0.1:0", plaintext=True)) as giver,
        create_streams(StreamsOptions(plaintext=True)) as taker,
    ):
        giver.publish("numbers", source, element_size=4)
        await taker.connect(f"127.0.0.1:{giver.port}")
        with pytest.raises(StreamError, match=text):
            await anext(taker.subscribe("numbers"))
        await closed.wait()
        await until(lambda: not giver.stats()["streams_given"])


class Interrupts:
    """A codec in which somebody presses Ctrl-C, once."""

    def __init__(self) -> None:
        self._left = [KeyboardInterrupt()]

    def encode(self, value: bytes) -> bytes:
        return value

    def decode(self, data: bytes) -> bytes:
        if self._left:
            raise self._left.pop()
        return data


@pytest.mark.anyio
async def test_an_interrupt_is_no_failure_of_the_codec() -> None:
    async with (
        create_streams(StreamsOptions(listen="127.0.0.1:0", plaintext=True)) as giver,
        create_streams(StreamsOptions(plaintext=True)) as taker,
    ):
        giver.publish("numbers", [b"1", b"2"])
        await taker.connect(f"127.0.0.1:{giver.port}")
        stream = taker.channel("numbers", codec=Interrupts()).subscribe(prefetch=1)
        with pytest.raises(KeyboardInterrupt):
            await anext(stream)
        assert [element async for element in stream] == [b"2"]


@pytest.mark.anyio
async def test_a_scope_around_the_streams_does_not_cut_the_end_of_a_source() -> None:
    ends: list[str] = []

    async def source(_name: str) -> AsyncIterator[bytes]:
        try:
            yield b"1"
            await anyio.sleep_forever()
        finally:
            ends.append("begun")
            await anyio.lowlevel.checkpoint()
            ends.append("done")

    with anyio.CancelScope() as scope:
        async with (
            create_streams(StreamsOptions(listen="127.0.0.1:0", plaintext=True)) as giver,
            create_streams(StreamsOptions(plaintext=True)) as taker,
        ):
            giver.publish("numbers", source)
            await taker.connect(f"127.0.0.1:{giver.port}")
            await anext(taker.subscribe("numbers"))
            scope.cancel()
    assert ends == ["begun", "done"]
