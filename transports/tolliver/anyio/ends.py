"""Cancellation from outside a call, on asyncio and trio (T-45).

Tells a cancellation of the current task from one that the call itself raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from types import coroutine
from typing import Any

import anyio

from .._driver.ends import is_interrupt


def say_asyncio() -> None:
    """Mark the current context as asyncio's. anyio looks for a current task, and there is none in a callback of the
    loop."""
    with suppress(ImportError):  # newer versions of sniffio find the loop
        from sniffio import current_async_library_cvar

        current_async_library_cvar.set("asyncio")


def asyncio_loop() -> asyncio.AbstractEventLoop | None:
    """The running loop if it is one of asyncio's, else None."""
    return asyncio.get_running_loop() if anyio.get_cancelled_exc_class() is asyncio.CancelledError else None


def ends_task(error: BaseException) -> bool:
    """True if the exception ends the current task, and not only the awaitable that raised it.

    On trio a Cancelled belongs to a cancel scope, and one that leaves a call belongs to a scope around the call. On
    asyncio anything may raise CancelledError, above all awaiting another task; only the task itself knows that it is
    being cancelled.
    """
    try:
        cancelled = anyio.get_cancelled_exc_class()
    except RuntimeError:  # no loop is running: the task is being discarded
        return True
    return is_interrupt(error) or (_has(error, cancelled) and _is_cancelled(cancelled))


@coroutine
def told_of_cancel(work: Coroutine[Any, Any, None], told: Callable[[], object]) -> Generator[Any, Any, None]:
    """Await `work`, and call `told` whenever it is cancelled in a wait, just before it sees that. There a scope around
    `work` can be shielded: earlier, the cancellation may not have reached a task that is about to run.

    A wait that ends in the same turn by a scope of `work` itself, as `trio.sleep` does, looks the same: there the
    cancellation is lost."""
    cancelled = anyio.get_cancelled_exc_class()
    go_on: Callable[[Any], Any] = work.send
    value: Any = None
    while True:
        try:
            wait = go_on(value)
        except StopIteration:
            return
        try:
            value, go_on = (yield wait), work.send
            error = getattr(value, "error", None)  # trio sends an outcome
        except BaseException as thrown:
            value, go_on, error = thrown, work.throw, thrown
        if isinstance(error, cancelled):
            told()


def _has(error: BaseException, kind: type[BaseException]) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(kind) is not None
    return isinstance(error, kind)


def _is_cancelled(kind: type[BaseException]) -> bool:
    if kind is not asyncio.CancelledError:
        return True
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
