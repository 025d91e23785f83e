"""A stream that is ended by what its source yielded, while the source waits for what comes next."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest
from tolliver_transports.anyio import StreamsOptions, create_streams

from tests.anyio.nodes import until
from tolliver_proto.reactive import StreamError


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("element", "text"), [("text", "must be bytes"), (b"five.", "4")], ids=["no-bytes", "wrong-size"]
)
async def test_its_source_does_not_wait_any_longer(element: object, text: str) -> None:
    closed = anyio.Event()

    async def source(_name: str) -> AsyncIterator[object]:
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
