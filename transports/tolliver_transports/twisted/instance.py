"""tolliver on Twisted.

The idea: the connections and their reactor are the endpoint's (`_twisted_endpoint`); an instance adds its store, whose
work goes to the reactor's thread pool, one job at a time and in order. What is here are the calls in the form that
Twisted knows: they answer with Deferreds, so that callbacks and coroutines are both served.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred, DeferredLock, maybeDeferred, succeed
from twisted.python.failure import Failure

from tolliver_proto import DeadLetter, Receipt, TolliverError

from .._driver.adapter import Done, Job
from .._messages.inbox import Callback
from .._messages.instance import BaseInstance, Item
from .._messages.iterators import Count, Messages, Registration, Runs
from .._options.instance import InstanceOptions, Remote
from .endpoint import Endpoint, answer


class Instance(Endpoint, BaseInstance):
    """A running instance, from `create_instance` to `close`. Its calls belong on the reactor's thread.

    A call that returns a Deferred raises nothing itself: whatever is wrong is the Deferred's failure.
    """

    def __init__(self, options: InstanceOptions, reactor: Any = None) -> None:
        super().__init__(options, reactor)
        self._storing = DeferredLock()
        self._checking: Deferred[None] = succeed(None)

    # The calls, each explained where BaseInstance has it.

    def new_connection(self, remote: str | Remote, *, timeout: float | None = None) -> Deferred[UUID]:
        return answer(super().new_connection, remote, timeout=timeout)

    def remove_connection(self, remote: str | Remote, *, block: bool = False) -> Deferred[None]:
        return maybeDeferred(super().remove_connection, remote, block=block)

    def subscribe(self, channel: str, key: str = "", handler: Callback | None = None) -> Deferred[None]:
        return answer(super().subscribe, channel, key, handler)

    def unsubscribe(self, channel: str, key: str = "") -> Deferred[None]:
        return answer(super().unsubscribe, channel, key)

    def send(self, channel: str, key: str, body: bytes) -> Deferred[Receipt]:
        return answer(super().send, channel, key, body)

    def send_many(self, items: Iterable[Item]) -> Deferred[Receipt]:
        return answer(super().send_many, items)

    def unreliable_send(self, channel: str, key: str, body: bytes) -> Count:
        return Count(super().unreliable_send(channel, key, body))

    def register_callback(self, channel: str, key: str, callback: Callback) -> Registration:
        """As BaseInstance has it. The callback may be plain, a coroutine function, or return a Deferred."""
        self.check_open()
        return Registration(self, channel, key, callback)

    def messages(self, channel: str, key: str = "", *, subscribe: bool = True) -> Messages:
        """`async for message in instance.messages(...)`: settle each with `message.ack()` or `message.fail()`."""
        self.check_open()
        return Messages(self, channel, key, subscribe)

    def message_runs(self, channel: str, key: str = "", *, subscribe: bool = True) -> Runs:
        """As `messages`, for bulk: lists of what came together, settled with `run.ack()` or `run.fail()`."""
        self.check_open()
        return Runs(self, channel, key, subscribe)

    def wait_acked(self, receipt: Receipt, *, timeout: float | None = None) -> Deferred[None]:
        return answer(super().wait_acked, receipt, timeout=timeout)

    def forget_peer(self, peer: UUID) -> Deferred[None]:
        return answer(super().forget_peer, peer)

    def repin(self, peer: UUID, spki_sha256: bytes | None = None) -> Deferred[None]:
        return answer(super().repin, peer, spki_sha256)

    def retry(self, peer: UUID) -> Deferred[int]:
        return answer(super().retry, peer)

    def drop_parked(self, peer: UUID) -> Deferred[int]:
        return answer(super().drop_parked, peer)

    def dead_letters(self, after: int = 0, count: int = 1000) -> Deferred[list[DeadLetter]]:
        return answer(super().dead_letters, after, count)

    def reload_tls(self) -> Deferred[None]:
        return answer(super().reload_tls)

    def replay(self, letters: Iterable[DeadLetter]) -> Count:
        return Count(super().replay(letters))

    # The store.

    def _start_work(self) -> None:
        if self._store.unclean:
            self._checking = self._off_loop(self._check_store).addCallback(self._on_damage)
        super()._start_work()

    async def _finish_off_loop(self) -> None:
        await self._checking
        await self._storing.run(super()._finish_off_loop)

    def store(self, job: Job, done: Done) -> None:
        def stored(result: Any, error: Any = None) -> None:
            done(result, error)
            self.turn()

        def failed(failure: Failure) -> None:
            failure.trap(TolliverError)
            stored(None, failure.value)

        if not self._released:
            self._storing.run(self._off_loop, job).addCallbacks(stored, failed)


def create_instance(options: InstanceOptions, reactor: Any = None) -> Deferred[Instance]:
    """Opens the database, listens, dials. `async with await create_instance(options) as instance:` closes in order.

    Fails with CertificateError, StoreError, IdentityConflict, and ConnectionLost where it cannot listen. Where the
    Deferred is cancelled, what was opened is closed again. `reactor`: None is the global one.
    """
    return Instance(options, reactor)._start()
