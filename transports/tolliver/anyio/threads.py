"""Blocking jobs in threads, awaited to their end.

If the task is cancelled meanwhile, it still waits for the job's end; otherwise the job could open files that are never
closed. anyio shields against its own cancel scopes. On asyncio a task can also be cancelled directly, by `Task.cancel`:
`asyncio.timeout`, Ctrl-C and the end of the loop do so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

import anyio
import anyio.to_thread

from .._driver.threads import starting_thread
from .ends import asyncio_loop

T = TypeVar("T")


async def off_loop(job: Callable[[], T]) -> T:
    """Run a job in a thread; returns its result or raises its error. A job cancelled before it began never runs.

    The limiter is ours: the application may have used up the default one, which is for its own threads. Raises
    OutOfThreads.
    """
    outcome: Future[T] = Future()
    try:
        with starting_thread():
            await anyio.to_thread.run_sync(_work, job, outcome, limiter=anyio.CapacityLimiter(1))
    finally:
        if not outcome.cancel() and not outcome.done():
            await _end_of(outcome)
    try:
        return outcome.result()
    finally:
        del outcome  # breaks a reference cycle with an error's frames


def _work(job: Callable[[], T], outcome: Future[T]) -> None:
    if outcome.set_running_or_notify_cancel():
        try:
            outcome.set_result(job())
        except BaseException as error:
            outcome.set_exception(error)


def loop_caller() -> Callable[[Callable[[], object]], None]:
    """A function that has the running loop call another function. Any thread may use it, even after the loop has
    ended."""
    loop = asyncio_loop()
    if loop is not None:
        in_loop: Callable[[Callable[[], object]], object] = loop.call_soon_threadsafe
    else:
        import trio  # installed, as it is running

        in_loop = trio.lowlevel.current_trio_token().run_sync_soon

    def call(function: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # trio's RunFinishedError is one
            in_loop(function)

    return call


async def done(outcome: Future[T]) -> Future[T]:
    """Wait for the end of what runs in a thread, and return it; it is cancelled if the task is."""
    if not outcome.done():
        ended, in_loop = anyio.Event(), loop_caller()
        outcome.add_done_callback(lambda _: in_loop(ended.set))
        try:
            await ended.wait()
        finally:
            outcome.cancel()
    return outcome


async def _end_of(outcome: Future[T]) -> None:
    """Wait on asyncio until the job of `outcome` has ended in its thread. Further cancellations of the task do not end
    this wait: the caller goes on with the first one afterwards, and drops the job's result.
    """
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    outcome.add_done_callback(lambda _: loop.call_soon_threadsafe(ended.set))
    with anyio.CancelScope(shield=True):
        while not ended.is_set():
            with suppress(asyncio.CancelledError):
                await ended.wait()
