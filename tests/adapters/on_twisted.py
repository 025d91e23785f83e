"""Instances on Twisted, with a reactor on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

from twisted.internet.asyncioreactor import AsyncioSelectorReactor
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred, maybeDeferred
from twisted.internet.epollreactor import EPollReactor
from twisted.python.failure import Failure

from .facade import Adapter, Cancelled, Gate, Handle, Options, Stuck, create, each


class TwistedWorld:
    can_cancel = True

    def __init__(
        self,
        kind: str,
        adapter: Adapter,
        make: Callable[[], Any],
        end: Callable[[], None] = lambda: None,
    ) -> None:
        self.kind = kind
        self._adapter = adapter
        self._reactor = make()
        self._end = end
        self._thread = threading.Thread(target=self._run, name=kind, daemon=True)
        self._thread.start()
        self.start("start", lambda: None).wait()

    @classmethod
    def epoll(cls, kind: str, adapter: Adapter) -> TwistedWorld:
        return cls(kind, adapter, EPollReactor)

    @classmethod
    def on_asyncio(cls, kind: str, adapter: Adapter) -> TwistedWorld:
        loop = asyncio.new_event_loop()
        return cls(kind, adapter, lambda: AsyncioSelectorReactor(loop), loop.close)

    def _run(self) -> None:
        self._reactor.run(installSignalHandlers=False)

    def close(self) -> None:
        self._reactor.callFromThread(self._reactor.stop)
        self._thread.join(5)
        self._end()

    def start(self, name: str, call: Callable[[], Any]) -> Handle:
        handle = Handle(name, self._thread.ident)
        under_way: list[Deferred[Any]] = []

        def failed(failure: Failure) -> None:
            error = failure.value or Stuck(f"{name} failed without an error")
            handle.fail(Cancelled(name) if isinstance(error, CancelledError) else error)

        def run() -> None:
            under_way.append(maybeDeferred(call))
            under_way[0].addCallbacks(handle.resolve, failed)

        handle.cancel = lambda: self._reactor.callFromThread(lambda: under_way[0].cancel())
        self._reactor.callFromThread(run)
        return handle

    def open(self, options: Options) -> tuple[Any, Callable[[], Handle]]:
        name = f"{self.kind}: opening"
        instance = self.start(name, lambda: create(self._adapter, options, reactor=self._reactor)).wait()
        return instance, lambda: self.start(f"{self.kind}: close", instance.close)

    def later(self, gate: Gate) -> Any:
        passed: Deferred[Any] = Deferred()

        def pass_on() -> None:
            error = gate.future.exception()
            if error is None:
                passed.callback(gate.future.result())
            else:
                passed.errback(error)

        gate.future.add_done_callback(lambda _: self._reactor.callFromThread(pass_on))
        return passed

    def interrupt(self, turns: int, instance: Any, name: str, *args: Any) -> Handle:
        def call() -> Deferred[Any]:
            under_way: Deferred[Any] = maybeDeferred(getattr(instance, name), *args)

            def turn(left: int) -> None:
                if left:
                    self._reactor.callLater(0, turn, left - 1)
                else:
                    under_way.cancel()

            turn(turns)
            return under_way

        return self.start(f"{self.kind}: {name} for {turns} turns", call)

    def next(self, iterator: Any) -> Any:
        coming = anext(iterator)
        return coming if isinstance(coming, Deferred) else ensureDeferred(_awaited(coming))

    async def waiting(self, elements: Iterable[Any], last: Iterable[Gate] = ()) -> AsyncIterator[Any]:
        try:
            with each(elements):
                for element in elements:
                    if isinstance(element, Gate):
                        await self.later(element)
                    else:
                        yield element
        finally:
            for gate in last:
                await self.later(gate)

    async def mapped(self, subscription: Any, function: Callable[[Any], Any]) -> AsyncIterator[Any]:
        async with subscription:
            async for element in subscription:
                yield function(element)

    def left(self, source: Any) -> Any:
        return ensureDeferred(_awaited(source.aclose()))

    def within(self, iterator: Any, end: BaseException) -> Any:
        async def leave() -> Any:
            try:
                async with iterator:
                    item = await anext(iterator)
                    raise end
            except BaseException as error:
                if error is not end:
                    raise
            return item

        return ensureDeferred(leave())

    def outcome(self, call: Callable[[], Any]) -> Any:
        return maybeDeferred(call).addErrback(lambda failure: failure.value)


async def _awaited(what: Awaitable[Any]) -> Any:
    return await what
