"""Streams where one awaits: subscriptions and feeds for asyncio, trio and Twisted alike.

The idea: as in `_iterators`, nothing here knows the loop. All that is ever awaited is a bell, the application's own
source and `breathe()`, and each adapter brings these in its own form.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from itertools import islice
from operator import length_hint
from typing import Any, Protocol, Self, TypeVar

from .publishing import OutboundOwner, OutboundStream, Publication
from .subscribing import InboundStream, check_handler

T = TypeVar("T")


class AsyncFeedOwner(OutboundOwner, Protocol):
    """What a feed asks for beside."""

    def spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], object]: ...

    def turn_soon(self) -> None: ...

    def breathe(self) -> Awaitable[object]: ...


class AsyncOutboundStream(OutboundStream):
    """A feed with a task of its own. A plain iterable must not block: use an async one, or a thread's adapter."""

    def __init__(
        self, owner: AsyncFeedOwner, key: tuple[int, int], name: str, publication: Publication, grant: int
    ) -> None:
        super().__init__(owner, key, name, publication, grant)
        self._loop = owner
        self._pulling = False  # it waits for the source, not for us
        self._stop = owner.spawn(self._work)

    def cancelled(self) -> None:
        super().cancelled()
        if self._pulling:
            self._stop()

    async def _work(self) -> None:
        try:
            source = await self._open()
            self.begin(source)
            if hasattr(source, "__aiter__"):
                await self._pull_async(aiter(source))
            else:
                await self._pull(iter(source))
        except Exception as error:
            self.fail(error)
        else:
            self.complete()

    async def _open(self) -> Any:
        source = self._publication.open(self.name)
        return await self._from_source(source) if hasattr(source, "__await__") else source

    async def _pull(self, iterator: Iterator[Any]) -> None:
        try:
            while await self._wanted() and self.add_many(islice(iterator, self.credit)):
                pass
        finally:
            close = getattr(iterator, "close", None)
            if close is not None:
                close()

    async def _pull_async(self, iterator: AsyncIterator[Any]) -> None:
        try:
            while not self.over and (self.credit or await self._wanted()):
                try:
                    element = await self._from_source(anext(iterator))
                except StopAsyncIteration:
                    return
                self.add(element)
        finally:
            close = getattr(iterator, "aclose", None)
            if close is not None:
                await close()

    async def _from_source(self, answer: Awaitable[T]) -> T:
        self._pulling = True
        try:
            return await answer
        finally:
            self._pulling = False

    async def _wanted(self) -> bool:
        """Waits until something may be pulled. False: the stream is over."""
        sent = self._sent
        wanted = self.look()
        if self._sent > sent:
            self._loop.turn()
        else:
            self._loop.turn_soon()  # it has begun, as many others may have: the answers go out together
        if wanted and self._sent > sent:
            await self._loop.breathe()
        while not self.over:
            if self.look():
                return True
            await self.bell.heard()
        return False


class SubscriptionOwner(Protocol):
    """What a subscription asks of its streams."""

    def abandon(self, dropped: InboundStream) -> None: ...


class Subscription:
    """The elements of a stream: `async for element in subscription`, for one task.

    Use `async with` around it where the loop may be left early: that cancels the stream at once.
    """

    _intake: InboundStream | None = None

    def __init__(self, streams: SubscriptionOwner, intake: InboundStream) -> None:
        self._streams = streams
        self._intake = intake
        self._current: Iterator[Any] = iter(())

    @property
    def element_size(self) -> int | None:
        """Bytes of each element as the publisher declared, 0 where they differ; None before it has answered."""
        return self._its.element_size

    @property
    def closed(self) -> bool:
        """Whether it is over: nothing more comes than has come already."""
        return self._its.closed

    @property
    def _its(self) -> InboundStream:
        assert self._intake is not None
        return self._intake

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        for element in self._current:
            return element
        self._current = iter(await self._next())
        return next(self._current)

    async def runs(self) -> AsyncIterator[list[Any]]:
        """For bulk: lists of elements that have come, at most a quarter of the window each."""
        try:
            while True:
                yield await self._next()
        except StopAsyncIteration:
            return

    async def for_each(self, handler: Callable[[Any], Any]) -> None:
        """Call the handler, plain or async, with each element, until the stream ends. If it raises, that cancels."""
        check_handler(handler)
        async with self:
            async for element in self:
                answer = handler(element)
                if answer is not None and hasattr(answer, "__await__"):
                    await answer

    async def _next(self) -> list[Any]:
        intake = self._its
        while not (elements := intake.take()):
            if intake.closed:
                raise StopAsyncIteration
            await intake.bell.heard()
        return elements

    def request(self, count: int) -> None:
        """Grant `count` more elements, beside what the window grants. Below 1 ends the stream with an error (R-16)."""
        self._its.request(count)

    def cancel(self) -> None:
        """Want no more. Does nothing where the stream is over."""
        self._current = iter(())
        self._its.close()

    def _attend_feed(self, feed: OutboundStream) -> None:
        """As the source of a publication: its feed sees the end of this stream without a request (rules 1.5, 4.2)."""
        intake = self._its
        intake.on_over = feed.flush_soon
        feed.at_end = lambda: intake.closed and not intake.waiting and not length_hint(self._current)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self.cancel()

    def __del__(self) -> None:
        if self._intake is not None:
            self._streams.abandon(self._intake)
