"""Cancellation from outside a call, on asyncio and trio (T-45).

Tells a cancellation of the current task from one that the call itself raised.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

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


def _has(error: BaseException, kind: type[BaseException]) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(kind) is not None
    return isinstance(error, kind)


def _is_cancelled(kind: type[BaseException]) -> bool:
    if kind is not asyncio.CancelledError:
        return True
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
