"""Messages for later: for a time, or for a subscriber (P-90 to P-97).

A message for a time is owed to the owner `LATER`, with its terms in its key, as "kind expire_after to key". Only the
store has a list of them, by time; the pattern knows when to look for the first. A message that is due is read, and
sent as any other: the commit that stores it for its recipients removes it from that owner, and moves its message key.

A message that nobody would get, on a channel that keeps, is owed to an owner of that channel. When a peer subscribes,
deliveries move to that peer, as they are: a piece in each commit, while all sends wait inside. So they come before what
is sent afterwards, and a crash at any instant leaves each with one owner; the next opening goes on.

Invariants: a message has one owner until it is sent. Nothing here grows with the number of messages that wait. At most
one look for what is due is under way.

Rejected: to move messages that are due, as their ids are not in the order of the times; all that is kept in the commit
of the peer's subscription, as memory for all of it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from math import isfinite
from typing import NamedTuple
from uuid import UUID

from .._common.arguments import check_seconds, check_type
from .._common.errors import ConnectionClosing, LocalProtocolError, OutboxFull, TolliverError, UndeliveredReason
from .._common.owner_ids import LATER, is_kept, kept_id
from .._node.actions import Fetch, NoticeKind, Receipt, Rider, Stored
from .._node.link import Peer, Recipients
from .._node.node import Node
from .._node.outboxes.sender import To, terms_of
from .._node.pattern import Pattern
from .._node.services import Services
from .._node.sizes import Item
from .._node.store import DUE, Due, Found, ReplacePeerSubscriptions, Row, StoredMessage
from .._wire.events import Subscription
from .queues import Queues

_MOST, _MOST_BYTES = 256, 4 * 2**20  # messages of one commit
_LOOK = 60.0  # seconds between two looks at most: the wall clock may be set, and the machine sleep
_RETRY = 1.0  # seconds after a failure of the store
_SEND, _JOB = "s", "j"
_NONE = "-"


class LaterTerms(NamedTuple):
    """LaterTerms of a message for a time, as its key has them on disk."""

    kind: str
    expire_after: float | None
    to: frozenset[UUID] | None

    @property
    def text(self) -> str:
        expire = _NONE if self.expire_after is None else repr(self.expire_after)
        to = _NONE if self.to is None else ",".join(sorted(one.hex for one in self.to))
        return f"{self.kind} {expire} {to}"

    @classmethod
    def read(cls, text: str) -> tuple[LaterTerms, str]:
        """Returns the terms, and the key of the message."""
        kind, expire, to, key = text.split(" ", 3)
        peers = None if to == _NONE else frozenset(UUID(one) for one in to.split(",") if one)
        return cls(kind, None if expire == _NONE else float(expire), peers), key


def due_of(after: float | None, not_before: float | None) -> Due:
    """Returns the time of a send. Raises TypeError and ValueError, for both times together, too."""
    if not_before is None:
        check_seconds("after", after, or_zero=True)
        assert after is not None
        return Due(after)
    if after is not None:
        raise ValueError(f"after={after!r:.100} and not_before are given: give one of them")
    check_type("not_before", not_before, int | float, "seconds since 1970")
    if not isfinite(not_before) or not_before >= 2**53:
        raise ValueError(f"not_before={not_before!r:.100}: give seconds since 1970")
    return Due(0.0, max(0.0, not_before))


class Release(Rider):
    """Receipt of a send of messages whose time has come: that of the store, not of the program."""

    __slots__ = ("_pattern", "rows")

    keeps: bool = True
    passes: bool = True

    def __init__(self, pattern: ForLater, rows: Sequence[StoredMessage]) -> None:
        super().__init__(0, -1, [])
        self._pattern: ForLater = pattern
        self.rows: Sequence[StoredMessage] = rows

    def ride(self) -> None:
        self._pattern.leave(self)


class ForLater(Pattern):
    """Pattern of messages that are stored and not owed to a peer yet."""

    def __init__(self, node: Node, services: Services) -> None:
        self._node, self._kernel, self._limits = node, services, services.limits
        self._owner = services.owner(LATER)
        self._puts: deque[tuple[list[Item], list[int], Due, Receipt]] = deque()  # they wait for room on the disk (D-13)
        self._is_looking = False
        self._due: Sequence[Row] = ()  # messages that are due, and wait for room on the disk
        self._first: float | None = None  # seconds until the first is due, as a search has found
        self.replace_key: Callable[[int, int | None, int], None] = _no_key
        """Called as a message whose time has come enters the commit that sends it: with its seq, that of the message in
        its place, None if nobody gets it, and the number of recipients."""
        self.is_reading_keys: Callable[[], bool] = bool
        """Nothing is sent while this is true."""
        self._keeping: dict[str, Recipients] = {}  # by channel: channels that keep, in this run
        self._kept: dict[str, Peer] = {  # by channel: owners of what was kept, in earlier runs, too
            one.channel: peer
            for peer in services.peers.values()
            if is_kept(peer.uuid)
            for one in peer.lists.subscriptions
        }
        self._giving: dict[Peer, bool] = {}  # owners whose messages are being moved; True to look once more
        services.on_timer("later", self._look)
        services.on_timer("kept", self._on_kept_timeout)
        services.on_timer("keep", self._declare)
        self._is_opening = any(peer.outbox.pending for peer in self._kept.values())
        if self._owner.outbox.pending:
            services.timers.set("later", services.now)  # not now: an opening performs commits alone
        if self._is_opening:
            services.hold_sends()
            services.timers.set("kept", services.now)

    @staticmethod
    def is_stored(services: Services) -> bool:
        """True if messages of an earlier opening wait for their time, or for a subscriber."""
        return any(peer.outbox.pending > 0 for uuid, peer in services.peers.items() if uuid == LATER or is_kept(uuid))

    def stats(self) -> Mapping[str, int]:
        later, kept = self._owner.outbox, [peer.outbox for peer in self._kept.values()]
        return {
            "later": later.pending,
            "later_bytes": later.pending_bytes,
            "kept": sum(one.pending for one in kept),
            "kept_bytes": sum(one.pending_bytes for one in kept),
        }

    def kept(self) -> Mapping[str, tuple[int, int]]:
        """Returns messages and bytes that wait for a subscriber, by channel, of the channels that keep any."""
        found = {channel: peer.outbox for channel, peer in self._kept.items()}
        return {channel: (one.pending, one.pending_bytes) for channel, one in found.items() if one.pending}

    # Calls of the application: messages for a time.

    def send_later(
        self,
        items: Iterable[Item],
        now: float | None = None,
        *,
        after: float | None = None,
        not_before: float | None = None,
        to: To = None,
        expire_after: float | None = None,
        receipt: Receipt | None = None,
    ) -> Receipt:
        """Stores messages, all or none, to be sent `after` seconds, or not before that many seconds since 1970 by the
        wall clock. `Stored` names the receipt, a new one or `receipt`, which counts them as `later` until then.

        The other arguments are those of `Node.send_many`; the seconds of `expire_after` begin when a message is due.
        Raises as that does, and OutboxFull if too many wait for their time.
        """
        self._begin(now)
        items = list(items)
        for item in items:
            self._kernel.size(*item)
        terms = terms_of(0, to, expire_after)
        text = LaterTerms(_SEND, terms.expire_after, terms.to).text
        return self._park(items, text, due_of(after, not_before), receipt)

    def put_later(
        self,
        channel: str,
        items: Iterable[tuple[str, bytes]],
        now: float | None = None,
        *,
        after: float | None = None,
        not_before: float | None = None,
        receipt: Receipt | None = None,
    ) -> Receipt:
        """Stores jobs, (key, body) each, to be put on this work queue at that time, as `send_later` does."""
        self._begin(now)
        self._node.use(Queues).check_declared(channel)
        jobs = [(channel, key, body) for key, body in items]
        for job in jobs:
            self._kernel.size_for(*job)
        return self._park(jobs, LaterTerms(_JOB, None, None).text, due_of(after, not_before), receipt)

    def _begin(self, now: float | None) -> None:
        self._kernel.tick(now)
        if self._node.closing:
            raise ConnectionClosing("the instance is closing: nothing was stored")

    def _park(self, items: Sequence[Item], terms: str, due: Due, receipt: Receipt | None) -> Receipt:
        receipt = receipt or Receipt(0, -1, [])
        rows = [(channel, f"{terms} {key}", body) for channel, key, body in items]
        sizes = [self._kernel.encoded_size(*row) for row in rows]
        if self._kernel.apart or self._puts:
            self._puts.append((rows, sizes, due, receipt))
        else:
            self._store(rows, sizes, due, receipt)
        return receipt

    def _store(self, rows: Sequence[Item], sizes: Sequence[int], due: Due, receipt: Receipt) -> None:
        rider = receipt if isinstance(receipt, Rider) else None
        if rider is not None and not rider.check(False):
            return
        waiting, limits = self._owner.outbox, self._limits
        count, size = waiting.pending + len(rows), waiting.pending_bytes + sum(sizes)
        if count > limits.max_later or size > limits.outbox_bytes:
            self._kernel.quota.refused(waiting)
            raise OutboxFull(
                f"{waiting.pending} messages ({waiting.pending_bytes} bytes) wait for their time, and {len(rows)} more "
                "would pass the bounds (D-10): nothing was stored. Send later, or raise Limits.max_later or "
                "outbox_bytes"
            )
        if not rows:
            self._kernel.tell(Stored([receipt]))
            return
        receipt.counts += [0] * len(rows)
        receipt.later += len(rows)
        self._kernel.store_for([(self._owner.alone, len(rows))], rows, sizes, receipt, due)
        if rider is not None:
            rider.ride()
        if due.not_before is None:
            self._look_in(due.after)
        else:
            self._kernel.after_commit(self._look_after)

    # Puts that wait for the disk (D-13).

    def waits(self) -> bool:
        return bool(self._puts or self._due)

    def busy(self) -> bool:
        return bool(self._puts or self._giving or self._is_looking)

    def room_is_back(self) -> None:
        while self._puts:
            rows, sizes, due, receipt = self._puts.popleft()
            try:
                self._store(rows, sizes, due, receipt)
            except TolliverError as error:
                self._kernel.tell(Stored([receipt], error))
        if self._due:
            self._send_rows()

    def no_room(self, error: TolliverError) -> None:
        for *_, receipt in self._puts:
            self._kernel.tell(Stored([receipt], error))
        self._puts.clear()
        if self._due:
            self._due = ()
            self._look_after(error)

    # Messages that are due.

    def _look_in(self, seconds: float) -> None:
        self._kernel.timers.set_earlier("later", self._kernel.now + min(seconds, _LOOK))

    def _look_after(self, error: TolliverError | None) -> None:
        """Looks for what is due first, or, after an error of the store, does so in a while."""
        self._is_looking = False
        if error is None:
            self._look(None)
        else:
            self._look_in(_RETRY)

    def _look(self, _subject: None) -> None:
        if self._is_looking or self._node.closing or not self._owner.outbox.pending:
            return
        if self._kernel.sends_wait or self.is_reading_keys():
            self._look_in(_RETRY)
            return
        self._is_looking, self._first = True, None
        self._kernel.search_later(self._found, self._found_all)

    def _found(self, found: Sequence[Found]) -> bool:
        self._first = found[0].expires_in
        return True

    def _found_all(self, error: TolliverError | None) -> None:
        if error is None and self._first is not None and self._first <= 0:
            self._kernel.tell(Fetch(LATER, DUE, _MOST, _MOST_BYTES))
            return
        self._is_looking = False
        self._look_in(_RETRY if error is not None else _LOOK if self._first is None else self._first)

    def rows(self, owner: UUID, rows: Sequence[Row], error: TolliverError | None) -> bool:
        if owner != LATER:
            return False
        if error is not None or self._node.closing or self._kernel.sends_wait:
            self._is_looking = False
            self._look_in(_RETRY)
            return True
        self._due = rows
        if not self._kernel.apart:
            self._send_rows()
        return True

    def _send_rows(self) -> None:
        rows, self._due = self._due, ()
        readable = [one for one in rows if isinstance(one, StoredMessage)]
        for row in rows:
            if not isinstance(row, StoredMessage):
                self._give_up(row, "it failed its checksum (V9)")
        for terms, group in groupby(readable, lambda row: LaterTerms.read(row.key)[0]):
            self._send_due(terms, [*group])
        self._kernel.after_commit(self._look_after)

    def _send_due(self, terms: LaterTerms, rows: Sequence[StoredMessage]) -> None:
        """Sends messages whose time has come, all with the same terms. Those that break a rule now are given up."""
        jobs = groupby(rows, lambda row: row.channel) if terms.kind == _JOB else [("", rows)]
        for channel, group in jobs:
            some = [*group]
            try:
                self._send(terms, channel, some)
            except TolliverError as error:
                if len(some) == 1:
                    self._give_up(some[0], str(error))
                else:
                    for row in some:
                        self._send_due(terms, [row])

    def _send(self, terms: LaterTerms, queue: str, rows: Sequence[StoredMessage]) -> None:
        release = Release(self, rows)
        items = [(row.channel, LaterTerms.read(row.key)[1], row.body) for row in rows]
        if terms.kind == _JOB:
            self._node.use(Queues).put_due(queue, [item[1:] for item in items], release)
            release.ride()
        else:
            self._kernel.send(items, to=terms.to, expire_after=terms.expire_after, receipt=release)

    def leave(self, release: Release) -> None:
        """Removes messages from their owner with the commit that stores them for their recipients."""
        rows, seqs = release.rows, self._kernel.next_seq - release.first_seq
        new = iter(range(release.first_seq, self._kernel.next_seq))
        became = [
            (row.seq, next(new) if count or seqs == len(rows) else None, count)
            for row, count in zip(rows, release.counts, strict=True)
        ]
        ids = {row.seq: row.wire_id for row in sorted(rows, key=lambda row: row.seq)}
        self._kernel.withdraw(self._owner, ids, sum(row.size for row in rows))
        for one in became:
            self.replace_key(*one)

        def left(error: TolliverError | None) -> None:
            for one in became if error is None else ():
                self._kernel.replace(*one)

        self._kernel.after_commit(left)

    def _give_up(self, row: Row, why: str) -> None:
        """Gives up a message that cannot be sent."""
        found = Found(LATER, row.seq, row.wire_id, row.size, False, 0.0)
        self._kernel.give_up(UndeliveredReason.DROPPED, self._owner, [found])
        self._kernel.notice(
            NoticeKind.CORRUPT_MESSAGE, None, f"a message whose time has come was given up, as it cannot be sent: {why}"
        )

    def forgets(self, peer: Peer) -> None:
        """Implements `Pattern.forgets`: raises LocalProtocolError for the owner of messages for a time, and for that of
        a channel that keeps now."""
        if peer.uuid == LATER:
            raise LocalProtocolError(
                "later", f"{peer.uuid} keeps messages whose time has not come: they go by themselves"
            )
        if any(peer in one.peers for one in self._keeping.values()):
            raise LocalProtocolError("keeps", f"{peer.uuid} keeps messages of a channel: let a peer subscribe to it")

    # Channels that keep.

    def keep(self, channel: str, now: float | None = None) -> None:
        """Has this channel keep what is sent while nobody subscribes, for its first subscriber, from now on.

        Raises ReservedChannel, ValueError for "", and as `Node.send` does for a channel that the application must not
        send on.
        """
        self._kernel.tick(now)
        self._kernel.size(channel, "", b"")
        if not channel:
            raise ValueError("channel='': give the name of one channel that keeps")
        channel = str.__str__(channel)
        if channel in self._keeping:
            return
        owner = self._kernel.owner(kept_id(channel))
        owner.lists.subscriptions = frozenset((Subscription(channel, ""),))
        self._keeping[channel] = owner.alone
        if channel not in self._kept:
            self._kept[channel] = owner
            self._declare(channel)

    def _declare(self, channel: str) -> None:
        """Stores the channel of the owner, by which a later run knows it."""
        self._kernel.operate(ReplacePeerSubscriptions(kept_id(channel), (Subscription(channel, ""),)))
        self._kernel.after_commit(partial(self._declared, channel))

    def _declared(self, channel: str, error: TolliverError | None) -> None:
        if error is not None:
            self._kernel.timers.set(("keep", channel), self._kernel.now + _RETRY)

    def keeps(self, channel: str) -> Recipients | None:
        return self._keeping.get(channel)

    def rerouted(self, peer: Peer) -> None:
        """Implements `Pattern.rerouted`: gives what channels keep to a peer that subscribes."""
        for channel, owner in self._kept.items():
            if owner.outbox.pending and any(one.channel in ("", channel) for one in peer.outbox.routed):
                self._begin_giving(owner)

    def _on_kept_timeout(self, _subject: None) -> None:
        """Gives what channels keep to peers that subscribe already: after the opening, and after a failure."""
        for peer in [*self._kernel.peers.values()]:
            self.rerouted(peer)
        if self._is_opening:
            self._is_opening = False
            self._kernel.let_sends_go()

    def _begin_giving(self, owner: Peer) -> None:
        if owner not in self._giving:
            self._kernel.hold_sends()
            self._kernel.after_commit(lambda _error: self._give(owner))
        self._giving[owner] = True

    def _give(self, owner: Peer) -> None:
        """Moves what the owner keeps to peers that subscribe, a piece in each commit; looks again if one more did."""
        self._giving[owner] = False
        [entry] = owner.lists.subscriptions
        failed = list[TolliverError]()

        def moved(error: TolliverError | None, _is_handed: bool) -> None:
            if error is not None:
                failed.append(error)

        def take(found: Sequence[Found]) -> bool:
            moving = defaultdict[Peer, list[Found]](list)
            for one in [one for one in found if one.seq not in owner.outbox.leaving]:
                for peer in self._kernel.match(entry.channel, one.key).peers[:1]:
                    moving[peer].append(one)
            for peer, some in moving.items():
                self._kernel.move(owner, peer, some, moved)
            return bool(failed)

        def done(error: TolliverError | None) -> None:
            if error is not None or failed:
                self._kernel.timers.set("kept", self._kernel.now + _RETRY)
            elif self._giving[owner]:
                self._give(owner)
                return
            del self._giving[owner]
            self._kernel.let_sends_go()

        self._kernel.search(owner.uuid, take, done)


def _no_key(_seq: int, _new_seq: int | None, _recipients: int) -> None:
    """Without message keys there is none to move."""
