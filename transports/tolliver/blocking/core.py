"""Core of an instance on threads.

Calls may come from any thread. The endpoint has the thread of the sockets and the machine's lock; the core adds a
thread for the database. A call holds the lock only while it makes its request, and waits for the answer without it.
Handlers run on threads of their own, so they may block, even in calls to their own instance.
"""

from __future__ import annotations

from typing import Any

from tolliver_proto import TolliverError

from .._driver.adapter import Done, Job
from .._driver.events import OnEvent
from .._driver.jobs import Jobs, perform
from .._driver.threads import start
from .._messages.instance import BaseInstanceCore, To, checked
from .._messages.mailbox import Handler
from .._messages.responding import Responder, Responding, checked_responder
from .._messages.side_by_side import SideBySide
from .endpoint import Endpoint, Worker
from .events import call_on_thread
from .handler_calls import CONCURRENCY, Registration, ThreadCalls, checked_plain
from .interrupts import made
from .process import thread_of


class InstanceCore(Endpoint, BaseInstanceCore):
    """A running instance for a program with threads, without its public calls, which `Instance` has. Owns the node, and
    the thread for its store.
    """

    def subscribe_and_wait(self, channel: str, key: str, timeout: float | None = None) -> None:
        self.ask(lambda: self.subscribe(channel, key), timeout)

    def unreliable_send(self, channel: str, key: str, body: bytes, to: To) -> int:
        with self.lock:
            return super().unreliable_send(channel, key, body, to)

    def work_queue(self, channel: str, lease: float) -> None:
        with self.lock:
            super().work_queue(channel, lease)

    # The store.

    def _prepare(self) -> None:
        super()._prepare()
        self._jobs = Jobs(self._stored)

    def _more_workers(self) -> dict[str, Worker]:
        return {"database": self._jobs}

    def _stored(self, result: Any, error: TolliverError | None, done: Done) -> None:
        self.tell(lambda: done(result, error))

    def handle(self, channel: str, key: str, handler: Handler, how: SideBySide) -> Registration:
        return made(lambda: Registration(self, channel, key, checked(handler), how), Registration.close)

    def respond(
        self,
        channel: str,
        key: str,
        handler: Responding,
        concurrency: int = CONCURRENCY,
    ) -> Responder:
        called, policy = checked_responder(handler, concurrency)
        checked_plain(handler)
        return made(lambda: Responder(ThreadCalls(self, channel, key, called, policy).mailbox), Responder.close)

    def call_on_event(self, function: OnEvent) -> None:
        call_on_thread(self, self.feed, function)

    def store(self, job: Job, done: Done) -> None:
        self._jobs.put(job, done)

    def beside(self, job: Job, done: Done) -> None:
        def work() -> None:
            result, error = perform(job)
            with self._lock:
                if self._open:  # in the background: a large database takes long
                    done(result, error)
                    self.run_actions()

        start(thread_of("beside", work, self._fail))
