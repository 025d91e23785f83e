"""Core of an instance on Twisted.

The endpoint has the connections and the reactor; the core adds the store, whose jobs run in the reactor's thread pool,
one at a time and in order. Both callbacks and coroutines are supported.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, DeferredList, DeferredLock
from twisted.python.failure import Failure

from tolliver_proto import TolliverError

from .._driver.adapter import Done, Job
from .._driver.events import OnEvent, call_on_loop
from .._messages.instance import BaseInstanceCore, checked
from .._messages.iterators import Registration
from .._messages.mailbox import Handler
from .._messages.responding import CONCURRENCY, Responder, Responding, checked_responder
from .._messages.side_by_side import SideBySide, SideBySideCalls
from .._options.instance import InstanceOptions
from .endpoint import Endpoint


class InstanceCore(Endpoint, BaseInstanceCore):
    """A running instance for a program on Twisted, without its public calls, which `Instance` has. Owns the node and
    the queue of its store's jobs.
    """

    def __init__(self, options: InstanceOptions, reactor: Any = None) -> None:
        super().__init__(options, reactor)
        self._storing = DeferredLock()
        self._beside: set[Deferred[None]] = set()

    async def _finish_off_loop(self) -> None:
        await DeferredList(list(self._beside))
        await self._storing.run(super()._finish_off_loop)

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
            self._tell(self._storing.run(self._off_loop, job), done)

    def beside(self, job: Job, done: Done) -> None:
        work = self._tell(self._off_loop(job), done)
        self._beside.add(work)

        def ended(result: None) -> None:
            self._beside.discard(work)
            return result

        work.addBoth(ended)

    def _tell(self, running: Deferred[Any], done: Done) -> Deferred[None]:
        def ended(result: Any, error: Any = None) -> None:
            done(result, error)
            self.run_actions()

        def failed(failure: Failure) -> None:
            failure.trap(TolliverError)
            ended(None, failure.value)

        return running.addCallbacks(ended, failed)
