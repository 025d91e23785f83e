"""tolliver on threads and blocking calls.

The idea: one thread has all sockets (`_blocking_loop`), one has the database, and one lock has the machine. A call
takes the lock for the moment in which it puts its question, lets it go, and waits for the answer on a promise.
Callbacks have threads of their own, so they may wait for whatever they like, calls to their instance included.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self, cast
from uuid import UUID

from tolliver_proto import Acl, ConnectionClosing, DeadLetter, Notice, PeerInfo, Receipt, Role, TolliverError

from ._acl_file import load_acl
from ._blocking_connection import BlockingConnection
from ._blocking_iterators import Bell, Messages, Registration, Runs
from ._blocking_loop import Listeners, Loop
from ._blocking_process import running, thread_of
from ._blocking_wires import Jobs, Promise, Wire
from ._endpoint import Closable
from ._inbox import Callback, Received, Run
from ._instance import BaseInstance, Item
from ._options import TLS, InstanceOptions, Remote
from ._sockets import host_of
from ._tls import AnyPump, Pumps
from ._world import Done, Job

__all__ = [
    "TLS",
    "BlockingConnection",
    "Instance",
    "InstanceOptions",
    "Messages",
    "Pumps",
    "Received",
    "Registration",
    "Remote",
    "Run",
    "Runs",
    "create_instance",
    "load_acl",
]

GOES_ON = "it is not withdrawn, and may still be stored"


class Instance(BaseInstance):
    """A running instance: use `with create_instance(options) as instance`. Every call may come from any thread.

    `timeout` is in seconds, None waits for as long as it takes. When it is over, TimeoutError is raised.
    """

    wires: dict[int, Wire]

    def __init__(self, options: InstanceOptions) -> None:
        super().__init__(options)
        self._lock = threading.RLock()
        self._closing = threading.Lock()

    @property
    def lock(self) -> threading.RLock:
        """The machine's: held while it is asked or told something, never while anybody waits."""
        if self._process not in (0, os.getpid()):
            self.check_open()
        return self._lock

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

    # The life of an instance.

    def __enter__(self) -> Self:
        self._prepare()
        try:
            self._listeners = Listeners(self.options.listen)
        except BaseException:
            self._finish()
            raise
        self.addresses = self._listeners.addresses
        self._loop = Loop(self._tick)
        self._jobs = Jobs(self._stored)
        self._idle = threading.Event()
        works = {"sockets": self._loop.run, "database": self._jobs.run}
        self._threads = [thread_of(name, work, self._fail) for name, work in works.items()]
        running.add(self)
        try:
            self._start()
        except BaseException:  # no threads left, or Ctrl-C
            self.close()
            raise
        return self

    def _start(self) -> None:
        self._listeners.serve(self._loop, self._take_in)
        with self._lock:
            self._begin()
        for thread in self._threads:
            thread.start()
        if self._store.unclean:
            thread_of("check", self._look_for_damage, self._fail).start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every connection in order, and close the database: what leaving the `with` block does.

        Takes at most `Limits.close_timeout` and a second. A second call, or one from a forked child, does nothing.
        Callbacks that are running are not waited for.
        """
        if self not in running:
            return
        with self._closing:
            if self not in running:  # another thread has closed it meanwhile
                return
            try:
                with self._lock:
                    if self._open:
                        self._begin_close()
                self._loop.soon(lambda: self._listeners.close(self._loop))
                self._idle.wait(self.options.limits.close_timeout + 1)
            finally:
                self._stop()

    def _stop(self) -> None:
        with self._lock:
            self._driver.promises.give_up()
        self._loop.stop()
        self._jobs.stop()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        self._listeners.close(self._loop)
        for wire in list(self.wires.values()):
            wire.end(ConnectionClosing("the instance was closed"))
        self._loop.close()
        self._finish()
        running.discard(self)

    def disown(self) -> None:
        for wire in self.wires.values():
            wire.disown()
        self._loop.close()

    def _fail(self) -> None:
        """A thread has failed, and the instance with it: nobody is left waiting."""
        with self._lock:
            self._open = False
            self._driver.promises.give_up()
            for mailbox in list(self.mailboxes):
                mailbox.close()
        self._idle.set()

    def _tick(self) -> float | None:
        with self._lock:
            self.keep_time()
            return self._driver.arm()

    def _stored(self, result: Any, error: TolliverError | None, done: Done) -> None:
        with self._lock:
            done(result, error)
            self.turn()

    def _look_for_damage(self) -> None:
        lines = self._check_store()
        with self._lock:
            if self._open:  # nobody waits for it: a large database takes its time
                self._on_damage(lines)

    # What the driver and the mailboxes ask for, under the lock (see World and ThreadOwner).

    def promise(self) -> Promise:
        return Promise()

    def bell(self) -> Bell:
        return Bell(self._lock)

    def wake(self) -> None:
        self._loop.wake()

    def idle(self) -> None:
        if self.node.idle:
            self._idle.set()

    def store(self, job: Job, done: Done) -> None:
        self._jobs.put(job, done)

    def abandon(self, dropped: Closable) -> None:
        """Any thread may be interrupted by the garbage collector, whatever locks it holds: so this takes none."""
        self._abandoned.append(dropped)
        self._loop.wake()

    def dial(self, cid: int, remote: Remote) -> None:
        wire = self._wire(cid, Role.CLIENT, self._pumps.client(remote))
        self._loop.soon(lambda: wire.dial(remote))

    # Connections.

    def _wire(self, cid: int, role: Role, pump: AnyPump) -> Wire:
        made = self.wires[cid] = Wire(self._driver, cid, role, pump, self._loop, self._lock, self._ended)
        return made

    def _ended(self, cid: int, error: TolliverError | None) -> None:
        with self._lock:
            self._lost(cid, error)

    def _take_in(self, sock: socket.socket) -> None:
        pump = self._pumps.server()
        with self._lock:
            cid = self._accepted(host_of(sock))
            wire = None if cid is None else self._wire(cid, Role.SERVER, pump)
        if wire is None:
            sock.close()
        else:
            wire.begin(sock)


def create_instance(options: InstanceOptions) -> Instance:
    """`with create_instance(options) as instance:` opens the database, listens, dials, and closes in order.

    Entering raises CertificateError, StoreError, IdentityConflict, and ConnectionLost where it cannot listen.
    """
    return Instance(options)
