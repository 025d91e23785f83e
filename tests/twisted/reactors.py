"""Reactors in threads, several in one process."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from twisted.internet.asyncioreactor import AsyncioSelectorReactor
from twisted.internet.defer import maybeDeferred
from twisted.internet.epollreactor import EPollReactor
from twisted.logger import globalLogPublisher

TIMEOUT = 60  # seconds; nothing here takes one


def make_asyncio() -> Any:
    return AsyncioSelectorReactor(asyncio.new_event_loop())


REACTORS: dict[str, Callable[[], Any]] = {"epoll": EPollReactor, "asyncio": make_asyncio}


class Loop:
    """Calls into the thread of the reactor, and waits for the answer."""

    def __init__(self, reactor: Any) -> None:
        self.reactor = reactor
        self.errors: list[str] = []  # raised by our code into the reactor, which logs them and goes on

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        answer: Future[Any] = Future()

        def run() -> None:
            try:
                answer.set_result(function(*args))
            except Exception as error:
                answer.set_exception(error)

        self.reactor.callFromThread(run)
        return answer.result(TIMEOUT)

    def wait(self, function: Callable[..., Any], *args: Any) -> Any:
        """As `call`, for what returns a Deferred or a coroutine."""
        answer: Future[Any] = Future()

        def run() -> None:
            result = maybeDeferred(function, *args)
            result.addCallbacks(answer.set_result, lambda failure: answer.set_exception(failure.value))

        self.reactor.callFromThread(run)
        return answer.result(TIMEOUT)


@contextmanager
def running(kind: str) -> Iterator[Loop]:
    reactor = REACTORS[kind]()
    started = threading.Event()
    reactor.callWhenRunning(started.set)
    thread = threading.Thread(target=reactor.run, kwargs={"installSignalHandlers": False})
    thread.start()
    assert started.wait(TIMEOUT)
    loop = Loop(reactor)

    def observe(event: Any) -> None:
        if "log_failure" in event:
            loop.errors.append(event["log_failure"].getTraceback())

    publisher: Any = globalLogPublisher
    publisher.addObserver(observe)
    try:
        yield loop
    finally:
        reactor.callFromThread(reactor.stop)
        thread.join(TIMEOUT)
        assert not thread.is_alive()
        gc.collect()  # a Deferred that failed unheard says so when it is collected
        publisher.removeObserver(observe)
        for internal in reactor.removeAll():
            internal.connectionLost(None)
        for waker in list(reactor._internalReaders):
            reactor.removeReader(waker)
            waker.connectionLost(None)
        if isinstance(reactor, AsyncioSelectorReactor):
            reactor._asyncioEventloop.close()
        else:
            reactor._poller.close()
        assert not loop.errors, loop.errors[0]
