"""Programs that asyncio runs: nothing in their context says so where the loop itself calls, as it does below anyio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from tolliver.anyio import StreamsOptions, create_streams

LIMIT = 20.0  # seconds


def test_a_stream_is_given_to_whoever_subscribes() -> None:
    async def elements(_name: str) -> AsyncIterator[bytes]:
        for element in (b"1", b"2"):
            await asyncio.sleep(0)
            yield element

    async def main() -> None:
        async with (
            asyncio.timeout(LIMIT),
            create_streams(StreamsOptions(listen="127.0.0.1:0", plaintext=True)) as publisher,
            create_streams(StreamsOptions(plaintext=True)) as subscriber,
        ):
            await subscriber.connect(f"127.0.0.1:{publisher.port}")
            publisher.publish("plain", [b"1", b"2"])
            publisher.publish("async", elements)
            for name in ("plain", "async"):
                assert [element async for element in subscriber.subscribe(name)] == [b"1", b"2"]

    asyncio.run(main())
