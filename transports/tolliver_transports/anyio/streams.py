"""Reactive Streams on asyncio and trio: the calls in the form that tasks know."""

from __future__ import annotations

from typing import Any, cast

from .._options.instance import Remote
from .._options.streams import StreamsOptions
from .._streams.async_streams import AsyncOutboundStream, Subscription
from .._streams.publishing import Publication
from .._streams.streams import BaseStreams, Key, Peer
from .endpoint import Endpoint


class Streams(Endpoint, BaseStreams):
    """Running streams: use `async with create_streams(options) as streams`."""

    # The calls, each explained where BaseStreams has it.

    async def connect(self, remote: str | Remote, *, timeout: float | None = None) -> Peer:
        cid, promise = self._dial(remote)
        try:
            return cast(Peer, await promise.wait(timeout))
        except BaseException:
            self._give_up(cid)
            raise

    def subscribe(
        self,
        name: str,
        *,
        demand: int | None = None,
        prefetch: int | None = None,
        codec: Any = None,
        peer: Peer | None = None,
    ) -> Subscription:
        intake = super().subscribe(name, demand=demand, prefetch=prefetch, codec=codec, peer=peer)
        return Subscription(self, intake)

    def feed(self, key: Key, name: str, publication: Publication, grant: int) -> AsyncOutboundStream:
        return AsyncOutboundStream(self, key, name, publication, grant)


def create_streams(options: StreamsOptions) -> Streams:
    """`async with create_streams(options) as streams:` listens, and closes in order.

    Entering raises CertificateError, and ConnectionLost where it cannot listen.
    """
    return Streams(options)
