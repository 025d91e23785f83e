"""Core of an instance, common to all loops.

Each call asks the node and returns an answer at once, or a `PendingCall`. The public `Instance` of an adapter holds a
core, waits for the answers in its loop's own way, and documents each call.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from contextlib import closing
from datetime import datetime
from functools import partial
from time import monotonic, time
from typing import TYPE_CHECKING, TypedDict, TypeVar
from uuid import UUID

from tolliver_proto import (
    Acl,
    Delivery,
    IdentityConflict,
    Node,
    Notice,
    NoticeKind,
    Receipt,
    Subscription,
    TolliverError,
)
from tolliver_proto.errors import NoResponders
from tolliver_proto.node import (
    ForLater,
    LastValues,
    MessageKeys,
    NodeStats,
    PeerInfo,
    RemoteInfo,
    RemoteState,
    Reply,
    Requests,
    RetainedValue,
    ValueList,
    Verdict,
    check_count,
    check_type,
)
from tolliver_proto.store import DeadLetter

from .._driver import logs
from .._driver.adapter import Done, Job
from .._driver.endpoint import BaseEndpoint
from .._driver.events import OnEvent
from .._driver.pending import PendingCall, as_it_is
from .._options.checks import as_path
from .._options.instance import InstanceOptions, Remote
from .._options.times import Times
from .._store.begun import Begun
from .._store.memory import is_in_memory
from .._store.sqlite import SQLiteStore
from .._store.table_marks import TableMarks
from .._tls.policy import Pumps
from ..outbox import Outbox
from .channels import ChannelTable
from .driver import NodeDriver
from .giving import Giver, goes, when_all
from .mailbox import Handler, Mailbox
from .marking import Inboxes
from .opening import open_instance
from .queues import QueueCalls
from .relaying import Relay
from .responding import Responding
from .side_by_side import SideBySide, chosen
from .unconnected import MOST_NAMED, seen, unconnected, with_others, words_of
from .waits import Connected, Responded, Subscribed

if TYPE_CHECKING:
    from .._boxes.outbox_table import Row
    from .._local.desk import Desk
    from .._local.envelopes import RowsTaken
    from .._status.server import StatusServer
    from .._status.snapshot import InstanceStatus
    from ..outbox import Outbox
    from .recorder import Recorder
    from .relaying import Relay

_GOES_ON = "it is not withdrawn, and may still be stored"
_SENT_LATE = f"the message is not on disk yet: {_GOES_ON}"
_READ_LATE = "the database has not answered: ask again"
_COMMITTING = (
    "a commit has not ended. The close waits for it, as do the calls whose messages it stores; calls of later ones "
    "raise AlreadyClosed, and nothing of these is stored"
)
_REFUSED = (
    "the last changes are not written. What peers have acknowledged since is sent again when the database is opened"
)
Item = tuple[str, str, bytes]
T = TypeVar("T")
To = UUID | Collection[UUID] | None


class RequestTerms(TypedDict, total=False):
    """Options of a request, as documented for `Instance.request`."""

    timeout: float
    to: To
    durable: bool
    request_id: int | None
    wait: bool
    message_key: str | None


class BaseInstanceCore(BaseEndpoint, QueueCalls):
    """A running instance on any kind of loop, without the waiting: owns the node, its driver, the store, and the
    handlers.
    """

    made_by = "create_instance"
    options: InstanceOptions
    node: Node
    table_marks: TableMarks
    begin: Callable[[Mailbox, Sequence[Delivery]], None]
    end: Callable[[Mailbox, Sequence[Delivery], Delivery | None], None]
    leave: Callable[[Mailbox, Delivery], None]
    take_up: Callable[[Mailbox], None]
    settle: Callable[[Sequence[Delivery], Verdict], None]
    receive: Callable[[Delivery], None]
    judge: Callable[[Delivery, bool], None]
    _driver: NodeDriver
    _store: SQLiteStore
    _recorder: Recorder | None

    def __init__(self, options: InstanceOptions) -> None:
        super().__init__(options)
        self.mailboxes: set[Mailbox] = set()
        self._ended: list[Mailbox] = []  # by the close
        self.begun: Begun | None = None
        self.relays: set[Relay] = set()
        self.inboxes: Inboxes = Inboxes(self)
        self.channels: ChannelTable = ChannelTable()
        self.began: float = 0.0  # monotonic seconds of the opening
        self._status_server: StatusServer | None = None
        self._desk: Desk | None = None
        self._acl = options.acl  # of the moment

    # Implemented by the adapter, in addition to the endpoint's (see StoringAdapter and Core).

    @abstractmethod
    def store(self, job: Job, done: Done) -> None: ...

    @abstractmethod
    def beside(self, job: Job, done: Done) -> None: ...

    @abstractmethod
    def handle(self, channel: str, key: str, handler: Handler, how: SideBySide) -> object:
        """Register a handler of messages; `how` has its concurrency and order. Returns its registration."""

    @abstractmethod
    def respond(self, channel: str, key: str, handler: Responding, concurrency: int = ...) -> object:
        """Register a handler of requests, of which at most `concurrency` are processed at a time, and subscribe to
        their channel and key. Returns its registration.
        """

    @abstractmethod
    def call_on_event(self, function: OnEvent) -> None:
        """Have the function called for each event."""

    # Connections.

    def new_connection(self, remote: str | Remote, keep_trying: bool) -> PendingCall[UUID]:
        self.check_open()
        wanted = self.options.remote(remote)
        self._connect(wanted, keep_trying)
        call: PendingCall[UUID] = self._driver.waits.of(Connected(wanted, keep_trying))
        call.late = partial(self._unconnected, wanted)
        self.run_actions()
        return call

    def _connect(self, remote: Remote, keep_trying: bool) -> None:
        self.node.connect(
            remote,
            monotonic(),
            dialect=remote.full_dialect,
            keep_trying=keep_trying,
        )

    def remove_connection(self, remote: str | Remote, block: bool) -> None:
        self.check_open()
        self.node.disconnect(self.options.remote(remote), monotonic(), block)
        self.run_actions()

    # Subscriptions and messages.

    def subscribe(self, channel: str, key: str) -> PendingCall[None]:
        self.check_open()
        late = f"the subscription is not on disk yet: {_GOES_ON}"
        return self._driver.when_stored(self.node.subscribe(channel, key, monotonic()), _nothing, late)

    def subscribe_with(self, channel: str, key: str, handler: Handler | None, how: SideBySide) -> PendingCall[None]:
        """Subscribe, after registering the handler, if there is one, with the concurrency and order in `how`."""
        if handler is not None:
            self.handle(channel, key, handler, how)
        return self.subscribe(channel, key)

    def unsubscribe(self, channel: str, key: str) -> PendingCall[None]:
        self.check_open()
        late = f"the end of the subscription is not on disk yet: {_GOES_ON}"
        return self._driver.when_stored(self.node.unsubscribe(channel, key, monotonic()), _nothing, late)

    def wait_subscribed(self, channel: str, key: str, peers: int, connected: bool) -> PendingCall[int]:
        self.check_open()
        check_count("peers", peers)
        who = "connected peers" if connected else "peers"
        call = self._driver.waits.of(Subscribed(channel, key, peers, connected))
        call.late = lambda: (
            f"fewer than {peers} {who} subscribe to {channel!r:.100} {key!r:.100}: "
            f"{seen(self.peers(), channel, key)}{self._not_connected()}. Have a peer subscribe to it, or wait longer"
        )
        return call

    def wait_responder(self, channel: str, key: str, peers: int) -> PendingCall[int]:
        self.check_open()
        check_count("peers", peers)
        call = self._driver.waits.of(Responded(channel, key, peers))
        call.late = lambda: (
            f"fewer than {peers} connected peers respond to {channel!r:.100} {key!r:.100}, by calling `respond`: "
            f"{self.stats().peers_up} are connected{self._not_connected()}"
        )
        return call

    def subscriptions(self) -> list[Subscription]:
        return self.node.subscriptions()

    def send(
        self,
        channel: str,
        key: str,
        body: bytes,
        require_recipients: int,
        to: To,
        expire_after: float | None,
        message_key: str | None,
        after: float | None = None,
        not_before: datetime | None = None,
    ) -> PendingCall[Receipt]:
        self.check_open()
        if after is not None or not_before is not None:
            items, times = [(channel, key, body)], Times.of(after, not_before)
            return self._send_later(items, require_recipients, to, expire_after, message_key, times)
        now = monotonic()
        if message_key is None:
            receipt = self.node.send(
                channel, key, body, now, require_recipients=require_recipients, to=to, expire_after=expire_after
            )
        else:
            receipt = self.node.use(MessageKeys).send(
                channel,
                key,
                body,
                message_key,
                now,
                require_recipients=require_recipients,
                to=to,
                expire_after=expire_after,
            )
        return self._driver.when_stored(receipt, as_it_is, _SENT_LATE)

    def _send_later(
        self,
        items: Sequence[Item],
        require_recipients: int,
        to: To,
        expire_after: float | None,
        message_key: str | None,
        times: Times,
    ) -> PendingCall[Receipt]:
        """Send later; with a `message_key` it is one item."""
        if require_recipients:
            raise ValueError(
                f"require_recipients={require_recipients!r:.100} and a later time are given: who gets the message is "
                "not known before that time. Leave one out"
            )
        now, terms = monotonic(), {**times._asdict(), "to": to, "expire_after": expire_after}
        if message_key is None:
            receipt = self.node.use(ForLater).send_later(items, now, **terms)
        else:
            [item] = items
            receipt = self.node.use(MessageKeys).send(*item, message_key, now, **terms)
        return self._driver.when_stored(receipt, as_it_is, _SENT_LATE)

    def keep(self, channel: str) -> None:
        self.check_open()
        self.node.use(ForLater).keep(channel, monotonic())
        self.run_actions()

    def send_many(
        self,
        items: Sequence[Item],
        require_recipients: int,
        to: To,
        expire_after: float | None,
        after: float | None = None,
        not_before: datetime | None = None,
    ) -> PendingCall[Receipt]:
        self.check_open()
        if after is not None or not_before is not None:
            return self._send_later(items, require_recipients, to, expire_after, None, Times.of(after, not_before))
        now = monotonic()
        receipt = self.node.send_many(
            items, now, require_recipients=require_recipients, to=to, expire_after=expire_after
        )
        return self._driver.when_stored(receipt, as_it_is, _SENT_LATE)

    def retain(self, channel: str, key: str, body: bytes | None) -> PendingCall[Receipt]:
        self.check_open()
        receipt = self.node.use(LastValues).retain(channel, key, body, monotonic())
        return self._driver.when_stored(receipt, as_it_is, f"the value is not on disk yet: {_GOES_ON}")

    def retained(
        self, after: tuple[str, str] | None, count: int, channel: str | None
    ) -> PendingCall[list[RetainedValue]]:
        self.check_open()
        now = monotonic()
        token = self.node.use(LastValues).retained(after, count, channel, now, time() - now)
        return self._driver.when_stored(token, _values, _READ_LATE)

    def ask_retained(self, channel: str) -> PendingCall[None]:
        self.check_open()
        receipt = self.node.use(LastValues).ask_again(channel, monotonic())
        return self._driver.when_stored(receipt, _nothing, f"the question is not on disk yet: {_GOES_ON}")

    def unreliable_send(self, channel: str, key: str, body: bytes, to: To) -> int:
        self.check_open()
        sent = self.node.unreliable_send(channel, key, body, to=to)
        self.schedule_run()  # scheduled, so that sends of one turn go out in one write
        return sent

    def flush(self) -> PendingCall[None]:
        self.check_open()
        receipt = self.node.flush(monotonic())
        call = self._driver.when_stored(receipt, _nothing)
        call.late = partial(self._unflushed, receipt)
        return call

    def wait_acked(self, receipt: Receipt) -> PendingCall[None]:
        self.check_open()
        if not isinstance(receipt, Receipt):
            raise TypeError(f"{receipt!r:.100} is no receipt: give what `send` or `send_many` returned")
        call = self._driver.when_acked(receipt, _nothing)
        call.late = partial(self._unacked, receipt)
        return call

    # Outboxes of programs.

    def relay(self, outbox: Outbox) -> Relay:
        self.check_open()
        check_type("outbox", outbox, Outbox, "an Outbox")
        relay = Relay(self, outbox)
        self._opened.callback(relay.join)
        return relay

    def given(self, receipts: Sequence[Receipt]) -> Sequence[PendingCall[Receipt]]:
        return self._driver.when_each_stored(receipts)

    def give_rows(self, rows: Sequence[Row], names: Sequence[tuple[str, str]]) -> PendingCall[RowsTaken]:
        """Send rows of one channel of a local program's outbox, as far as they go. `names` are keys that are not needed
        any more, by channel."""
        from .._local.envelopes import RowsTaken  # imported late: most programs never need it

        self.check_open()
        keys = self.node.use(MessageKeys)
        if keys.is_half_full:
            keys.release(names)
        given, reason = Giver(self.node, monotonic).give(rows)
        stored, call = Future[None](), PendingCall[RowsTaken]()

        def answer(_stored: Future[None]) -> None:
            error = stored.exception()
            if error is not None:
                call.fail(error)
                return
            gone = [goes(receipt) for some, receipt in given for _ in some]
            call.resolve(RowsTaken(gone, reason, self.remembers, self.lacks_commits, keys.is_half_full))

        stored.add_done_callback(answer)
        when_all(self.given([receipt for _, receipt in given]), stored)
        self.schedule_run()
        return call

    @property
    def lacks_commits(self) -> bool:
        return self._store.missing > 0

    @property
    def remembers(self) -> float:
        return self.options.policy.key_window

    # Requests.

    def request(self, channel: str, key: str, body: bytes, terms: RequestTerms) -> PendingCall[Reply]:
        return self._ask(channel, key, body, terms, False, _first)

    def gather(self, channel: str, key: str, body: bytes, terms: RequestTerms) -> PendingCall[list[Reply]]:
        return self._ask(channel, key, body, terms, True, list)

    def _ask(
        self,
        channel: str,
        key: str,
        body: bytes,
        terms: RequestTerms,
        gathers: bool,
        answer: Callable[[Sequence[Reply]], T],
    ) -> PendingCall[T]:
        self.check_open()
        requests = self.node.use(Requests)
        try:
            asked = requests.request(channel, key, body, now=monotonic(), gathers=gathers, **terms)
        except NoResponders as error:
            error.not_connected = self._not_connected()
            raise
        call = self._driver.when_answered(asked, answer, requests)
        self.schedule_run()
        return call

    # Maintenance.

    def forget_peer(self, peer: UUID) -> PendingCall[None]:
        self.check_open()
        late = f"peer {peer} is not forgotten on disk yet: {_GOES_ON}"
        return self._driver.when_stored(self.node.forget_peer(peer, monotonic()), _nothing, late)

    def repin(self, peer: UUID, spki_sha256: bytes | None) -> PendingCall[None]:
        self.check_open()
        late = f"the key of peer {peer} is not on disk yet: {_GOES_ON}"
        return self._driver.when_stored(self.node.repin(peer, spki_sha256, monotonic()), _nothing, late)

    def retry(self, peer: UUID) -> PendingCall[int]:
        self.check_open()
        late = f"what was set aside for {peer} does not go out yet: {_GOES_ON}"
        return self._driver.when_stored(self.node.retry(peer, monotonic()), _total, late)

    def drop_parked(self, peer: UUID) -> PendingCall[int]:
        self.check_open()
        late = f"what was set aside for {peer} is not dropped on disk yet: {_GOES_ON}"
        return self._driver.when_stored(self.node.drop_parked(peer, monotonic()), _total, late)

    def dead_letters(self, after: int, count: int) -> PendingCall[list[DeadLetter]]:
        self.check_open()
        check_count("after", after)
        check_count("count", count)
        return self._driver.when_read(lambda: self._store.dead_letters(after, count), self._told, _READ_LATE)

    def drop_dead_letters(self, letters: Iterable[DeadLetter | int]) -> PendingCall[int]:
        self.check_open()
        late = f"these dead letters are not dropped on disk yet: {_GOES_ON}"
        return self._driver.when_stored(self.node.drop_dead_letters(letters, monotonic()), _total, late)

    def replay(self, letters: Iterable[DeadLetter]) -> int:
        self.check_open()
        count = self.node.replay(letters)
        self.run_actions()
        return count

    def set_acl(self, acl: Acl) -> None:
        self.check_open()
        self.node.set_acl(acl, monotonic())
        self._acl = acl
        self.run_actions()

    def backup(self, path: str | os.PathLike[str]) -> PendingCall[None]:
        self.check_open()
        path = as_path(path)
        return self._driver.when_done_beside(
            lambda: self._store.backup(path), as_it_is, f"{path} is not written yet: it goes on"
        )

    def reload_tls(self) -> PendingCall[None]:
        self.check_open()
        late = "the certificate files are not read yet: they are a little later"
        return self._driver.when_read(self._read_tls, self.use_tls, late)

    def use_tls(self, pumps: Pumps) -> None:
        super().use_tls(pumps)
        self.node.dial_refused(monotonic())
        self.wake()

    def peers(self) -> list[PeerInfo]:
        return self.node.peers()

    def remotes(self) -> list[RemoteInfo]:
        return self.node.remotes(monotonic())

    def notices(self) -> list[Notice]:
        return list(self._driver.notices)

    def notice(self, kind: NoticeKind, detail: str) -> None:
        self.check_open()
        check_type("kind", kind, NoticeKind, "a NoticeKind")
        check_type("detail", detail, str, "a text")
        self.node.notice(kind, detail, None, monotonic())
        self.run_actions()

    def stats(self) -> NodeStats:
        return self.node.stats()

    def status(self) -> InstanceStatus:
        from .status import status_of  # imported late: most programs never need it

        if not self._process:
            self.check_open()
        return status_of(self)

    @property
    def status_address(self) -> tuple[str, int] | None:
        return None if self._status_server is None else self._status_server.address

    def _tell_status(self, answered: Callable[[InstanceStatus], None]) -> None:
        """Compute the status on the loop and pass it to `answered`. Called on the thread of the status endpoint."""

        def look() -> None:
            try:
                with self.lock:
                    status = self.status()
            except Exception:  # must not break the application's loop
                logs.status.exception("the status of %s cannot be told: report this", self)
            else:
                answered(status)

        self.call_soon(look)

    def describe(self, name: str) -> str:
        """Text for `repr` of the object of the class `name`: UUID, database, listening addresses, number of connected
        peers.
        """
        database = _where(self.options)
        if not self._open:
            return f"<{name} on {database}, not open>"
        return f"<{name} {self.node.instance_id} on {database}{self._reach(self.stats().peers_up)}>"

    def _unconnected(self, remote: Remote) -> str:
        """TimeoutError text for a call that waits for a connection to this remote."""
        why = "".join(
            f" ({words_of(one)})"
            for one in self.remotes()
            if one.remote == remote and one.state is not RemoteState.CONNECTED
        )
        return f"there is no connection to {remote} yet{why}: it is dialled until remove_connection({str(remote)!r})"

    def _unacked(self, receipt: Receipt) -> str:
        """TimeoutError text for a call that waits for acknowledgements of this receipt."""
        if receipt.later:
            return f"the time of {receipt.later} of {len(receipt.counts)} messages has not come: they are stored"
        kept = "they are stored, and sent again until they are"
        if not receipt.recipients:
            kept = "they had none when they were sent, and are kept for remotes that connect (T-62)"
        return (
            f"{receipt.unacked} of {len(receipt.counts)} messages are not acknowledged by all their recipients yet: "
            f"{kept}{self._not_connected()}"
        )

    def _unflushed(self, receipt: Receipt) -> str:
        """TimeoutError text for a call that waits for this flush."""
        peers = self.node.unflushed(receipt)
        if not peers:
            return "what was sent is not stored yet: it goes out as soon as it is"
        others = f" and {len(peers) - MOST_NAMED} others" if len(peers) > MOST_NAMED else ""
        said = ", ".join(map(str, peers[-MOST_NAMED:]))
        return (
            f"the sockets of {said}{others} have not taken all that was sent: it goes out as far as these peers read "
            "and acknowledge it"
        )

    def _not_connected(self) -> str:
        """Text that lists unconnected remotes, as a possible reason of a failure; "" if there are none."""
        return unconnected(self.node, monotonic())

    # Life cycle.

    def _prepare(self) -> None:
        """Read certificates and open the database. Blocks: run off the loop.

        Raises CertificateError, StoreError, IdentityConflict, OutOfThreads.
        """
        self.node, self._store, self._pumps, self.begun = open_instance(self.options, self._opened)
        self.table_marks = self._store.table_marks()
        self._opened.callback(self.inboxes.join)
        self._machine = self.node
        self._recorder = self._open_recorder()
        self._driver = NodeDriver(
            self.node,
            self._store,
            self,
            self._recorder,
            self._store.news,
            self.feed.tell,
            self._store.sync_seconds,
        )
        self.begin, self.end, self.settle = self._driver.begin, self._driver.end, self._driver.settle
        self.receive, self.judge = self._driver.receive, self._driver.judge
        self.leave, self.take_up = self._driver.leave, self._driver.take_up
        self._watch_certificate()
        if is_in_memory(self.options.database):
            logs.store.warning(
                "instance %s is on %s: for trials and tests", self.node.instance_id, _where(self.options)
            )
        self._open_status()
        self._open_desk()

    def _open_desk(self) -> None:
        """Listen for local programs, which are served once work has started. Raises CannotListen."""
        where = self.options.accept
        if where is None:
            return
        from .._local.desk import Desk  # imported late: most programs never need it

        desk = Desk(where, self, self.node.instance_id, self.options.limits, lambda: self._acl)
        self._desk = self._opened.enter_context(closing(desk))

    def _open_status(self) -> None:
        """Open the status endpoint's listening socket. It answers once work has started. Raises CannotListen."""
        where = self.options.status
        if where is None:
            return
        from .._status.server import StatusServer  # imported late: most programs never need it

        server = StatusServer(*where, self._tell_status, anywhere=self.options.status_anywhere)
        self._status_server = self._opened.enter_context(closing(server))

    def _read_tls(self) -> Pumps:
        pumps = Pumps.renewed(self.options.tls)
        if not pumps.identity.may_be(self.node.instance_id):
            raise IdentityConflict(
                f"this instance is {self.node.instance_id}, and the certificate {pumps.name} says "
                f"{pumps.identity.names}: renew it with the same UUID"
            )
        return pumps

    def _open_recorder(self) -> Recorder | None:
        directory = self.options.record
        if directory is None:
            return None
        from tolliver_proto.recording import Codec  # imported late: most programs never need it

        from .recorder import Recorder

        recorder = Recorder(
            directory,
            self.node.instance_id,
            self.options.revision,
            self._on_unrecorded,
            revisions={
                peer: dialect.revision
                for peer, dialect in self.options.dialects.items()
                if dialect.revision is not None
            },
            codec=Codec[self.options.record_compression.upper()],
        )
        return self._opened.enter_context(closing(recorder))

    def _on_unrecorded(self, text: str) -> None:
        self._driver.on_notice(Notice(NoticeKind.NOT_RECORDED, None, text))

    def _start_work(self) -> None:
        self.began = monotonic()
        if self._status_server is not None:
            self._status_server.start()
        if self._desk is not None:
            self._desk.start()
        if self.options.on_event is not None:
            self.call_on_event(self.options.on_event)
        if self._store.unclean:  # checked in the background: that may take long (D-13)
            self.beside(self._store.check, self._on_checked)
        for channel, key, handler, *how in self.options.handlers:
            self.handle(channel, key, handler, chosen(**(how[0] if how else {})))
        for channel, key, handler, *how in self.options.responders:
            self.respond(channel, key, handler, **(how[0] if how else {}))
        for remote in self.options.remotes:
            self._connect(remote, keep_trying=True)

    def waits_for(self) -> str:
        waited = [box for box in self._ended if box.awaited]
        said = [f"{box.awaited} call{'s' if box.awaited > 1 else ''} of {box}" for box in waited[:MOST_NAMED]]
        return with_others(said, len(waited), ", ")

    def unwritten(self) -> str:
        if self.node.committing is not None:
            return _COMMITTING
        return _REFUSED if self.node.uncommitted else ""

    def _end_work(self) -> None:
        self._ended = [*self.mailboxes]
        self._store.end()
        if self._desk is not None:
            self._desk.end()
        if self.begun is not None:
            self.begun.end_in_order()
        for relay in [*self.relays]:
            relay.close()
        for mailbox in list(self.mailboxes):
            mailbox.close(is_over=False)  # held messages would keep their connections from closing

    def _on_checked(self, lines: Iterable[str] | None, error: TolliverError | None = None) -> None:
        """Report the result of the check of the database, made after a crash or found damage (D-13): a line for each
        fault, or the error that ended the check.
        """
        self._on_damage(lines or ())
        if error is not None and self._open:  # closing the instance cancels the check
            detail = f"the database {self.options.database} was not looked through for damage: {error}"
            self._driver.on_notice(Notice(NoticeKind.STORE_ERROR, None, detail))

    def _told(self, found: T) -> T:
        """Raise the store's pending notices; returns `found`, the result of a call of the store, unchanged."""
        for kind, detail in self._store.news():
            self.node.notice(kind, detail)
        self.schedule_run()
        return found

    def _on_damage(self, lines: Iterable[str]) -> None:
        for line in lines:
            detail = f"a look at the database {self.options.database} found damage: {line}"
            self._driver.on_notice(Notice(NoticeKind.STORE_ERROR, None, detail))

    def complain(self, kind: NoticeKind, delivery: Delivery, text: str, error: BaseException | None) -> None:
        what = "request" if kind is NoticeKind.RESPONDER_FAILED else "message"
        detail = (
            f"the handler of {delivery.channel!r:.100} {delivery.key!r:.100}, attempt {delivery.attempt} of peer "
            f"{delivery.peer_id}'s {what}, {text}"
        )
        with self.lock:  # may be called on a handler's thread
            self._driver.complain(kind, delivery.peer_id, detail, error, delivery.channel)

    def _lost(self, cid: int, error: TolliverError | None) -> None:
        if self._recorder is not None:
            self._recorder.ended(cid)
        super()._lost(cid, error)

    def __str__(self) -> str:
        return f"the instance on {_where(self.options)}"


def _where(options: InstanceOptions) -> str:
    """Text that names the database."""
    if is_in_memory(options.database):
        return "a database in memory, which keeps nothing"
    return str(options.database)


def checked(handler: Handler) -> Handler:
    """Returns the handler. Raises TypeError if it is not callable."""
    if not callable(handler):
        raise TypeError(f"the handler {handler!r:.200} cannot be called: give a function of a delivery")
    return handler


def _values(token: Receipt) -> list[RetainedValue]:
    assert isinstance(token, ValueList)
    return token.values


def _nothing(_receipt: Receipt) -> None:
    return None


def _first(replies: Sequence[Reply]) -> Reply:
    return replies[0]


def _total(receipt: Receipt) -> int:
    return sum(receipt.counts)
