"""Core of an instance on Twisted.

The endpoint has the connections and the reactor; the core adds a thread for the store. Both callbacks and coroutines
are supported.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import Any, cast

from twisted.internet.defer import Deferred, DeferredList
from twisted.python.failure import Failure

from tolliver_proto import TolliverError

from .._driver.adapter import Done, Job
from .._driver.events import OnEvent, call_on_loop
from .._driver.jobs import JobThread
from .._messages.instance import BaseInstanceCore, checked
from .._messages.iterators import Registration
from .._messages.mailbox import Handler
from .._messages.responding import CONCURRENCY, Responder, Responding, checked_responder
from .._messages.side_by_side import SideBySide, SideBySideCalls
from .._options.instance import InstanceOptions
from .endpoint import Endpoint


class InstanceCore(Endpoint, BaseInstanceCore):
    """A running instance for a program on Twisted, without its public calls, which `Instance` has. Owns the node and
    the thread for its store.
    """

    def __init__(self, options: InstanceOptions, reactor: Any = None) -> None:
        super().__init__(options, reactor)
        self._beside: set[Deferred[None]] = set()

    def _start_work(self) -> None:
        self._jobs = self._opened.enter_context(closing(JobThread(self._ran, self._failed))).jobs
        super()._start_work()

    def _ran(self, result: Any, error: TolliverError | None, done: Done) -> None:
        """Pass a job's result, or its error, to `done` on the loop. Called on the store's thread."""
        self.call_soon(partial(self._tell, result, error, done))

    def _failed(self, error: BaseException) -> None:
        def fail() -> None:
            raise error  # the reactor logs it

        self.call_soon(fail)

    async def _finish_off_loop(self) -> None:
        await DeferredList(list(self._beside))
        await super()._finish_off_loop()

    def handle(self, channel: str, key: str, handler: Handler, how: SideBySide) -> Registration:
        return Registration(self, channel, key, checked(handler), how)

    def respond(
        self,
        channel: str,
        key: str,
        handler: Responding,
        concurrency: int = CONCURRENCY,
    ) -> Responder:
        called, policy = checked_responder(handler, concurrency)
        return Responder(SideBySideCalls(self, channel, key, called, policy).mailbox)

    def call_on_event(self, function: OnEvent) -> None:
        call_on_loop(self, self.feed, function)

    def store(self, job: Job, done: Done) -> None:
        if not self._released:
            self._jobs.put(job, done)

    def beside(self, job: Job, done: Done) -> None:
        def succeeded(result: Any) -> None:
            self._tell(result, None, done)

        def failed(failure: Failure) -> None:
            failure.trap(TolliverError)
            self._tell(None, cast(TolliverError, failure.value), done)

        def ended(result: None) -> None:
            self._beside.discard(work)
            return result

        work: Deferred[Any] = self._off_loop(job)
        self._beside.add(work)
        work.addCallbacks(succeeded, failed).addBoth(ended)

    def _tell(self, result: Any, error: TolliverError | None, done: Done) -> None:
        done(result, error)
        self.run_actions()
