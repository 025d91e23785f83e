"""tolliver on threads and blocking calls.

The idea: the thread with the sockets and the lock of the machine are the endpoint's (`_blocking_endpoint`); an instance
has one thread beside it, for the database. A call takes the lock for the moment in which it puts its question, lets it
go, and waits for the answer on a promise. Callbacks have threads of their own, so they may wait for whatever they like,
calls to their instance included.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast
from uuid import UUID

from tolliver_proto import Acl, DeadLetter, Notice, PeerInfo, Receipt, TolliverError

from .._driver.adapter import Done, Job
from .._messages.inbox import Callback
from .._messages.instance import BaseInstance, Item
from .._options.instance import InstanceOptions, Remote
from .endpoint import Endpoint, Worker
from .iterators import Messages, Registration, Runs
from .process import thread_of
from .wire import Jobs

GOES_ON = "it is not withdrawn, and may still be stored"


class Instance(Endpoint, BaseInstance):
    """A running instance: use `with create_instance(options) as instance`. Every call may come from any thread.

    `timeout` is in seconds, None waits for as long as it takes. When it is over, TimeoutError is raised.
    """

    def __init__(self, options: InstanceOptions) -> None:  # for the type: an endpoint takes any options
        super().__init__(options)

    # The calls, each explained where BaseInstance has it.

    def new_connection(self, remote: str | Remote, *, timeout: float | None = None) -> UUID:
        with self.lock:
            promise = super().new_connection(remote)
        late = f"there is no connection to {remote} yet: it is dialled until remove_connection({str(remote)!r})"
        return cast(UUID, promise.wait(timeout, late))

    def remove_connection(self, remote: str | Remote, *, block: bool = False) -> None:
        with self.lock:
            super().remove_connection(remote, block=block)

    def subscribe(
        self, channel: str, key: str = "", handler: Callback | None = None, *, timeout: float | None = None
    ) -> None:
        if handler is not None:
            self.register_callback(channel, key, handler)
        with self.lock:
            promise = super().subscribe(channel, key)
        promise.wait(timeout, f"the subscription is not on disk yet: {GOES_ON}")

    def unsubscribe(self, channel: str, key: str = "", *, timeout: float | None = None) -> None:
        with self.lock:
            promise = super().unsubscribe(channel, key)
        promise.wait(timeout, f"the end of the subscription is not on disk yet: {GOES_ON}")

    def send(self, channel: str, key: str, body: bytes, *, timeout: float | None = None) -> Receipt:
        return self.send_many(((channel, key, body),), timeout=timeout)

    def send_many(self, items: Iterable[Item], *, timeout: float | None = None) -> Receipt:
        items = tuple(items)  # a generator may take its time: not under the lock
        with self.lock:
            promise = super().send_many(items)
        return cast(Receipt, promise.wait(timeout, f"the message is not on disk yet: {GOES_ON}"))

    def unreliable_send(self, channel: str, key: str, body: bytes) -> int:
        with self.lock:
            return cast(int, super().unreliable_send(channel, key, body))

    def register_callback(self, channel: str, key: str, callback: Callback) -> Registration:
        """As BaseInstance has it. The callback runs on the registration's thread. Raises TypeError if it is async."""
        return Registration(self, channel, key, callback)

    def messages(
        self, channel: str, key: str = "", *, subscribe: bool = True, timeout: float | None = None
    ) -> Messages:
        """`for message in instance.messages(...)`: settle each with `message.ack()` or `message.fail()`.

        The loop ends when no message has come for `timeout` seconds. Subscribes first; raises what that raises.
        """
        return Messages(self, channel, key, subscribe, timeout)

    def message_runs(
        self, channel: str, key: str = "", *, subscribe: bool = True, timeout: float | None = None
    ) -> Runs:
        """As `messages`, for bulk: lists of what came together, settled with `run.ack()` or `run.fail()`."""
        return Runs(self, channel, key, subscribe, timeout)

    def wait_acked(self, receipt: Receipt, *, timeout: float | None = None) -> None:
        with self.lock:
            promise = super().wait_acked(receipt)
        promise.wait(timeout, "not every recipient has acknowledged it yet: it is stored, and sent again until they do")

    def forget_peer(self, peer: UUID, *, timeout: float | None = None) -> None:
        with self.lock:
            promise = super().forget_peer(peer)
        promise.wait(timeout, f"peer {peer} is not forgotten on disk yet: {GOES_ON}")

    def repin(self, peer: UUID, spki_sha256: bytes | None = None, *, timeout: float | None = None) -> None:
        with self.lock:
            promise = super().repin(peer, spki_sha256)
        promise.wait(timeout, f"the key of peer {peer} is not on disk yet: {GOES_ON}")

    def retry(self, peer: UUID, *, timeout: float | None = None) -> int:
        with self.lock:
            promise = super().retry(peer)
        return cast(int, promise.wait(timeout, f"what was set aside for {peer} does not go out yet: {GOES_ON}"))

    def drop_parked(self, peer: UUID, *, timeout: float | None = None) -> int:
        with self.lock:
            promise = super().drop_parked(peer)
        return cast(int, promise.wait(timeout, f"what was set aside for {peer} is not dropped on disk yet: {GOES_ON}"))

    def dead_letters(self, after: int = 0, count: int = 1000, *, timeout: float | None = None) -> list[DeadLetter]:
        with self.lock:
            promise = super().dead_letters(after, count)
        return cast(list[DeadLetter], promise.wait(timeout, "the database has not answered: ask again"))

    def replay(self, letters: Iterable[DeadLetter]) -> int:
        letters = tuple(letters)
        with self.lock:
            return cast(int, super().replay(letters))

    def reload_tls(self, *, timeout: float | None = None) -> None:
        with self.lock:
            promise = super().reload_tls()
        promise.wait(timeout, "the certificate files are not read yet: they are a little later")

    def set_acl(self, acl: Acl) -> None:
        with self.lock:
            super().set_acl(acl)

    def peers(self) -> list[PeerInfo]:
        with self.lock:
            return super().peers()

    def notices(self) -> list[Notice]:
        with self.lock:
            return super().notices()

    def stats(self) -> dict[str, int]:
        with self.lock:
            return super().stats()

    # The store.

    def _prepare(self) -> None:
        super()._prepare()
        self._jobs = Jobs(self._stored)

    def _more_workers(self) -> dict[str, Worker]:
        return {"database": self._jobs}

    def _start(self) -> None:
        super()._start()
        if self._store.unclean:
            thread_of("check", self._look_for_damage, self._fail).start()

    def _stored(self, result: Any, error: TolliverError | None, done: Done) -> None:
        with self._lock:
            done(result, error)
            self.turn()

    def _look_for_damage(self) -> None:
        lines = self._check_store()
        with self._lock:
            if self._open:  # nobody waits for it: a large database takes its time
                self._on_damage(lines)

    def store(self, job: Job, done: Done) -> None:
        self._jobs.put(job, done)


def create_instance(options: InstanceOptions) -> Instance:
    """`with create_instance(options) as instance:` opens the database, listens, dials, and closes in order.

    Entering raises CertificateError, StoreError, IdentityConflict, and ConnectionLost where it cannot listen.
    """
    return Instance(options)
