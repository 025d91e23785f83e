"""Receiving messages on an event loop: iterators and registered handlers.

Their base classes serve threads, too. No code here depends on the loop: all that is awaited is a mailbox's wakeup, the
application's own awaitables and `yield_to_loop()`, which each adapter implements.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import iscoroutinefunction
from time import monotonic
from typing import Generic, Self, TypeVar

from tolliver_proto import Delivery

from .._driver.adapter import Wakeup
from .._driver.loop_endpoint import SLICE
from .handler_turn import Awaited, HandlerTurn
from .mailbox import Core, Handler, Mailbox, Policy
from .run import Run, next_run
from .side_by_side import AsyncCore, SideBySide, SideBySideCalls

Item = TypeVar("Item", Delivery, Run)


class Receiver:
    """Base of the public objects that receive from a mailbox: iterators and registrations."""

    _mailbox: Mailbox

    def close(self) -> None:
        """Stop receiving. Unsettled messages are not acknowledged, so their senders resend them. The subscription
        stays."""
        self._mailbox.close()

    def be_patient(self) -> None:
        """Allow any processing time: the consumer is never reported as stuck, and no second copy is delivered (D-9,
        T-48)."""
        self._mailbox.be_patient()

    def __repr__(self) -> str:
        box = self._mailbox
        state = " (closed)" if box.closed else ""
        return f"<{type(self).__name__} of {box.channel!r:.100} {box.key!r:.100}{state}>"


def name_of(handler: Callable[..., object]) -> str:
    return f"{getattr(handler, '__qualname__', type(handler).__qualname__)!s:.100}"


class BaseIterator(Receiver):
    """An iterator over a mailbox. The mailbox has no reference to it, so that dropping the iterator closes the
    mailbox."""

    def __init__(self, core: Core, channel: str, key: str, wakeup: Wakeup, policy: Policy) -> None:
        self._core = core
        self._mailbox = Mailbox(core, channel, key, wakeup, policy)
        self._mailbox.open()

    def __del__(self) -> None:
        if hasattr(self, "_mailbox"):  # absent when the constructor raised
            self._core.abandon(self._mailbox)


class AsyncIterator(BaseIterator, Generic[Item]):
    """An async iterator that several tasks may share."""

    def __init__(self, core: AsyncCore, channel: str, key: str, subscribe: bool, policy: Policy | None = None) -> None:
        self._wakeup = core.wakeup()
        self._loop = core
        super().__init__(core, channel, key, self._wakeup, policy or Policy())
        self._subscribe = subscribe

    @abstractmethod
    def _take(self) -> Item | None:
        """The next item, whose processing starts now; None if there is none yet."""

    async def __anext__(self) -> Item:
        if self._subscribe:
            await self._begin()
        while (item := self._take()) is None:
            if self._mailbox.closed:
                raise StopAsyncIteration
            await self._wakeup.wait()
        return item

    async def _begin(self) -> None:
        if self._subscribe:
            await self._loop.wait(self._loop.subscribe(self._mailbox.channel, self._mailbox.key))
            self._subscribe = False

    def __aiter__(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        await self._begin()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self.close()


class Messages(AsyncIterator[Delivery]):
    """An async iterator over matching messages, one delivery at a time. Leaving its block fails the unsettled ones.

    Several tasks may share one: each delivery goes to one of them.
    """

    def __init__(self, core: AsyncCore, channel: str, key: str, subscribe: bool, policy: Policy | None = None) -> None:
        super().__init__(core, channel, key, subscribe, policy or Policy(turns=core))

    def _take(self) -> Delivery | None:
        return self._mailbox.take_begun()


class Runs(AsyncIterator[Run]):
    """Like Messages, but yields runs of deliveries: `async for run in instance.message_runs(...)`."""

    def _take(self) -> Run | None:
        return next_run(self._mailbox)


class _HandlerCalls:
    """Calls of one handler, one at a time.

    The loop makes the calls directly, at the end of the turn that has read the messages. A task takes over while the
    handler is slow or has returned an awaitable; a coroutine function always has a task.
    """

    def __init__(self, core: AsyncCore, channel: str, key: str, handler: Handler, policy: Policy) -> None:
        self._core = core
        self._wakeup = core.wakeup()  # wakes the task
        self._context = core.context()
        self._cancel: Callable[[], object] | None = None  # cancels the task; None without one
        self.mailbox = Mailbox(core, channel, key, self, policy)
        self._turn = HandlerTurn(self.mailbox, handler, iscoroutinefunction(handler))
        self.mailbox.open()
        if self._turn.keeps_task:
            self._begin_work()

    def close(self) -> None:
        if self._cancel is not None:
            self._cancel()
        self.mailbox.close()

    def set(self) -> None:
        """Called when a message has arrived, or the mailbox has been closed."""
        if self._cancel is not None:
            self._wakeup.set()
        elif not self.mailbox.closed:
            self._core.call_at_end(self)

    def call(self, until: float) -> None:
        if self._cancel is None:
            awaited = self._context.run(self._turn.call_each, until)
            if awaited is not None or self.mailbox.waiting:
                self._begin_work(awaited)

    def _begin_work(self, awaited: Awaited | None = None) -> None:
        self._cancel = self._context.run(self._core.spawn, partial(self._work, awaited))

    async def _work(self, awaited: Awaited | None) -> None:
        try:
            while awaited is not None or not self.mailbox.closed:
                if awaited is not None:
                    self._turn.keeps_task = True
                    if await self._wait_for(*awaited):
                        break
                self._core.run_follows = True
                try:
                    awaited = self._turn.call_each(monotonic() + SLICE)
                finally:
                    self._core.run_follows = False
                self._core.run_actions()
                if awaited is not None:
                    continue
                if self.mailbox.waiting:
                    await self._core.yield_to_loop()
                elif self._turn.keeps_task:
                    await self._wakeup.wait()
                else:
                    return
        finally:
            self._cancel = None
        self.set()

    async def _wait_for(self, delivery: Delivery, result: Awaitable[object]) -> bool:
        """Await the handler's result. Until then the message counts as being processed (D-9).

        Returns True after a GeneratorExit: Python may be closing this coroutine, so it must not await again.
        """
        began = monotonic()
        self.mailbox.begin((delivery,))
        self.mailbox.awaited += 1
        try:
            outcome = await result
        except BaseException as error:
            self._ended(delivery, began)
            if self._core.is_outside(error):
                raise
            self._turn.raised(delivery, error)
            return isinstance(error, GeneratorExit)
        self._ended(delivery, began)
        if self.mailbox.is_well(delivery, outcome):
            self._turn.well.append(delivery)
        return False

    def _ended(self, delivery: Delivery, began: float) -> None:
        self.mailbox.awaited -= 1
        self.mailbox.end((delivery,))
        self.mailbox.took(monotonic() - began, 1)


class Registration(Receiver):
    """A registered handler. `close()` ends it: unsettled messages are not acknowledged, so their senders resend
    them."""

    def __init__(self, core: AsyncCore, channel: str, key: str, handler: Handler, how: SideBySide) -> None:
        calls = _HandlerCalls if how.is_one else SideBySideCalls
        self._calls = calls(core, channel, key, how.function(handler), how.policy(name_of(handler)))
        self._mailbox = self._calls.mailbox

    def close(self) -> None:
        """Stop calling the handler. Unsettled messages are resent by their senders. The subscription stays."""
        self._calls.close()
