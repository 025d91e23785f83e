"""tolliver on Twisted.

The idea: the reactor is the loop, and everything happens on its thread but the store's work, which goes to its thread
pool, one job at a time and in order. Calls answer with Deferreds, so that callbacks and coroutines are both served.
The reactor is the one that was given: the global one is imported only where none was.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, Self
from uuid import UUID

from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, DeferredList, DeferredLock, fail, maybeDeferred, succeed
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from tolliver_proto import DeadLetter, Receipt, Role, TolliverError

from ._acl_file import load_acl
from ._inbox import Callback, Received, Run
from ._instance import BaseInstance, Item
from ._iterators import Count, Messages, Registration, Runs
from ._options import TLS, InstanceOptions, Remote
from ._twisted_dialling import connect, in_pool, listen
from ._twisted_tls import Transports
from ._twisted_wires import Bell, Promise, Wire, Wires
from ._world import Done, Job

__all__ = [
    "TLS",
    "Instance",
    "InstanceOptions",
    "Messages",
    "Received",
    "Registration",
    "Remote",
    "Run",
    "Runs",
    "TolliverService",
    "create_instance",
    "load_acl",
]


class Instance(BaseInstance):
    """A running instance, from `create_instance` to `close`. Its calls belong on the reactor's thread.

    A call that returns a Deferred raises nothing itself: whatever is wrong is the Deferred's failure.
    """

    make_pumps = Transports

    def __init__(self, options: InstanceOptions, reactor: Any = None) -> None:
        super().__init__(options)
        self._reactor = _global_reactor() if reactor is None else reactor
        self._storing = DeferredLock()
        self._checking: Deferred[None] = succeed(None)
        self._ports: list[Any] = []
        self._tasks: set[Deferred[None]] = set()
        self._alarm: Any = None
        self._woken = False
        self._released = False
        self._idle = self.promise()
        self._trigger: Any = None
        self._closed: Promise | None = None

    # The calls, each explained where BaseInstance has it.

    def new_connection(self, remote: str | Remote, *, timeout: float | None = None) -> Deferred[UUID]:
        return _answer(super().new_connection, remote, timeout=timeout)

    def remove_connection(self, remote: str | Remote, *, block: bool = False) -> Deferred[None]:
        return maybeDeferred(super().remove_connection, remote, block=block)

    def subscribe(self, channel: str, key: str = "", handler: Callback | None = None) -> Deferred[None]:
        return _answer(super().subscribe, channel, key, handler)

    def unsubscribe(self, channel: str, key: str = "") -> Deferred[None]:
        return _answer(super().unsubscribe, channel, key)

    def send(self, channel: str, key: str, body: bytes) -> Deferred[Receipt]:
        return _answer(super().send, channel, key, body)

    def send_many(self, items: Iterable[Item]) -> Deferred[Receipt]:
        return _answer(super().send_many, items)

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
        return _answer(super().wait_acked, receipt, timeout=timeout)

    def forget_peer(self, peer: UUID) -> Deferred[None]:
        return _answer(super().forget_peer, peer)

    def repin(self, peer: UUID, spki_sha256: bytes | None = None) -> Deferred[None]:
        return _answer(super().repin, peer, spki_sha256)

    def retry(self, peer: UUID) -> Deferred[int]:
        return _answer(super().retry, peer)

    def drop_parked(self, peer: UUID) -> Deferred[int]:
        return _answer(super().drop_parked, peer)

    def dead_letters(self, after: int = 0, count: int = 1000) -> Deferred[list[DeadLetter]]:
        return _answer(super().dead_letters, after, count)

    def reload_tls(self) -> Deferred[None]:
        return _answer(super().reload_tls)

    def replay(self, letters: Iterable[DeadLetter]) -> Count:
        return Count(super().replay(letters))

    # The life of an instance.

    async def _start(self) -> Self:
        await self._off_loop(self._prepare)
        try:
            if self.options.listen is not None:
                await self._listen(*self.options.listen)
        except BaseException:
            await self._stop_listening()
            await self._release()
            raise
        if self._store.unclean:
            self._checking = self._off_loop(self._check_store).addCallback(self._on_damage)
        self._trigger = self._reactor.addSystemEventTrigger("before", "shutdown", self._on_shutdown)
        self._begin()
        return self

    def close(self) -> Deferred[None]:
        """End every connection in order and close the database: at most `Limits.close_timeout` and a second.

        Calling it again waits for the same end. A reactor that is stopped calls it, and waits for it.
        """
        if self._closed is None:
            self._closed = self.promise()  # before all else, as what it tells others may have them call this
            self._closed.follow(Deferred.fromCoroutine(self._close()))
        return self._closed.wait()

    async def _close(self) -> None:
        stopped = self._stop_listening()
        self._begin_close()
        with suppress(TimeoutError):
            await self._idle.wait(self.options.limits.close_timeout + 1)
        self._driver.promises.give_up()
        for task in list(self._tasks):
            task.cancel()
        for wire in list(self.wires.values()):
            wire.abort()
        await stopped
        await self.breathe()  # an abort ends in the next turn
        try:
            await self._release()
        finally:
            if self._trigger is not None:
                self._reactor.removeSystemEventTrigger(self._trigger)

    def _on_shutdown(self) -> Deferred[None]:
        self._trigger = None  # it has fired
        return self.close()

    async def _release(self) -> None:
        self._released = True
        if self._alarm is not None and self._alarm.active():
            self._alarm.cancel()
        await self._checking
        await self._storing.run(self._off_loop, self._finish)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    def _off_loop(self, job: Job) -> Deferred[Any]:
        return in_pool(self._reactor, job)

    def _ring(self) -> None:
        self._woken = False
        self.keep_time()
        if not self._woken:
            self._set_alarm(self._driver.arm())

    def _set_alarm(self, seconds: float | None) -> None:
        if self._alarm is not None and self._alarm.active():
            self._alarm.cancel()
        self._alarm = None if seconds is None else self._reactor.callLater(seconds, self._ring)

    # What the driver and the mailboxes ask for (see World and AsyncOwner).

    def promise(self) -> Promise:
        return Promise(self._reactor)

    def bell(self) -> Bell:
        return Bell(self._reactor)

    def wake(self) -> None:
        if not self._woken and not self._released:
            self._woken = True
            self._set_alarm(0)

    def idle(self) -> None:
        if self.node.idle:
            self._idle.resolve(None)

    def store(self, job: Job, done: Done) -> None:
        def stored(result: Any, error: Any = None) -> None:
            done(result, error)
            self.turn()

        def failed(failure: Failure) -> None:
            failure.trap(TolliverError)
            stored(None, failure.value)

        if not self._released:
            self._storing.run(self._off_loop, job).addCallbacks(stored, failed)

    def spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], object]:
        task = Deferred.fromCoroutine(work())
        self._tasks.add(task)

        def ended(result: object) -> object:
            self._tasks.discard(task)
            return result

        task.addBoth(ended).addErrback(lambda failure: failure.trap(CancelledError))
        return lambda: self._reactor.callLater(0, task.cancel)  # it may be the task itself that asks for it

    def breathe(self) -> Deferred[None]:
        return deferLater(self._reactor, 0)

    def dial(self, cid: int, remote: Remote) -> None:
        wire = self._wire(cid, Role.CLIENT)
        factory = self._pumps.client(remote, Wires(lambda _: wire), self._reactor)
        patience = self.options.limits.handshake_timeout
        wire.dialling = Deferred.fromCoroutine(connect(self._reactor, remote.host, remote.port, factory, patience))
        wire.dialling.addErrback(wire.unreached, remote)

    # Connections.

    async def _listen(self, host: str, port: int) -> None:
        self._ports = await listen(self._reactor, host, port, Wires(self._take_in))
        self.addresses = [(where.host, where.port) for where in (port.getHost() for port in self._ports)]

    def _take_in(self, address: Any) -> Any:
        cid = self._accepted(address.host)
        if cid is None:
            return None
        wire = self._wire(cid, Role.SERVER)
        return self._pumps.server(Wires(lambda _: wire), self._reactor).buildProtocol(address)

    def _stop_listening(self) -> Deferred[Any]:
        ports, self._ports = self._ports, []
        return DeferredList([maybeDeferred(port.stopListening) for port in ports])

    def _wire(self, cid: int, role: Role) -> Wire:
        wire = self.wires[cid] = Wire(self._driver, cid, role, self._lost)
        return wire


def _answer(call: Callable[..., Promise], *args: Any, timeout: float | None = None) -> Deferred[Any]:
    try:
        return call(*args).wait(timeout)
    except Exception:
        return fail()


def _global_reactor() -> Any:
    from twisted.internet import reactor  # importing it installs one: so not before it is needed

    return reactor


def create_instance(options: InstanceOptions, reactor: Any = None) -> Deferred[Instance]:
    """Opens the database, listens, dials. `async with await create_instance(options) as instance:` closes in order.

    Fails with CertificateError, StoreError, IdentityConflict, and ConnectionLost where it cannot listen. Where the
    Deferred is cancelled, what was opened is closed again. `reactor`: None is the global one.
    """
    instance = Instance(options, reactor)
    opening = instance.promise().follow(Deferred.fromCoroutine(instance._start()))

    def unwanted(failure: Failure) -> Failure:
        if failure.check(CancelledError):
            opening.wait().addCallbacks(Instance.close, lambda _: None)
        return failure

    return opening.wait().addErrback(unwanted)


class TolliverService(Service):
    """An instance as a service, for `twistd` and other services' parents. `instance` is None unless it is open."""

    instance: Instance | None = None
    _log = Logger()

    def __init__(self, options: InstanceOptions, reactor: Any = None) -> None:
        self._options = options
        self._reactor = reactor
        self._promise = Promise(reactor)
        self._opening: Deferred[None] = succeed(None)

    def when_open(self) -> Deferred[Instance]:
        """The instance, as soon as it is open. Fails with what opening it failed with, which is logged, too."""
        return self._promise.wait()

    def startService(self) -> None:
        super().startService()
        self._opening = create_instance(self._options, self._reactor).addCallbacks(self._opened, self._failed)

    def stopService(self) -> Deferred[None]:
        """Fires when the instance is closed."""
        super().stopService()
        closing = self._opening.addCallback(lambda _: self._close())
        return Promise(self._reactor).follow(closing).wait()

    def _opened(self, instance: Instance) -> None:
        self.instance = instance
        self._promise.resolve(instance)

    def _failed(self, failure: Failure) -> None:
        self._log.failure("The tolliver instance {database} was not opened", failure, database=self._options.database)
        self._promise.fail(failure.value)

    def _close(self) -> Deferred[None]:
        self._promise = Promise(self._reactor)
        instance, self.instance = self.instance, None
        return succeed(None) if instance is None else instance.close()
