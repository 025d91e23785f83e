"""Receiving messages: iterators and registered handlers.

These are for tasks; their bases serve threads, too. Nothing here knows the loop. All that is ever awaited is a
mailbox's wakeup, the application's own awaitable and `yield_to_loop()`, and each adapter brings these in its own form.
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
from .._driver.ends import is_interrupt
from .._driver.loop_endpoint import SLICE
from .mailbox import Core, Handler, Mailbox, Policy, Run
from .side_by_side import AsyncCore, SideBySide, SideBySideCalls

Item = TypeVar("Item", Delivery, Run)
_Awaited = tuple[Delivery, Awaitable[object]]


class Receiver:
    """The application's end of a mailbox."""

    _mailbox: Mailbox

    def close(self) -> None:
        """Take no more; what was not settled is not acknowledged and is sent again. The subscription stays."""
        self._mailbox.close()

    def be_patient(self) -> None:
        """Deliveries may take their time here: their user is never stuck, and no copy is handed out (D-9, T-48)."""
        self._mailbox.be_patient()

    def __repr__(self) -> str:
        box = self._mailbox
        state = " (closed)" if box.closed else ""
        return f"<{type(self).__name__} of {box.channel!r:.100} {box.key!r:.100}{state}>"


def name_of(handler: Callable[..., object]) -> str:
    return f"{getattr(handler, '__qualname__', type(handler).__qualname__)!s:.100}"


class BaseIterator(Receiver):
    """An iterator over a mailbox, which does not know it: so it can be seen when nobody does any more."""

    def __init__(self, core: Core, channel: str, key: str, wakeup: Wakeup, policy: Policy) -> None:
        self._core = core
        self._mailbox = Mailbox(core, channel, key, wakeup, policy)
        self._mailbox.open()

    def __del__(self) -> None:
        if hasattr(self, "_mailbox"):  # it was refused, where there is none
            self._core.abandon(self._mailbox)


class AsyncIterator(BaseIterator, Generic[Item]):
    """An iterator for any number of tasks."""

    def __init__(self, core: AsyncCore, channel: str, key: str, subscribe: bool, policy: Policy | None = None) -> None:
        self._wakeup = core.wakeup()
        self._loop = core
        super().__init__(core, channel, key, self._wakeup, policy or Policy())
        self._subscribe = subscribe

    @abstractmethod
    def _take(self) -> Item | None:
        """The next that has come, which is being handled from now on; None where there is none."""

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
    """An iterator over what matches, one delivery at a time. Leaving it fails what it still holds.

    Several tasks may share one: each delivery goes to one of them.
    """

    def __init__(self, core: AsyncCore, channel: str, key: str, subscribe: bool, policy: Policy | None = None) -> None:
        super().__init__(core, channel, key, subscribe, policy or Policy(turns=core))

    def _take(self) -> Delivery | None:
        return self._mailbox.take_begun()


class Runs(AsyncIterator[Run]):
    """As Messages, a run at a time: `async for run in instance.message_runs(...)`."""

    def _take(self) -> Run | None:
        return self._mailbox.take_run()


class _HandlerCalls:
    """Calls of one handler, one after the other.

    The loop makes them at the end of the turn that has read its messages. There is a task while the handler takes its
    time, or has given back something to await; a coroutine function has one always.
    """

    def __init__(self, core: AsyncCore, channel: str, key: str, handler: Handler, policy: Policy) -> None:
        self._core = core
        self._handler = handler
        self._wakeup = core.wakeup()  # the task's
        self._context = core.context()
        self._cancel: Callable[[], object] | None = None  # the task
        self._keeps_task = iscoroutinefunction(handler)
        self._well: list[Delivery] = []  # handled well, and not settled yet
        self.mailbox = Mailbox(core, channel, key, self, policy)
        self.mailbox.open()
        if self._keeps_task:
            self._begin_work()

    def close(self) -> None:
        if self._cancel is not None:
            self._cancel()
        self.mailbox.close()

    def set(self) -> None:
        """Something has come, or nothing will any more."""
        if self._cancel is not None:
            self._wakeup.set()
        elif not self.mailbox.closed:
            self._core.call_at_end(self)

    def call(self, until: float) -> None:
        if self._cancel is None:
            awaited = self._context.run(self._call_each, until)
            if awaited is not None or self.mailbox.waiting:
                self._begin_work(awaited)

    def _begin_work(self, awaited: _Awaited | None = None) -> None:
        self._cancel = self._context.run(self._core.spawn, partial(self._work, awaited))

    def _call_each(self, until: float) -> _Awaited | None:
        """Call the handler for what is there, one after the other, until then, or until it gives back an awaitable."""
        handler, mailbox = self._handler, self.mailbox
        began, calls = monotonic(), 0
        awaited = None
        while (delivery := mailbox.take()) is not None:
            try:
                result = handler(delivery)
            except BaseException as error:
                if is_interrupt(error):
                    raise
                self._raised(delivery, error)
            else:
                if result is not None and isinstance(result, Awaitable):
                    awaited = delivery, result
                    break
                if result is None or mailbox.is_well(delivery, result):  # None is nearly always
                    self._well.append(delivery)
            calls += 1
            if monotonic() > until:
                break
        mailbox.took(monotonic() - began, calls)
        well, self._well = self._well, []
        mailbox.settle(well, True)
        return awaited

    async def _work(self, awaited: _Awaited | None) -> None:
        try:
            while awaited is not None or not self.mailbox.closed:
                if awaited is not None:
                    self._keeps_task = True
                    await self._wait_for(*awaited)
                self._core.run_follows = True
                try:
                    awaited = self._call_each(monotonic() + SLICE)
                finally:
                    self._core.run_follows = False
                self._core.run_actions()
                if awaited is not None:
                    continue
                if self.mailbox.waiting:
                    await self._core.yield_to_loop()
                elif self._keeps_task:
                    await self._wakeup.wait()
                else:
                    return
        finally:
            self._cancel = None

    async def _wait_for(self, delivery: Delivery, result: Awaitable[object]) -> None:
        """The handler is at it until then (D-9)."""
        began = monotonic()
        self.mailbox.begin((delivery,))
        try:
            outcome = await result
        except BaseException as error:
            self._ended(delivery, began)
            if self._core.is_outside(error):
                raise
            self._raised(delivery, error)
        else:
            self._ended(delivery, began)
            if self.mailbox.is_well(delivery, outcome):
                self._well.append(delivery)

    def _ended(self, delivery: Delivery, began: float) -> None:
        self.mailbox.end((delivery,))
        self.mailbox.took(monotonic() - began, 1)

    def _raised(self, delivery: Delivery, error: BaseException) -> None:
        if not self.mailbox.closed:  # on Twisted, cancelling raises an Exception
            self.mailbox.raised(delivery, error)


class Registration(Receiver):
    """A handler at work. `close()` ends it; what it holds is failed and sent again."""

    def __init__(self, core: AsyncCore, channel: str, key: str, handler: Handler, how: SideBySide) -> None:
        calls = _HandlerCalls if how.is_one else SideBySideCalls
        self._calls = calls(core, channel, key, handler, how.policy(name_of(handler)))
        self._mailbox = self._calls.mailbox

    def close(self) -> None:
        """Call the handler no more; what it holds is failed and sent again. The subscription stays."""
        self._calls.close()
