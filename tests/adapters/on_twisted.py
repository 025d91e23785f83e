"""Instances on Twisted: a reactor of their own on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from inspect import iscoroutine
from typing import Any

from tolliver_transports._options import InstanceOptions
from twisted.internet.asyncioreactor import AsyncioSelectorReactor
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred, maybeDeferred
from twisted.internet.epollreactor import EPollReactor
from twisted.python.failure import Failure

from .facade import Cancelled, Gate, Handle, Stuck


class TwistedWorld:
    can_cancel = True

    def __init__(
        self,
        kind: str,
        create_instance: Callable[..., Any],
        make: Callable[[], Any],
        end: Callable[[], None] = lambda: None,
    ) -> None:
        self.kind = kind
        self._create_instance = create_instance
        self._reactor = make()
        self._end = end
        self._thread = threading.Thread(target=self._run, name=kind, daemon=True)
        self._thread.start()
        self.start("start", lambda: None).wait()

    @classmethod
    def epoll(cls, kind: str, create_instance: Callable[..., Any]) -> TwistedWorld:
        return cls(kind, create_instance, EPollReactor)

    @classmethod
    def on_asyncio(cls, kind: str, create_instance: Callable[..., Any]) -> TwistedWorld:
        loop = asyncio.new_event_loop()
        return cls(kind, create_instance, lambda: AsyncioSelectorReactor(loop), loop.close)

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

    def open(self, options: InstanceOptions) -> tuple[Any, Callable[[], Handle]]:
        name = f"{self.kind}: opening {options.database}"
        instance = self.start(name, lambda: self._create_instance(options, reactor=self._reactor)).wait()
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
        return ensureDeferred(coming) if iscoroutine(coming) else coming
