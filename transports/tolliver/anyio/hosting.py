"""The task group of an endpoint, from its opening to its closing.

A task group belongs to one task, in which it begins and ends. On asyncio that is a task of ours, the host. So an
instance may be opened in one task and closed in another, as fixtures of tests, cells of a notebook and lifespans of web
frameworks do. As in any task group, an error of a task ends the group: the host then cancels the task that opened, if
that still runs, and closing raises the error.

On trio the group belongs to the task that opens, which must close: nurseries live in a block of their task, and every
error ends up in one. A host would be a system task of trio, whose errors crash the program.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import anyio
from anyio.abc import TaskGroup

from tolliver_proto import LocalProtocolError


class Host(Protocol):
    """Owner of a task group."""

    async def open(self) -> TaskGroup: ...

    def check_task(self, whose: object) -> None:
        """Raises LocalProtocolError where the current task cannot close. `whose` is shown as the owner."""

    async def close(self, seconds: float, tell: Callable[[], object]) -> None:
        """Cancel all tasks and wait for them; calls `tell` if they have not ended after so many seconds. Raises their
        errors, as an exception group.
        """


class AsyncioHost:
    """A task that holds the group."""

    async def open(self) -> TaskGroup:
        self._opener = asyncio.current_task()
        self._is_closing = self._has_cancelled = False
        self._begun: asyncio.Future[TaskGroup] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(), name="tolliver")
        try:
            return await asyncio.shield(self._begun)
        except BaseException:
            self._is_closing = True
            self._task.cancel()
            await self._wait()
            raise

    async def _hold(self) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                self._begun.set_result(tasks)
                await anyio.sleep_forever()
        finally:
            if not self._is_closing and self._opener is not None and not self._opener.done():
                self._has_cancelled = self._opener.cancel()

    def check_task(self, whose: object) -> None:
        pass

    async def close(self, seconds: float, tell: Callable[[], object]) -> None:
        self._is_closing = True
        self._begun.result().cancel_scope.cancel()
        timer = asyncio.get_running_loop().call_later(seconds, tell)
        cancelled = await self._wait()
        timer.cancel()
        opener = self._opener
        if self._has_cancelled and opener is not None and opener is asyncio.current_task():
            opener.uncancel()
            cancelled = None
        try:
            if not self._task.cancelled():
                self._task.result()
            if cancelled is not None:
                raise cancelled
        finally:
            del cancelled  # breaks a reference cycle with its frames

    async def _wait(self) -> asyncio.CancelledError | None:
        """Wait for the end of the host, through every cancellation of the current task; returns the last of these."""
        last = None
        is_over = False
        with anyio.CancelScope(shield=True):
            while not is_over:
                try:
                    await asyncio.sleep(0)  # a cancellation that was asked for comes here, though the host has ended
                    if not self._task.done():
                        await asyncio.wait([self._task])
                    is_over = True
                except asyncio.CancelledError as error:
                    last = error
        return last


class TrioHost:
    """The task that opens."""

    async def open(self) -> TaskGroup:
        self._opener = anyio.get_current_task()
        self._tasks = anyio.create_task_group()
        return await self._tasks.__aenter__()

    def check_task(self, whose: object) -> None:
        if anyio.get_current_task() != self._opener:
            raise LocalProtocolError(
                "another_task",
                f"on trio {whose} is closed by the task that has opened it, as its tasks live in a nursery of that "
                "one: let that task wait for an event, and set it; on asyncio any task may close",
            )

    async def close(self, seconds: float, tell: Callable[[], object]) -> None:
        import trio  # installed, as it is running

        late = trio.CancelScope()

        async def wait() -> None:
            with late:
                await trio.sleep(seconds)
                tell()

        self._tasks.cancel_scope.cancel()
        trio.lowlevel.spawn_system_task(wait)  # outside the group, whose tasks are cancelled
        try:
            await self._tasks.__aexit__(None, None, None)
        finally:
            late.cancel()
