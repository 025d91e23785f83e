"""Messages of an instance as streams: the bridge of `tolliver run`."""

from __future__ import annotations

import anyio
from attrs import define

from .._options.streams import StreamsOptions
from ..anyio import Instance, bridge, create_streams
from . import words


@define(frozen=True)
class Bridge:
    """Names of streams, and where they are. `files` is what stood in the files that its options name."""

    options: StreamsOptions
    names: tuple[str, ...]
    subscribe: bool
    files: tuple[bytes, ...]


class Bridging:
    """A bridge at work, which may change: subscribers then connect again."""

    def __init__(self, instance: Instance, wanted: Bridge | None) -> None:
        self._instance = instance
        self._wanted = wanted
        self._scope = anyio.CancelScope()

    def change(self, wanted: Bridge | None) -> None:
        if wanted != self._wanted:
            self._wanted = wanted
            self._scope.cancel()

    async def keep(self) -> None:
        """Until it is cancelled. Raises CertificateError and CannotListen."""
        while True:
            with anyio.CancelScope() as self._scope:
                if self._wanted is not None:
                    await self._serve(self._wanted)
                await anyio.sleep_forever()

    async def _serve(self, wanted: Bridge) -> None:
        async with create_streams(wanted.options) as streams:
            for name in wanted.names:
                streams.publish(name, bridge(self._instance, subscribe=wanted.subscribe))
            where = ", ".join(f"{host}:{port}" for host, port in streams.addresses)
            words.say(f"streams {', '.join(map(words.name, wanted.names))} of messages are on {where}")
            await anyio.sleep_forever()
