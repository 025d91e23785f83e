"""Core of an instance on asyncio and trio.

The endpoint has the connections and their tasks; the core adds a thread for the store.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import Any

from tolliver_proto import TolliverError

from .._driver.adapter import Done, Job
from .._driver.events import OnEvent, call_on_loop
from .._driver.jobs import JobThread
from .._messages.instance import BaseInstanceCore, checked
from .._messages.iterators import Registration
from .._messages.mailbox import Handler
from .._messages.responding import CONCURRENCY, Responder, Responding, checked_responder
from .._messages.side_by_side import SideBySide, SideBySideCalls
from .endpoint import Endpoint
from .threads import off_loop


class InstanceCore(Endpoint, BaseInstanceCore):
    """A running instance for a program on asyncio or trio, without its public calls, which `Instance` has. Owns the
    node, and the thread for its store.
    """

    def _start_work(self) -> None:
        self._jobs = self._opened.enter_context(closing(JobThread(self._ran, self._failed))).jobs
        super()._start_work()

    def _failed(self, error: BaseException) -> None:
        self.call_soon(partial(self.break_down, error))

    def _ran(self, result: Any, error: TolliverError | None, done: Done) -> None:
        """Pass a job's result, or its error, to `done` on the loop. Called on the store's thread."""
        self._call_in_loop(partial(self._tell, result, error, done))

    def _tell(self, result: Any, error: TolliverError | None, done: Done) -> None:
        if self._open and self._halted:  # the loop ends
            return
        done(result, error)
        self.run_actions()

    async def _run(self, job: Job, done: Done) -> None:
        result, error = None, None
        try:
            result = await off_loop(job)
        except TolliverError as failure:  # of the job, or OutOfThreads
            error = failure
        self._tell(result, error, done)

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
        self._jobs.put(job, done)

    def beside(self, job: Job, done: Done) -> None:
        self.start(partial(self._run, job, done))
