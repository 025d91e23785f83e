"""Instances on asyncio, uvloop and trio, in one loop behind a portal."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import Future
from contextlib import ExitStack
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import trio
from tolliver.anyio.ends import ends_task

from .facade import Adapter, Cancelled, Gate, Handle, Options, create, each


class AnyioWorld:
    """A loop, and a task group in it for what tests start."""

    can_cancel = True

    def __init__(self, kind: str, adapter: Adapter, backend: str, **options: Any) -> None:
        self.kind = kind
        self._adapter = adapter
        self._ending = ExitStack()
        portal = self._ending.enter_context(anyio.from_thread.start_blocking_portal(backend, options))
        ready: Future[None] = Future()
        self._running = portal.start_task_soon(self._run, backend, ready)
        ready.result()
        self._ending.callback(self._end)

    async def _run(self, backend: str, ready: Future[None]) -> None:
        self._thread = threading.get_ident()
        self._soon = _soon_in_this_loop(backend)
        self._posted: deque[Callable[[], object]] = deque()
        self._rung = anyio.Event()
        async with anyio.create_task_group() as self._tasks:
            ready.set_result(None)
            while True:
                await self._rung.wait()
                self._rung = anyio.Event()
                while self._posted:
                    self._posted.popleft()()

    def _post(self, call: Callable[[], object]) -> None:
        """Have it called in a task of the loop. A portal would do so too, but wait for it without a limit."""
        self._posted.append(call)
        self._soon(lambda: self._rung.set())

    def _end(self) -> None:
        self._post(self._tasks.cancel_scope.cancel)
        self._running.result()

    def close(self) -> None:
        self._ending.close()

    def _spawn(self, handle: Handle, work: Callable[[anyio.CancelScope], Awaitable[Any]]) -> Handle:
        scopes: list[anyio.CancelScope] = []

        async def run() -> None:
            with scopes[0] as scope:
                try:
                    result = await work(scope)
                except Exception as error:
                    handle.fail(error)
                else:
                    handle.resolve(result)
                return
            handle.fail(Cancelled(handle.name))

        def begin() -> None:
            scopes.append(anyio.CancelScope())
            self._tasks.start_soon(run)

        handle.thread = self._thread
        handle.cancel = lambda: self._post(lambda: scopes[0].cancel())
        self._post(begin)
        return handle

    def start(self, name: str, call: Callable[[], Any]) -> Handle:
        async def work(_scope: anyio.CancelScope) -> Any:
            return await _settled(call())

        return self._spawn(Handle(name), work)

    def open(self, options: Options) -> tuple[Any, Callable[[], Handle]]:
        """One task enters and leaves it, as its cancel scopes must."""
        opened, closed = Handle(f"{self.kind}: opening", self._thread), Handle("closing")
        closing = Future[None]()

        async def live(_scope: anyio.CancelScope) -> None:
            leave = anyio.Event()
            try:
                async with create(self._adapter, options) as instance:
                    opened.resolve((instance, leave))
                    await leave.wait()
            except Exception as error:
                if opened.done:
                    raise
                opened.fail(error)

        self._spawn(closed, live)
        instance, leave = opened.wait()

        def close() -> Handle:
            if not closing.done():
                closing.set_result(None)
                self._post(leave.set)
            return closed

        return instance, close

    async def _pass(self, gate: Gate) -> Any:
        opened = anyio.Event()
        gate.future.add_done_callback(lambda _: self._soon(opened.set))
        await opened.wait()
        return gate.future.result()

    def later(self, gate: Gate) -> Any:
        return self._pass(gate)

    def interrupt(self, turns: int, instance: Any, name: str, *args: Any) -> Handle:
        async def work(scope: anyio.CancelScope) -> Any:
            async def stop() -> None:
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
                scope.cancel()

            self._tasks.start_soon(stop)
            return await getattr(instance, name)(*args)

        return self._spawn(Handle(f"{self.kind}: {name} for {turns} turns"), work)

    def next(self, iterator: Any) -> Any:
        return anext(iterator)

    async def waiting(self, elements: Iterable[Any], last: Iterable[Gate] = ()) -> AsyncIterator[Any]:
        try:
            with each(elements):
                for element in elements:
                    if isinstance(element, Gate):
                        await self._pass(element)
                    else:
                        yield element
        finally:
            for gate in last:
                await self._pass(gate)

    async def mapped(self, subscription: Any, function: Callable[[Any], Any]) -> AsyncIterator[Any]:
        async with subscription:
            async for element in subscription:
                yield function(element)

    def left(self, source: Any) -> Any:
        return source.aclose()

    async def within(self, iterator: Any, end: BaseException) -> Any:
        try:
            async with iterator:
                item = await anext(iterator)
                raise end
        except BaseException as error:
            if error is not end:
                raise
        return item

    async def outcome(self, call: Callable[[], Any]) -> Any:
        try:
            return await _settled(call())
        except BaseException as error:
            if ends_task(error):
                raise
            return error


async def _settled(result: Any) -> Any:
    return await result if hasattr(result, "__await__") else result


def _soon_in_this_loop(backend: str) -> Callable[[Callable[[], object]], object]:
    """Way for another thread to have something called here, without waiting for it."""
    if backend == "trio":
        return trio.lowlevel.current_trio_token().run_sync_soon
    return asyncio.get_running_loop().call_soon_threadsafe
