"""tolliver on asyncio and trio, through anyio.

The idea: each connection has its tasks (`_wires`), and for the instance there is one task that
keeps time and one that keeps the store. None of them knows the protocol: they move bytes into the node, and the driver
carries out what the node answers.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable
from types import TracebackType
from typing import Any, Self, cast
from uuid import UUID

import anyio
import anyio.to_thread
from anyio.abc import AsyncResource, SocketAttribute, SocketListener, SocketStream

from tolliver_proto import (
    Acl,
    ConnectionClosing,
    ConnectionLost,
    DeadLetter,
    Delivery,
    Node,
    Notice,
    NoticeKind,
    PeerInfo,
    Receipt,
    Role,
    TolliverError,
)

from ._acl_file import load_acl
from ._driver import Done, Driver, Item, Job
from ._inbox import Received, Run
from ._instance import open_instance
from ._mailboxes import Bell, Callback, Mailbox, Messages, Promise, Registration, Runs
from ._options import TLS, InstanceOptions, Remote
from ._sqlite import SQLiteStore
from ._tls import AnyPump, Pumps
from ._wires import Wire

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
    "create_instance",
    "load_acl",
]


log = logging.getLogger("tolliver")
ACCEPT_PAUSE = 0.1  # seconds until a listener that could not accept (no descriptors left) tries again


class Count(int):
    """A number that is there at once. `await` is allowed, so that all calls may be written alike."""

    def __await__(self) -> Generator[None, None, Count]:
        yield from ()
        return self


class Instance:
    """A running instance: use `async with create_instance(options) as instance`."""

    def __init__(self, options: InstanceOptions) -> None:
        self.options = options
        self.addresses: list[tuple[str, int]] = []
        self._bell = Bell()  # for the timekeeper
        self._jobs: deque[tuple[Job, Done]] = deque()
        self._jobs_bell = Bell()
        self.wires: dict[int, Wire] = {}
        self._idle_bell = Bell()
        self.mailboxes: set[Mailbox] = set()
        self._abandoned: deque[Mailbox] = deque()
        self._listening = anyio.CancelScope()
        self._open = False
        self._process = 0

    # The draft's calls.

    async def new_connection(self, remote: str | Remote, *, timeout: float | None = None) -> UUID:
        """Connect, keep the connection, and return the peer's UUID.

        Tries for ever, or for `timeout` seconds (then TimeoutError; the dialling goes on until `remove_connection`).
        Raises CertificateError, HandshakeRejected, SelfConnection, IdentityConflict: there trying again is no use
        (T-73). Connected already: returns that peer. Raises ValueError for plaintext beyond this machine (D-15).
        """
        self.check_open()
        promise = self._driver.connect(self.options.remote(remote))
        with anyio.fail_after(timeout):
            return await promise.wait()  # type: ignore[no-any-return]  # the driver's promises are of any kind

    async def remove_connection(self, remote: str | Remote, *, block: bool = False) -> None:
        """Close it and dial no more. Subscriptions and waiting messages stay (T-77).

        With `block` its peer may not connect to us either, until `new_connection(remote)` or a restart.
        """
        self.check_open()
        self.node.disconnect(self.options.remote(remote), time.monotonic(), block)
        self.turn()

    async def subscribe(self, channel: str, key: str = "", handler: Callback | None = None) -> None:
        """Want this from every peer, now and after a restart; "" is a wildcard (T-24). Returns when it is stored.

        `handler` is registered first, as by `register_callback`. Raises ReservedChannel, OwnLimitExceeded, StoreError.
        """
        self.check_open()
        if handler is not None:
            self.register_callback(channel, key, handler)
        await self._driver.subscribe(channel, key).wait()

    async def unsubscribe(self, channel: str, key: str = "") -> None:
        """No longer: removes exactly this entry (T-26). Returns when it is stored."""
        self.check_open()
        await self._driver.unsubscribe(channel, key).wait()

    async def send(self, channel: str, key: str, body: bytes) -> Receipt:
        """Store a message for every peer that subscribes to it, with fsync, and return (T-54).

        `receipt.recipients` says how many that are; 0 means that nobody was subscribed and nothing was kept (T-53).
        Raises ReservedChannel, OwnLimitExceeded, LocalProtocolError, OutboxFull, StoreError: then nothing was stored.
        """
        return await self.send_many(((channel, key, body),))

    async def send_many(self, items: Iterable[Item]) -> Receipt:
        """Store (channel, key, body) items in one commit, all or none. `receipt.counts` has each one's recipients."""
        self.check_open()
        return await self._driver.send_many(items).wait()  # type: ignore[no-any-return]  # as in new_connection

    def unreliable_send(self, channel: str, key: str, body: bytes) -> Count:
        """Send to the connected subscribers, unstored, without waiting; returns how many (T-55)."""
        self.check_open()
        return Count(self._driver.unreliable_send(channel, key, body))

    def register_callback(self, channel: str, key: str, callback: Callback) -> Registration:
        """Call `callback(delivery)`, plain or async, for what matches; "" is a wildcard. Does not subscribe (T-57).

        None or a true value means handled: the message is acknowledged once all matching handlers say so. A false
        value or an exception means failed: it is sent again (T-45). One call at a time for each registration.
        """
        self.check_open()
        registration = Registration(self, channel, key, callback)
        self._tasks.start_soon(registration.work)
        return registration

    # What Python adds.

    def messages(self, channel: str, key: str = "", *, subscribe: bool = True) -> Messages:
        """`async for message in instance.messages(...)`: settle each with `message.ack()` or `message.fail()`."""
        self.check_open()
        return Messages(self, channel, key, subscribe)

    def message_runs(self, channel: str, key: str = "", *, subscribe: bool = True) -> Runs:
        """As `messages`, for bulk: lists of what came together, settled with `run.ack()` or `run.fail()`."""
        self.check_open()
        return Runs(self, channel, key, subscribe)

    async def wait_acked(self, receipt: Receipt, *, timeout: float | None = None) -> None:
        """Wait until every recipient has acknowledged all of it. Raises TimeoutError after `timeout` seconds."""
        self.check_open()
        promise = self._driver.wait_acked(receipt)
        with anyio.fail_after(timeout):
            await promise.wait()

    async def forget_peer(self, peer: UUID) -> None:
        """Purge what waits for it, its subscriptions and its pin, and close its connection (T-77)."""
        self.check_open()
        await self._driver.forget_peer(peer).wait()

    async def repin(self, peer: UUID, spki_sha256: bytes | None = None) -> None:
        """The peer has a new key: this one (SHA-256 of its SPKI), or if None whichever it shows next (D-3)."""
        self.check_open()
        await self._driver.repin(peer, spki_sha256).wait()

    async def retry(self, peer: UUID) -> int:
        """Send what was set aside for this peer once more (T-09); returns how many messages."""
        self.check_open()
        return sum((await self._driver.retry(peer).wait()).counts)

    async def drop_parked(self, peer: UUID) -> int:
        """Give up what was set aside for this peer; returns how many messages."""
        self.check_open()
        return sum((await self._driver.drop_parked(peer).wait()).counts)

    async def dead_letters(self, after: int = 0, count: int = 1000) -> list[DeadLetter]:
        """Messages that our handlers failed too often (T-47), oldest first: at most `count` after number `after`."""
        self.check_open()
        return cast(list[DeadLetter], await self._driver.dead_letters(after, count).wait())

    def replay(self, letters: Iterable[DeadLetter]) -> Count:
        """Give dead letters to the matching handlers again; returns how many. One that is handled well is removed."""
        self.check_open()
        return Count(self._driver.replay(letters))

    def set_acl(self, acl: Acl) -> None:
        """Other access rules from now on; connections of peers whose rights change are made anew (D-4, D-5, D-8)."""
        self.check_open()
        self.node.set_acl(acl, time.monotonic())
        self.turn()

    def peers(self) -> list[PeerInfo]:
        """Every peer that is known, connected or not."""
        return self.node.peers()

    def notices(self) -> list[Notice]:
        """The last thousand things that an operator may want to know, oldest first."""
        return list(self._driver.notices)

    def stats(self) -> dict[str, int]:
        """Counters since the start, and sizes now."""
        return self.node.stats()

    @property
    def instance_id(self) -> UUID:
        return self.node.instance_id

    @property
    def port(self) -> int | None:
        """The port that it listens on, or None."""
        return self.addresses[0][1] if self.addresses else None

    # The life of an instance.

    async def __aenter__(self) -> Self:
        node, store, pumps = await anyio.to_thread.run_sync(open_instance, self.options)
        self.node: Node = node
        self._store: SQLiteStore = store
        self._pumps: Pumps = pumps
        self._driver = Driver(node, store, self)
        self._limiter = anyio.CapacityLimiter(1)
        self._thread = threading.get_ident()
        self._process = os.getpid()
        self._tasks = await anyio.create_task_group().__aenter__()
        try:
            if self.options.listen is not None:
                await self._listen(*self.options.listen)
        except BaseException:
            await self._release()
            raise
        self._open = True
        self._tasks.start_soon(self._keep_store)
        self._tasks.start_soon(self._keep_time)
        if store.unclean:
            self._tasks.start_soon(self._check_store)
        for remote in self.options.remotes:
            node.connect(remote, time.monotonic())
        self.turn()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        self._listening.cancel()
        self.node.close(time.monotonic())
        for mailbox in list(self.mailboxes):
            mailbox.close()  # a connection whose credit they hold could not end
        self.turn()
        try:
            with anyio.move_on_after(self.options.limits.close_timeout + 1, shield=True):
                while not self.node.idle:
                    await self._idle_bell.heard()
        finally:
            self._driver.give_up()
            await self._release()

    async def _release(self) -> None:
        """The body's exception is not given to the task group, which would wrap it in a group."""
        self._tasks.cancel_scope.cancel()
        try:
            await self._tasks.__aexit__(None, None, None)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._store.close)

    def check_open(self) -> None:
        """Raises ConnectionClosing before the instance is entered, once it is being closed, and in a forked child."""
        if self._open and self._process != os.getpid():
            raise ConnectionClosing(
                f"the instance belongs to process {self._process}, and this is a fork of it: open another one here, on "
                "a database of its own and in an event loop of its own (T-79)"
            )
        if not self._open:
            raise ConnectionClosing(
                "the instance is not open: make one with `async with create_instance(options) as instance:`, and use "
                "it inside that block"
            )

    def complain(self, kind: NoticeKind, delivery: Delivery, text: str) -> None:
        detail = f"the handler of {delivery.channel!r:.100} {delivery.key!r:.100} {text}: not acknowledged"
        self._driver.on_notice(Notice(kind, delivery.peer_id, detail))

    def turn(self) -> None:
        while self._abandoned:
            self._abandoned.popleft().close()
        self._driver.turn()
        if not self._open:
            self._idle_bell.ring()

    def abandon(self, mailbox: Mailbox) -> None:
        """Close it at the next turn. The garbage collector calls this, wherever and on whatever thread it runs."""
        self._abandoned.append(mailbox)
        if threading.get_ident() == self._thread:
            self.wake()

    async def _keep_time(self) -> None:
        while True:
            with anyio.move_on_after(self._driver.arm()):
                await self._bell.heard()
            self.node.handle_timeout(time.monotonic())
            self.turn()

    async def _keep_store(self) -> None:
        while True:
            while not self._jobs:
                await self._jobs_bell.heard()
            job, done = self._jobs.popleft()
            result, error = None, None
            try:
                result = await anyio.to_thread.run_sync(job, limiter=self._limiter)
            except TolliverError as failure:
                error = failure
            done(result, error)
            self.turn()

    async def _check_store(self) -> None:
        """After a crash, beside everything else (D-13)."""
        try:
            wrong = await anyio.to_thread.run_sync(self._store.check)
        except TolliverError as failure:
            wrong = [str(failure)]
        for line in wrong:
            detail = f"after a crash the database {self.options.database} is damaged: {line}"
            self._driver.on_notice(Notice(NoticeKind.STORE_ERROR, None, detail))

    # What the driver asks for (see World).

    def promise(self) -> Promise[Any]:
        return Promise()

    def wake(self) -> None:
        self._bell.ring()

    def store(self, job: Job, done: Done) -> None:
        self._jobs.append((job, done))
        self._jobs_bell.ring()

    def dial(self, cid: int, remote: Remote) -> None:
        wire = self._new_wire(cid, Role.CLIENT, self._pumps.client(remote))

        async def connect() -> SocketStream:
            try:
                return await anyio.connect_tcp(remote.host, remote.port)
            except OSError as failure:
                raise ConnectionLost(f"cannot reach {remote}: {failure}") from failure

        self._tasks.start_soon(self._run, cid, wire, connect)

    # Connections.

    async def _listen(self, host: str, port: int) -> None:
        try:
            listener = await anyio.create_tcp_listener(local_host=host, local_port=port)
        except OSError as error:
            raise ConnectionLost(f"cannot listen on {host}:{port}: {error}. Choose another port or address") from error
        listeners = [cast(SocketListener, one) for one in listener.listeners]
        self.addresses = [one.extra(SocketAttribute.raw_socket).getsockname()[:2] for one in listeners]
        self._tasks.start_soon(self._serve, listener, listeners)

    async def _serve(self, together: AsyncResource, listeners: Iterable[SocketListener]) -> None:
        async with together, anyio.create_task_group() as accepting:
            self._listening = accepting.cancel_scope
            for listener in listeners:
                accepting.start_soon(self._accept, listener)

    async def _accept(self, listener: SocketListener) -> None:
        while True:
            try:
                stream = await listener.accept()
            except (OSError, anyio.BrokenResourceError) as error:  # trio's; asyncio's comes as it is
                log.warning("cannot accept a connection, trying again: %s", error.__cause__ or error)
                await anyio.sleep(ACCEPT_PAUSE)
            else:
                self._tasks.start_soon(self._accepted, stream)

    async def _accepted(self, stream: SocketStream) -> None:
        cid = self.node.new_cid(time.monotonic(), stream.extra(SocketAttribute.remote_address, ("",))[0])
        if cid is None:  # too many handshakes (D-7)
            await stream.aclose()
            self.turn()
            return
        wire = self._new_wire(cid, Role.SERVER, self._pumps.server())
        self.wake()  # its time for TLS runs

        async def connect() -> SocketStream:
            return stream

        await self._run(cid, wire, connect)

    def _new_wire(self, cid: int, role: Role, pump: AnyPump) -> Wire:
        wire = self.wires[cid] = Wire(self, cid, role, pump)
        return wire

    async def _run(self, cid: int, wire: Wire, connect: Callable[[], Awaitable[SocketStream]]) -> None:
        error: TolliverError | None = ConnectionClosing("the instance was closed")
        try:
            error = await wire.run(connect)
        finally:
            del self.wires[cid]
            self.node.lost(cid, error, time.monotonic())
            self.turn()


def create_instance(options: InstanceOptions) -> Instance:
    """`async with create_instance(options) as instance:` opens the database, listens, dials, and closes in order.

    Entering raises CertificateError, StoreError, IdentityConflict, and ConnectionLost where it cannot listen.
    """
    return Instance(options)
