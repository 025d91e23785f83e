"""Cancellations from outside a call, on asyncio and trio (T-45).

They are told from those that the call raises by itself.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import anyio

from .._driver.ends import is_interrupt


def say_asyncio() -> None:
    """In this context asyncio runs: anyio finds that by the task, and has none where the loop itself calls."""
    with suppress(ImportError):  # newer ones find it by the loop
        from sniffio import current_async_library_cvar

        current_async_library_cvar.set("asyncio")


def asyncio_loop() -> asyncio.AbstractEventLoop | None:
    """The loop that runs, if that is one of asyncio's."""
    return asyncio.get_running_loop() if anyio.get_cancelled_exc_class() is asyncio.CancelledError else None


def ends_task(error: BaseException) -> bool:
    """True if this task is to end, and not only what it has awaited.

    On trio a Cancelled belongs to a scope, and one that comes out of a call belongs to a scope around it. On asyncio
    anything may raise CancelledError, above all a task that was awaited; the task itself knows whether it is cancelled.
    """
    try:
        cancelled = anyio.get_cancelled_exc_class()
    except RuntimeError:  # no loop runs any more: the task is thrown away
        return True
    return is_interrupt(error) or (_has(error, cancelled) and _is_cancelled(cancelled))


def _has(error: BaseException, kind: type[BaseException]) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(kind) is not None
    return isinstance(error, kind)


def _is_cancelled(kind: type[BaseException]) -> bool:
    if kind is not asyncio.CancelledError:
        return True
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
