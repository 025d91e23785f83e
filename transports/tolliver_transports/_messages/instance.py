"""What an instance is on every loop: the draft's calls, and its life.

The idea: each call is written and explained here once, and answers with a promise or at once. An adapter inherits, says
in its signatures what form its answers have and how one waits for them, and brings the `LoopAdapter` that the driver
needs.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterable
from time import monotonic
from typing import Any
from uuid import UUID

from tolliver_proto import (
    Acl,
    DeadLetter,
    Delivery,
    Dial,
    IdentityConflict,
    Node,
    Notice,
    NoticeKind,
    PeerInfo,
    Receipt,
    TolliverError,
)

from .._driver.adapter import Done, Job
from .._driver.endpoint import BaseEndpoint
from .._options.instance import InstanceOptions, Remote
from .._store.sqlite import SQLiteStore
from .driver import NodeDriver
from .inbox import Callback, Mailbox
from .opening import open_instance
from .recorder import Recorder

log = logging.getLogger("tolliver")
Item = tuple[str, str, bytes]


class BaseInstance(BaseEndpoint):
    """A running instance, without the waiting."""

    made_by = "create_instance"
    options: InstanceOptions
    node: Node
    _driver: NodeDriver
    _store: SQLiteStore
    _recorder: Recorder | None

    def __init__(self, options: InstanceOptions) -> None:
        super().__init__(options)
        self.mailboxes: set[Mailbox] = set()

    # What the adapter brings beside an endpoint's (see StoringAdapter and Owner).

    @abstractmethod
    def store(self, job: Job, done: Done) -> None: ...

    # The draft's calls.

    def new_connection(self, remote: str | Remote) -> Any:
        """Connect, keep the connection, and return the peer's UUID.

        Tries for ever, or for `timeout` seconds (then TimeoutError; the dialling goes on until `remove_connection`).
        Raises CertificateError, HandshakeRejected, SelfConnection, IdentityConflict: there trying again is no use
        (T-73). Connected already: returns that peer. Raises ValueError for plaintext beyond this machine (D-15).
        """
        self.check_open()
        wanted = self.options.remote(remote)
        promise = self._driver.promises.of((Dial, wanted))
        self.node.connect(wanted, monotonic())
        self.turn()
        return promise

    def remove_connection(self, remote: str | Remote, *, block: bool = False) -> Any:
        """Close it and dial no more. Subscriptions and waiting messages stay (T-77).

        With `block` its peer may not connect to us either, until `new_connection(remote)` or a restart.
        """
        self.check_open()
        self.node.disconnect(self.options.remote(remote), monotonic(), block)
        self.turn()

    def subscribe(self, channel: str, key: str = "", handler: Callback | None = None) -> Any:
        """Want this from every peer, now and after a restart; "" is a wildcard (T-24). Returns when it is stored.

        `handler` is registered first, as by `register_callback`. Raises ReservedChannel, OwnLimitExceeded, StoreError.
        """
        self.check_open()
        if handler is not None:
            self.register_callback(channel, key, handler)
        return self._driver.when_stored(self.node.subscribe(channel, key, monotonic()), _nothing)

    def unsubscribe(self, channel: str, key: str = "") -> Any:
        """No longer: removes exactly this entry (T-26). Returns when it is stored."""
        self.check_open()
        return self._driver.when_stored(self.node.unsubscribe(channel, key, monotonic()), _nothing)

    def send(self, channel: str, key: str, body: bytes) -> Any:
        """Store a message for every peer that subscribes to it, with fsync, and return its receipt (T-54).

        `receipt.recipients` says how many that are; 0 means that nobody was subscribed and nothing was kept (T-53).
        Raises ReservedChannel, OwnLimitExceeded, LocalProtocolError, OutboxFull, StoreError: then nothing was stored.
        """
        return BaseInstance.send_many(self, ((channel, key, body),))

    def send_many(self, items: Iterable[Item]) -> Any:
        """Store (channel, key, body) items in one commit, all or none. `receipt.counts` has each one's recipients."""
        self.check_open()
        return self._driver.when_stored(self.node.send_many(items, monotonic()))

    def unreliable_send(self, channel: str, key: str, body: bytes) -> Any:
        """Send to the connected subscribers, unstored, without waiting; returns how many (T-55)."""
        self.check_open()
        sent = self.node.unreliable_send(channel, key, body)
        self.turn_soon()  # and no turn for each: what is sent until the loop comes round goes out together
        return sent

    @abstractmethod
    def register_callback(self, channel: str, key: str, callback: Callback) -> Any:
        """Call `callback(delivery)` for what matches; "" is a wildcard. Does not subscribe (T-57).

        None or a true value means handled: the message is acknowledged once all matching handlers say so. A false
        value or an exception means failed: it is sent again (T-45). One call at a time for each registration.
        """

    # What Python adds.

    @abstractmethod
    def messages(self, channel: str, key: str = "", *, subscribe: bool = True) -> Any:
        """Iterate over what matches: settle each with `message.ack()` or `message.fail()`."""

    @abstractmethod
    def message_runs(self, channel: str, key: str = "", *, subscribe: bool = True) -> Any:
        """As `messages`, for bulk: lists of what came together, settled with `run.ack()` or `run.fail()`."""

    def wait_acked(self, receipt: Receipt) -> Any:
        """Wait until every recipient has acknowledged all of it. Raises TimeoutError after `timeout` seconds."""
        self.check_open()
        return self._driver.when_acked(receipt, _nothing)

    def forget_peer(self, peer: UUID) -> Any:
        """Purge what waits for it, its subscriptions and its pin, and close its connection (T-77)."""
        self.check_open()
        return self._driver.when_stored(self.node.forget_peer(peer, monotonic()), _nothing)

    def repin(self, peer: UUID, spki_sha256: bytes | None = None) -> Any:
        """The peer has a new key: this one (SHA-256 of its SPKI), or if None whichever it shows next (D-3)."""
        self.check_open()
        return self._driver.when_stored(self.node.repin(peer, spki_sha256, monotonic()), _nothing)

    def retry(self, peer: UUID) -> Any:
        """Send what was set aside for this peer once more (T-09); returns how many messages."""
        self.check_open()
        return self._driver.when_stored(self.node.retry(peer, monotonic()), _total)

    def drop_parked(self, peer: UUID) -> Any:
        """Give up what was set aside for this peer; returns how many messages."""
        self.check_open()
        return self._driver.when_stored(self.node.drop_parked(peer, monotonic()), _total)

    def dead_letters(self, after: int = 0, count: int = 1000) -> Any:
        """Messages that our handlers failed too often (T-47), oldest first: at most `count` after number `after`."""
        self.check_open()
        return self._driver.when_read(lambda: self._store.dead_letters(after, count), self._whole_letters)

    def replay(self, letters: Iterable[DeadLetter]) -> Any:
        """Give dead letters to the matching handlers again; returns how many. One that is handled well is removed."""
        self.check_open()
        count = self.node.replay(letters)
        self.turn()
        return count

    def set_acl(self, acl: Acl) -> Any:
        """Other access rules from now on; connections of peers whose rights change are made anew (D-4, D-5, D-8)."""
        self.check_open()
        self.node.set_acl(acl, monotonic())
        self.turn()

    def reload_tls(self) -> Any:
        """Read the certificate files again, for connections that are made from now on; those that live stay.

        Raises CertificateError where a file is missing or peers would refuse it, and IdentityConflict where the
        certificate is not this instance's: then the old ones stay in use.
        """
        self.check_open()
        return self._driver.when_read(self._read_tls, self._use_tls)

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

    # The life of an instance.

    def _prepare(self) -> None:
        """Reads certificates and database: off the loop. Raises CertificateError, StoreError, IdentityConflict."""
        self.node, self._store, self._pumps = open_instance(self.options, self.make_pumps)
        self._machine = self.node
        self._recorder = self._open_recorder()
        self._driver = NodeDriver(self.node, self._store, self, self._recorder)

    def _read_tls(self) -> Any:
        pumps = self.make_pumps(self.options.tls)
        if not pumps.identity.may_be(self.node.instance_id):
            raise IdentityConflict(
                f"this instance is {self.node.instance_id}, and the certificate in {self.options.tls} says "
                f"{pumps.identity.names}: renew it with the same UUID"
            )
        return pumps

    def _use_tls(self, pumps: Any) -> None:
        self._pumps = pumps

    def _open_recorder(self) -> Recorder | None:
        directory = self.options.record
        if directory is None:
            return None
        try:
            return Recorder(directory, self.node.instance_id, self.options.revision, self._on_unrecorded)
        except TolliverError:
            self._store.close()
            raise

    def _on_unrecorded(self, text: str) -> None:
        self._driver.on_notice(Notice(NoticeKind.NOT_RECORDED, None, text))

    def _start_work(self) -> None:
        for remote in self.options.remotes:
            self.node.connect(remote, monotonic())

    def _end_work(self) -> None:
        for mailbox in list(self.mailboxes):
            mailbox.close()  # a connection whose credit they hold could not end

    def _finish(self) -> None:
        """The last step, off the loop."""
        if self._recorder is not None:
            self._recorder.close()
        self._store.close()

    def _check_store(self) -> list[str]:
        """After a crash, or where opening found damage, beside everything else, off the loop: what it is (D-13)."""
        try:
            return self._store.check()
        except TolliverError as failure:
            return [str(failure)]

    def _whole_letters(self, letters: list[DeadLetter]) -> list[DeadLetter]:
        self._on_damage(self._store.news())
        return letters

    def _on_damage(self, lines: Iterable[str]) -> None:
        for line in lines:
            detail = f"a look at the database {self.options.database} found damage: {line}"
            self._driver.on_notice(Notice(NoticeKind.STORE_ERROR, None, detail))

    def complain(self, kind: NoticeKind, delivery: Delivery, text: str) -> None:
        detail = f"the handler of {delivery.channel!r:.100} {delivery.key!r:.100} {text}: not acknowledged"
        self._driver.on_notice(Notice(kind, delivery.peer_id, detail))

    def _lost(self, cid: int, error: TolliverError | None) -> None:
        if self._recorder is not None:
            self._recorder.ended(cid)
        super()._lost(cid, error)

    def __str__(self) -> str:
        return f"the instance on {self.options.database}"


def _nothing(_receipt: Receipt) -> None:
    return None


def _total(receipt: Receipt) -> int:
    return sum(receipt.counts)
