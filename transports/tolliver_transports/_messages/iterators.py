"""Receiving messages: iterators and registered handlers.

These are for tasks; their bases serve threads, too. Nothing here knows the loop. All that is ever awaited is a
mailbox's wakeup, the application's own awaitable and `yield_to_loop()`, and each adapter brings these in its own form.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from functools import partial
from inspect import iscoroutinefunction
from time import monotonic
from typing import Any, Protocol, Self

from tolliver_proto import Delivery

from .._driver.adapter import AwaitableWakeup, Wakeup
from .._driver.ends import is_interrupt
from .._driver.loop_endpoint import SLICE, Handling
from .._driver.pending import PendingCall
from .inbox import Core, GatheringCore, GatheringMailbox, Handler, Mailbox, Run
from .side_by_side import SideBySide, SideBySideCalls

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
        return f"<{self._kind()} of {box.channel!r:.100} {box.key!r:.100}{state}>"

    def _kind(self) -> str:
        return type(self).__name__


def name_of(handler: Callable[..., object]) -> str:
    return f"{getattr(handler, '__qualname__', type(handler).__qualname__)!s:.100}"


class BaseIterator(Receiver):
    """An iterator over a mailbox, which does not know it: so it can be seen when nobody does any more."""

    def __init__(self, core: Core, channel: str, key: str, wakeup: Wakeup) -> None:
        self._core = core
        self._mailbox = self._make_mailbox(core, channel, key, wakeup)
        self._mailbox.open()

    def _make_mailbox(self, core: Core, channel: str, key: str, wakeup: Wakeup) -> Mailbox:
        return Mailbox(core, channel, key, wakeup)

    def __del__(self) -> None:
        if hasattr(self, "_mailbox"):  # it was refused, where there is none
            self._core.abandon(self._mailbox)


class AsyncCore(GatheringCore, Protocol):
    """The core of an instance whose users await."""

    run_follows: bool

    def wakeup(self) -> AwaitableWakeup: ...

    def context(self) -> Context: ...

    def call_at_end(self, handling: Handling) -> None:
        """Have it called when what comes together has come."""

    def subscribe(self, channel: str, key: str) -> PendingCall[None]: ...

    def wait(self, call: PendingCall[None]) -> Awaitable[None]: ...

    def spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], object]:
        """Run it beside everything else; what is returned cancels it."""

    def yield_to_loop(self) -> Awaitable[object]:
        """Let others run."""

    def is_outside(self, error: BaseException) -> bool:
        """True for what ends the task that it was raised in, and not only what that task has awaited."""


class AsyncIterator(BaseIterator):
    """An iterator for any number of tasks."""

    _in_bulk = True

    def __init__(self, core: AsyncCore, channel: str, key: str, subscribe: bool) -> None:
        self._wakeup = core.wakeup()
        self._loop = core
        super().__init__(core, channel, key, self._wakeup)
        self._subscribe = subscribe

    async def next_run(self) -> Run:
        """The next deliveries that came together. Raises StopAsyncIteration when it is closed."""
        await self._begin()
        while (run := self._take()) is None:
            await self._wakeup.wait()
        if self._in_bulk:
            run.begin_all()
        return run

    def _take(self) -> Run | None:
        """The run that has come, or None. Raises StopAsyncIteration when it is closed."""
        run = self._mailbox.take()
        if run is None and self._mailbox.closed:
            raise StopAsyncIteration
        return run

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


class Messages(AsyncIterator):
    """An iterator over what matches, one delivery at a time. Leaving it fails what it still holds.

    Several tasks may share one: each delivery goes to one of them.
    """

    _in_bulk = False

    def __init__(self, core: AsyncCore, channel: str, key: str, subscribe: bool) -> None:
        super().__init__(core, channel, key, subscribe)
        self._current: Run | None = None

    def _make_mailbox(self, _core: Core, channel: str, key: str, wakeup: Wakeup) -> Mailbox:
        return GatheringMailbox(self._loop, channel, key, wakeup)

    async def __anext__(self) -> Delivery:
        if self._subscribe:
            await self._begin()
        while (run := self._current) is None or (delivery := run.next_begun()) is None:
            if (run := self._take()) is not None:
                self._current = run
            else:
                await self._wakeup.wait()
        return delivery

    def close(self) -> None:
        """Take no more; what was not settled is not acknowledged and is sent again. The subscription stays."""
        self._current = None
        super().close()


class Runs(AsyncIterator):
    """As Messages, a run at a time: `async for run in instance.message_runs(...)`."""

    async def __anext__(self) -> Run:
        return await self.next_run()


class _HandlerCalls:
    """Calls of one handler.

    The loop makes them at the end of the turn that has read its messages. There is a task while the handler takes its
    time, or has given back something to await; a coroutine function has one always.
    """

    def __init__(self, core: AsyncCore, channel: str, key: str, handler: Handler, pending: int | None) -> None:
        self._core = core
        self._handler = handler
        self._wakeup = core.wakeup()  # the task's
        self._context = core.context()
        self._cancel: Callable[[], object] | None = None  # the task
        self._keeps_task = iscoroutinefunction(handler)
        self._run: Run | None = None
        self._well: list[Delivery] = []  # of its run: handled well, and not settled yet
        self.mailbox = Mailbox(core, channel, key, self, name_of(handler), pending)
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
            if awaited is not None or self._has_more():
                self._begin_work(awaited)

    def _begin_work(self, awaited: _Awaited | None = None) -> None:
        self._cancel = self._context.run(self._core.spawn, partial(self._work, awaited))

    def _has_more(self) -> bool:
        return not self.mailbox.closed and (self._run is not None or self.mailbox.waiting)

    def _next_run(self) -> Run | None:
        """The run to be handled, if there is one."""
        if self._run is None:
            self._run = self.mailbox.take()
        return self._run

    def _settle(self) -> None:
        """Settle together the messages that went well so far."""
        if self._well and self._run is not None:
            well, self._well = self._well, []
            self._run.settle(well, True)

    def _call_each(self, until: float) -> _Awaited | None:
        """Call the handler for what is there, one after the other, until then, or until it gives back an awaitable."""
        handler, mailbox = self._handler, self.mailbox
        while not mailbox.closed and (run := self._next_run()) is not None:
            began, calls = monotonic(), 0
            while not mailbox.closed and (delivery := run.next()) is not None:
                try:
                    result = handler(delivery)
                except BaseException as error:
                    if is_interrupt(error):
                        raise
                    self._raised(delivery, error)
                else:
                    if result is not None and isinstance(result, Awaitable):
                        mailbox.took(monotonic() - began, calls)
                        return delivery, result
                    if result is None or mailbox.is_well(delivery, result):  # None is nearly always
                        self._well.append(delivery)
                calls += 1
                if monotonic() > until:
                    mailbox.took(monotonic() - began, calls)
                    self._settle()
                    return None
            mailbox.took(monotonic() - began, calls)
            if not mailbox.closed:  # else what it holds has failed
                self._settle()
                self._run = None
        return None

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
                if self._has_more():
                    await self._core.yield_to_loop()
                elif self._keeps_task:
                    await self._wakeup.wait()
                else:
                    return
        finally:
            self._cancel = None

    async def _wait_for(self, delivery: Delivery, result: Awaitable[object]) -> None:
        self._settle()  # a message that is done must not wait for one that takes its time
        self._core.run_actions()
        try:
            outcome = await self._awaited(delivery, result)
        except BaseException as error:
            if self._core.is_outside(error):
                raise
            self._raised(delivery, error)
        else:
            if self.mailbox.is_well(delivery, outcome):
                self._well.append(delivery)

    async def _awaited(self, delivery: Delivery, result: Awaitable[object]) -> object:
        """The handler is at it until then (D-9)."""
        began = monotonic()
        self.mailbox.begin((delivery,))
        try:
            return await result
        finally:
            self.mailbox.end((delivery,))
            self.mailbox.took(monotonic() - began, 1)

    def _raised(self, delivery: Delivery, error: BaseException) -> None:
        if not self.mailbox.closed:  # on Twisted, cancelling raises an Exception
            self.mailbox.raised(delivery, error)


class Registration(Receiver):
    """A handler at work. `close()` ends it; what it holds is failed and sent again."""

    def __init__(self, core: AsyncCore, channel: str, key: str, handler: Handler, how: SideBySide) -> None:
        self._calls: _HandlerCalls | SideBySideCalls
        if how.is_one:
            self._calls = _HandlerCalls(core, channel, key, handler, how.pending)
        else:
            self._calls = SideBySideCalls(core, channel, key, handler, name_of(handler), how)
        self._mailbox = self._calls.mailbox

    def close(self) -> None:
        """Call the handler no more; what it holds is failed and sent again. The subscription stays."""
        self._calls.close()
