"""Concurrent calls of one handler, in order for each key if asked.

The mailbox decides which message may begin. This module makes the calls on a loop, for handlers and responders, at the
end of the turn that has read the messages. Awaitables that they return are awaited by a pool of tasks, which grows to
the number of concurrent calls; its tasks are kept for later calls.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from functools import partial
from time import monotonic
from typing import Any, Literal, NamedTuple, Protocol, cast

from tolliver_proto import Delivery
from tolliver_proto.node import Retry

from .._driver.adapter import AwaitableWakeup
from .._driver.ends import is_interrupt
from .._driver.loop_endpoint import Handling
from .._driver.pending import PendingCall
from .mailbox import Core, Handler, Mailbox, Policy, Turns

OrderedBy = Literal["key"] | None
Ack = Literal["handled", "received"]


class SideBySide(NamedTuple):
    """Options of a handler: concurrent calls, ordering, the most messages that it may have at once, what becomes of
    those that it fails with, and when they are acknowledged.
    """

    concurrency: int = 1
    ordered_by: OrderedBy = None
    pending: int | None = None
    retry: Retry | None = None
    ack: Ack = "handled"

    @property
    def is_one(self) -> bool:
        """True if calls are made one at a time, which keeps all messages in order."""
        return self.concurrency == 1

    def policy(self, name: str) -> Policy:
        """Policy of the mailbox of a handler, which texts call `name`."""
        places = None if self.is_one else self.concurrency
        is_ordered = self.ordered_by is not None
        return Policy(name, self.retry, self.pending, places, is_ordered, ends_by_settling=False)

    def function(self, handler: Handler) -> Handler:
        """The function to call for each message: the handler, after the acknowledgement if that is for receipt."""
        return handler if self.ack == "handled" else _acknowledging(handler)


def _acknowledging(handler: Handler) -> Handler:
    """The handler, before which the message is acknowledged (T-45).

    As its call begins, not as it comes: what waits for the handler takes its sender's credit, as ever, so memory stays
    bounded. The acknowledgement is written at once, as a plain function stops its loop until it returns.
    """

    def acknowledge(delivery: Delivery) -> object:
        cast(Mailbox, delivery.settler).receive(delivery)
        return handler(delivery)

    return acknowledge


def chosen(
    concurrency: int = 1,
    ordered_by: OrderedBy = None,
    pending: int | None = None,
    retry: Retry | None = None,
    ack: Ack = "handled",
) -> SideBySide:
    """Options of a handler, validated: `concurrency` calls at a time, their order, at most `pending` unsettled
    messages, `retry` of what fails, and when to acknowledge. Raises ValueError, TypeError.
    """
    if isinstance(concurrency, bool) or not isinstance(concurrency, int):
        raise TypeError(f"concurrency={concurrency!r:.100}: give the number of calls at once")
    if concurrency < 1:
        raise ValueError(f"concurrency={concurrency}: give the number of calls at once, at least 1")
    if ordered_by not in (None, "key"):
        raise ValueError(f'ordered_by={ordered_by!r:.100}: give "key", or None')
    if ack not in ("handled", "received"):
        raise ValueError(f'ack={ack!r:.100}: give "handled", or "received"')
    if retry is not None and ack == "received":
        raise ValueError(
            'retry and ack="received" are given: what is acknowledged before its handler is called is not tried again. '
            "Leave one out"
        )
    return SideBySide(concurrency, ordered_by, pending, checked_retry(retry), ack)


def checked_retry(retry: Retry | None) -> Retry | None:
    """The option, or TypeError."""
    if retry is not None and not isinstance(retry, Retry):
        raise TypeError(f"retry={retry!r:.100}: give Retry(attempts=..., first=..., most=...), or None")
    return retry


def chosen_with(
    handler: object, concurrency: int, ordered_by: OrderedBy, pending: int | None, retry: Retry | None, ack: Ack
) -> SideBySide:
    """Like `chosen`, for calls whose handler is optional. Raises TypeError for options without a handler."""
    how = chosen(concurrency, ordered_by, pending, retry, ack)
    if handler is None and how != SideBySide():
        raise TypeError("concurrency, ordered_by, pending, retry and ack are choices of a handler: give one")
    return how


class AsyncCore(Core, Turns, Protocol):
    """The part of an instance on an event loop that handler calls use."""

    run_follows: bool

    def wakeup(self) -> AwaitableWakeup: ...

    def context(self) -> Context: ...

    def call_at_end(self, handling: Handling) -> None:
        """Have the handler called once all messages that arrive together have been read."""

    def subscribe(self, channel: str, key: str) -> PendingCall[None]: ...

    def wait(self, call: PendingCall[None]) -> Awaitable[None]: ...

    def spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], object]:
        """Run a coroutine in a task of its own; returns a function that cancels it."""

    def yield_to_loop(self) -> Awaitable[object]:
        """Let other tasks run."""

    def is_outside(self, error: BaseException) -> bool:
        """True if the exception ends the current task, as a cancellation does, and not only the awaitable that raised
        it.
        """


class _Begun(NamedTuple):
    """A handler call that has returned an awaitable: what to await, and when it began, in monotonic seconds."""

    delivery: Delivery
    result: Awaitable[object]
    at: float


class _Worker:
    """A task that awaits handlers' results, one after the other."""

    __slots__ = ("call", "cancel", "wakeup")

    def __init__(self, wakeup: AwaitableWakeup) -> None:
        self.wakeup = wakeup
        self.call: _Begun | None = None
        self.cancel: Callable[[], object] = wakeup.set

    def end(self) -> None:
        """End the task. A coroutine that it has not begun is closed."""
        call, self.call = self.call, None
        if call is not None and isinstance(call.result, Coroutine):
            call.result.close()
        self.cancel()


class SideBySideCalls:
    """Calls of one handler on a loop, several at a time, and the tasks that await their results."""

    def __init__(self, core: AsyncCore, channel: str, key: str, handler: Handler, policy: Policy) -> None:
        self._core = core
        self._handler = handler
        self._context = core.context()
        self._idle: list[_Worker] = []
        self._workers: list[_Worker] = []
        self.mailbox = Mailbox(core, channel, key, self, policy)
        self.mailbox.open()

    def close(self) -> None:
        self.mailbox.close()

    def set(self) -> None:
        """Called when a message has arrived, or the mailbox has been closed."""
        if self.mailbox.closed:
            for worker in self._workers:
                worker.end()
        elif self.mailbox.waiting:
            self._core.call_at_end(self)

    def call(self, until: float) -> None:
        while (delivery := self.mailbox.take_begun()) is not None:
            began = monotonic()
            try:
                result = self._context.run(self._handler, delivery)
            except BaseException as error:
                if is_interrupt(error):
                    raise
                self._raised(delivery, error)
                self._ended(delivery, began)
            else:
                if result is None or type(result) is bytes or not isinstance(result, Awaitable):
                    self.mailbox.returned(delivery, result)
                    self._ended(delivery, began)
                else:
                    self._await(_Begun(delivery, result, began))
            if monotonic() > until:
                self.set()
                return

    def _await(self, call: _Begun) -> None:
        if self._idle:
            worker = self._idle.pop()
            worker.call = call
            worker.wakeup.set()
        else:
            worker = _Worker(self._core.wakeup())
            worker.call = call
            self._workers.append(worker)
            worker.cancel = self._context.run(self._core.spawn, partial(self._work, worker))

    async def _work(self, worker: _Worker) -> None:
        while not self.mailbox.closed:
            call, worker.call = worker.call, None
            if call is None:
                await worker.wakeup.wait()
                continue
            if await self._wait_for(call):
                self._workers.remove(worker)
                self.set()
                return
            self._idle.append(worker)
            if self.mailbox.waiting:
                self._core.call_at_end(self)

    async def _wait_for(self, call: _Begun) -> bool:
        """Await the handler's result. Returns True after a GeneratorExit: Python may be closing this coroutine, so it
        must not await again."""
        is_closed = False
        self.mailbox.awaited += 1
        try:
            result = await call.result
        except BaseException as error:
            if self._core.is_outside(error):
                raise
            self._raised(call.delivery, error)
            is_closed = isinstance(error, GeneratorExit)
        else:
            self.mailbox.returned(call.delivery, result)
        finally:
            self.mailbox.awaited -= 1
        self._ended(call.delivery, call.at)
        return is_closed

    def _raised(self, delivery: Delivery, error: BaseException) -> None:
        if not self.mailbox.closed:  # closing cancels the task, which on Twisted raises an Exception
            self.mailbox.raised(delivery, error)

    def _ended(self, delivery: Delivery, began: float) -> None:
        self.mailbox.end((delivery,))
        self.mailbox.took(monotonic() - began, 1)
