"""Subscriptions and outbound streams for asyncio, trio and Twisted.

No code here depends on the loop: all that is awaited is a wakeup, the application's own source and `yield_to_loop()`,
which each adapter implements. Plain iterables are pulled by the streams' core (`loop_streams`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextvars import Context
from functools import partial
from itertools import islice
from operator import length_hint
from typing import Any, Generic, Protocol, Self, TypeVar, cast

from .._driver.adapter import AwaitableWakeup
from .._driver.ends import is_interrupt
from .publishing import OutboundCore, OutboundStream, Publication, log
from .subscribing import BaseSubscription, InboundStream, SubscriptionCore, check_handler

T = TypeVar("T")


class AsyncOutboundCore(OutboundCore, Protocol):
    """The part of the streams' core on an event loop that outbound streams use."""

    def wakeup(self) -> AwaitableWakeup: ...

    def context(self) -> Context: ...

    def pull_soon(self, stream: AsyncOutboundStream) -> None:
        """Have the stream's `pull` called at the end of this turn."""

    def spawn_source(
        self, work: Callable[[], Coroutine[Any, Any, None]], cut: Callable[[float], object]
    ) -> Callable[[bool], object]:
        """Run `work` in a task that nothing ends but a call of what this returns: with True, one wait of `work` is
        cancelled, with False none, also if that was asked for before and is not done. `work` may go on awaiting, in
        a `finally`: `Limits.close_timeout` seconds after the first call it is cancelled, and `cut` is called."""

    def run_at_end(self) -> None: ...

    def yield_to_loop(self) -> Awaitable[object]: ...

    def is_outside(self, error: BaseException) -> bool: ...


class AsyncOutboundStream(OutboundStream):
    """An outbound stream on an event loop. Plain iterables are pulled by the loop itself, async sources by a task.

    A plain iterable must not block: use an async one, or a thread's adapter.
    """

    def __init__(
        self, core: AsyncOutboundCore, key: tuple[int, int], name: str, publication: Publication, grant: int
    ) -> None:
        super().__init__(core, key, name, publication, grant)
        self.is_queued = False
        """True while the stream waits for its next `pull`."""
        self._loop = core
        self._context = core.context()
        self._lots = self._begin_pulling()
        self._awaited: AwaitableWakeup | None = None  # wakes the task; None without one
        self._pulling = False  # True while the task awaits the source, and not a wakeup
        core.pull_soon(self)

    @property
    def has_task(self) -> bool:
        """True if a task pulls from the source, and closes it."""
        return self._awaited is not None

    def set(self) -> None:
        if self._awaited is None:
            self._loop.pull_soon(self)
        else:
            self._awaited.set()

    def cancelled(self) -> None:
        super().cancelled()
        if self._awaited is not None:
            self._end_source(self._pulling)

    def pull(self) -> bool:
        """Pull one batch of elements, if that needs no waiting. Returns True if another batch may follow at once."""
        try:
            return self._context.run(next, self._lots)
        except StopIteration:
            if self._awaited is None:
                self.complete()
        except BaseException as error:  # an error of application code ends only its own stream
            if is_interrupt(error):
                raise
            self.fail(error)
        return False

    def _begin_pulling(self) -> Iterator[bool]:
        if self.over:  # ended before it began
            return
        source = self._publication.open(self.name)
        if hasattr(source, "__await__") or hasattr(source, "__aiter__"):
            self._awaited = self._loop.wakeup()
            self._end_source = self._loop.spawn_source(partial(self._work, source), self._cut)
        else:
            self.begin(source)
            yield from self._pull(iter(source))

    def _pull(self, iterator: Iterator[Any]) -> Iterator[bool]:
        """Generator that pulls one batch for each step. A batch is empty if there is no demand or no space to send."""
        try:
            while not self.over:
                credit, most = self.look(), self._step
                if credit and not self.add_many(islice(iterator, credit)):
                    return
                if not credit:
                    yield False
                elif credit == most:
                    self.flush()
                    yield True
        finally:
            close = getattr(iterator, "close", None)
            if close is not None:
                close()

    async def _work(self, source: Any) -> None:
        try:
            if hasattr(source, "__await__"):
                source = await self._from_source(source)
            self.begin(source)
            if not hasattr(source, "__aiter__"):
                self._lots, self._awaited = self._pull(iter(source)), None
                self.set()
                return
            await self._pull_async(aiter(source))
        except BaseException as error:
            if self._loop.is_outside(error):
                raise
            self.fail(error)
        else:
            self.complete()

    async def _pull_async(self, iterator: AsyncIterator[Any]) -> None:
        try:
            while not self.over and (self.credit or await self._wanted()):
                try:
                    element = await self._from_source(anext(iterator))
                except StopAsyncIteration:
                    return
                self.add(element)
        finally:
            self._end_source(False)
            close = getattr(iterator, "aclose", None)
            if close is not None:
                await close()

    async def _from_source(self, answer: Awaitable[T]) -> T:
        self._pulling = True
        try:
            return await answer
        finally:
            self._pulling = False

    def _cut(self, seconds: float) -> None:
        log.warning(
            "the source of %.100r has not ended %g s after its stream and is cut off: let it end sooner, or raise "
            "Limits.close_timeout",
            self.name,
            seconds,
            extra={"stream": f"{self.name:.100}"},
        )

    async def _wanted(self) -> bool:
        """Wait until elements may be pulled from the source. Returns False when the stream has ended."""
        wakeup = self._awaited
        assert wakeup is not None, "a task that pulls has one"
        sent = self._sent
        wanted = self.look()
        if self._sent > sent:
            self._loop.run_actions()
        else:
            self._loop.run_at_end()  # batched: many streams may begin in one turn
        if wanted and self._sent > sent:
            await self._loop.yield_to_loop()
        while not self.over:
            if self.look():
                return True
            await wakeup.wait()
        return False


class _Runs(Generic[T]):
    """Iterator that a cancelled wait does not end, as it would end a generator."""

    def __init__(self, following: Callable[[], Awaitable[list[T]]]) -> None:
        self._following = following

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[T]:
        return await self._following()


class Subscription(BaseSubscription, Generic[T]):
    """The elements of a stream: `async for element in subscription`.

    Use `async with` around it if the loop may be left early: that cancels the stream at once. Several tasks may share
    one: each element goes to one of them.
    """

    def __init__(self, core: SubscriptionCore, stream: InboundStream, wakeup: AwaitableWakeup) -> None:
        super().__init__(core, stream)
        self._wakeup = wakeup
        self._current: Iterator[T] = iter(())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        while True:
            for element in self._current:
                return element
            if elements := self._take():
                self._current = iter(elements)
            else:
                await self._wakeup.wait()

    def runs(self) -> AsyncIterator[list[T]]:
        """Iterate over lists of elements that have arrived, each at most a quarter of the window long."""
        return _Runs(self._next)

    async def for_each(self, handler: Callable[[T], object]) -> None:
        """Call the handler, plain or async, with each element, until the stream ends. If it raises, the stream is
        cancelled."""
        check_handler(handler)
        async with self:
            async for element in self:
                answer = handler(element)
                if answer is not None and isinstance(answer, Awaitable):
                    await answer

    async def _next(self) -> list[T]:
        while not (elements := self._take()):
            await self._wakeup.wait()
        return elements

    def _take(self) -> list[T]:
        """Elements that have come, or [] if none have. Raises StopAsyncIteration where no more come."""
        elements = cast(list[T], self._stream.take())
        if not elements and self._stream.closed:
            raise StopAsyncIteration
        return elements

    def _forget(self) -> None:
        self._current = iter(())

    def _has_more(self) -> bool:
        return bool(length_hint(self._current))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self.cancel()
