"""Core of streams on asyncio and trio."""

from __future__ import annotations

from typing import TypeVar

from tolliver_proto.node import check_timeout

from .._driver.events import OnEvent, call_on_loop
from .._options.instance import Remote
from .._streams.async_streams import AsyncOutboundStream, Subscription
from .._streams.loop_streams import LoopStreamsCore
from .._streams.peers import BasePeer
from .._streams.publishing import Publication
from .._streams.streams import Key
from ..codecs._codec import coding_of
from .endpoint import Endpoint
from .threads import off_loop

P = TypeVar("P", bound=BasePeer)
T = TypeVar("T")


class StreamsCore(Endpoint, LoopStreamsCore[P]):
    """Running streams for a program on asyncio or trio, without their public calls, which `Streams` has. Owns the hub,
    the publications and the subscriptions.
    """

    def outbound(self, key: Key, name: str, publication: Publication, grant: int) -> AsyncOutboundStream:
        return AsyncOutboundStream(self, key, name, publication, grant)

    def call_on_event(self, function: OnEvent) -> None:
        call_on_loop(self, self.feed, function)

    async def connected(self, remote: str | Remote, timeout: float | None) -> P:
        check_timeout(timeout)
        cid, call = self.connect(remote)
        try:
            return await self.wait(call, timeout)
        except BaseException:
            self.give_up(cid)
            raise

    async def reload_tls(self) -> None:
        self.check_open()
        pumps = await off_loop(self.read_tls)
        self.check_open()
        self.use_tls(pumps)

    def subscription(
        self, name: str, demand: int | None, prefetch: int | None, codec: object, peer: P | None
    ) -> Subscription[T]:
        wakeup = self.wakeup()
        return Subscription(self, self.subscribe(name, demand, prefetch, coding_of(codec), peer, wakeup), wakeup)
