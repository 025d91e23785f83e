"""Message keys: one message for each key on a channel (P-60 to P-65).

State: a `Note` for each key, by (channel, message key), and by the seq of its message once that is on disk. On disk a
note is a message without a body, owed to a keeper: its channel is that of the message, its key the text "seq recipients
message_key". `_early` are the calls before the notes of an earlier opening are known, `_waiting` the sends that nobody
would get yet, while a peer is connecting.

Invariants: the commit that stores a message with a key stores its note, so that a crash leaves both or neither. A
message that is owed to nobody has no note. Whether a key is known is decided when its message would enter the commit,
not before: of two sends with one key in any order one is stored. A note whose message is owed to somebody stands for a
message that waits. Without an owner the message was acknowledged, or given up: then the note has another keeper, one
for each reason, and the commit that gives up moves the note. So an acknowledgement costs nothing more.

Keys are forgotten after `Policy.key_window`, by the store's clock, but not while their messages wait: then another send
would be a second message. A send above the bounds raises, as no key is forgotten early.

Rejected: to owe the message itself to a keeper, as its body would stay on disk as long as the key; a note with its
state in a body, which would have to be read at the opening, and written at each acknowledgement.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import count, groupby
from operator import attrgetter
from uuid import UUID

from .._common.arguments import check_type
from .._common.errors import ConnectionClosing, LocalProtocolError, OwnLimitExceeded, TolliverError, UndeliveredReason
from .._common.intervals import spans_of
from .._common.owner_ids import keeper_id
from .._node.actions import GoOn, NoticeKind, Receipt, Rider, Stored
from .._node.link import Peer
from .._node.node import Node
from .._node.outboxes.sender import To, terms_of
from .._node.pattern import Pattern
from .._node.services import Services
from .._node.sizes import Item
from .._node.store import AddDeliveries, Found, RemoveDeliveries
from .for_later import ForLater, due_of
from .queues import Queues

Name = tuple[str, str]
"""(channel, message key)"""

_REASONS = (
    UndeliveredReason.EXPIRED,
    UndeliveredReason.FORGOTTEN,
    UndeliveredReason.DROPPED,
    UndeliveredReason.DROPPED_OLDEST,
    UndeliveredReason.SKIPPED,
    UndeliveredReason.UNSUBSCRIBED,
    UndeliveredReason.CANCELLED,
)
"""In the order of their keepers' numbers, which are on disk."""
KEEPERS: Mapping[UndeliveredReason | None, UUID] = {
    reason: keeper_id(number) for number, reason in enumerate((None, *_REASONS), 1)
}
"""The keeper of the notes of messages that were given up for each reason, and, for None, that of all others."""

_LOOKS = 24  # looks for old keys in one window
_RETRY = 1.0  # seconds after a failure of the store


class Note:
    """A key that is taken: the seq of its message, the recipients of that, and the note's own message."""

    __slots__ = ("followers", "is_durable", "name", "reason", "recipients", "row", "seq", "size", "wire_id")

    def __init__(self, name: Name, seq: int, recipients: int, reason: UndeliveredReason | None) -> None:
        self.name: Name = name
        self.seq: int = seq
        self.recipients: int = recipients
        self.reason: UndeliveredReason | None = reason  # for which the message was given up
        self.row: int = 0
        self.wire_id: int = 0
        self.size: int = 0
        self.is_durable: bool = False
        self.followers: list[KeyedSend] = []  # sends with the same key that wait for the commit

    @property
    def text(self) -> str:
        """The key of the note's own message."""
        return f"{self.seq} {self.recipients} {self.name[1]}"

    @classmethod
    def read(cls, found: Found, reason: UndeliveredReason | None) -> Note:
        """Returns the note that a store has listed, with all its names."""
        seq, recipients, message_key = found.key.split(" ", 2)
        note = cls((found.channel, message_key), int(seq), int(recipients), reason)
        note.row, note.wire_id, note.size, note.is_durable = found.seq, found.wire_id, found.size, True
        return note


class KeyedSend(Rider):
    """Receipt of a send, or of a put, with a message key."""

    __slots__ = ("_keys", "again", "is_repeated", "name", "size")

    keeps: bool = True

    def __init__(self, keys: MessageKeys, name: Name, size: int) -> None:
        super().__init__(0, -1, [])
        self._keys: MessageKeys = keys
        self.name: Name = name
        self.size: int = size
        self.again: Callable[[], object]  # does the call, now or later
        self.is_repeated: bool = False

    def check(self, may_wait: bool) -> bool:
        return self._keys.admits(self, may_wait)

    def ride(self) -> None:
        if self.recipients or self.later:
            self._keys.take((self.name,), self)

    @property
    def repeats(self) -> bool:
        return self.is_repeated


class KeyedSends(Rider):
    """Receipt of messages that are stored in one step, each with a message key of its own."""

    __slots__ = ("_keys", "_names")

    keeps: bool = True

    def __init__(self, keys: MessageKeys, names: Sequence[Name]) -> None:
        super().__init__(0, -1, [])
        self._keys: MessageKeys = keys
        self._names: Sequence[Name] = names

    def ride(self) -> None:
        self._keys.take(self._names, self)


class MessageKeys(Pattern):
    """Pattern of sends and jobs with message keys: stores each message once, and answers the others with its state."""

    def __init__(self, node: Node, services: Services) -> None:
        self._node, self._kernel, self._limits = node, services, services.limits
        self._window = services.policy.key_window
        self._notes: dict[Name, Note] = {}
        self._by_seq: dict[int, Note] = {}  # durable ones
        self._bytes = 0
        self._gathering: list[Note] = []  # of the commit that gathers
        self._early: deque[KeyedSend] = deque()
        self._until_known: list[GoOn] = []
        self._waiting: list[KeyedSend] = []
        self._given_up_early: dict[int, UndeliveredReason] = {}  # while the notes are not known
        self._leaving: set[int] = set()  # seqs of notes that the next commit removes
        self._damaged = 0  # notes that cannot be read
        # Keepers whose notes are to be read.
        self._unread = [uuid for uuid in KEEPERS.values() if _keeps_any(services, uuid)]
        self._is_reading = False
        services.on_timer("keys", self._on_timeout)
        if self._unread:
            services.timers.set("keys", services.now)  # not now: an opening performs commits alone
        if node.used(ForLater) is not None:
            self._for_later()

    @staticmethod
    def is_stored(services: Services) -> bool:
        """True if the store has keys of an earlier opening."""
        return any(_keeps_any(services, uuid) for uuid in KEEPERS.values())

    def stats(self) -> Mapping[str, int]:
        return {"message_keys": len(self._notes), "message_key_bytes": self._bytes}

    # The application's calls.

    def send(
        self,
        channel: str,
        key: str,
        body: bytes,
        message_key: str,
        now: float | None = None,
        *,
        require_recipients: int = 0,
        to: To = None,
        expire_after: float | None = None,
        after: float | None = None,
        not_before: float | None = None,
    ) -> Receipt:
        """Stores a message, unless the channel has had one with this key: then `Stored` names a receipt that `repeats`,
        and has the state of that message.

        A message that nobody would get takes no key; while a peer is connecting, such a send waits for it (T-62).
        Raises as `send_many` does, and OwnLimitExceeded if no more keys can be remembered, TypeError and ValueError for
        a key that is none.
        """
        size = self._kernel.size(channel, key, body)
        terms_of(require_recipients, to, expire_after)
        send = self._begin(channel, message_key, size, now)
        store = partial(self._kernel.send, require_recipients=require_recipients)
        if after is not None or not_before is not None:
            due_of(after, not_before)
            store = partial(self._for_later().send_later, after=after, not_before=not_before)
        send.again = partial(store, [(channel, key, body)], to=to, expire_after=expire_after, receipt=send)
        return self._do(send)

    def send_many(self, items: Sequence[Item], message_keys: Sequence[str], now: float | None = None) -> Receipt | None:
        """Stores messages in one step, each with its key. Returns None, and has done nothing, where they are no plain
        case: there are none; a key is taken, or is there twice; a message has no recipient, or a send would wait; the
        keys have no room, or a peer is near its quota. Then `send` each by itself. Raises as `send_many` of a node
        does.
        """
        self._kernel.tick(now)
        names = [self._name(item[0], message_key) for item, message_key in zip(items, message_keys, strict=True)]
        new = {*names}
        if not names or len(new) < len(names) or self._unread or self._early or self._node.closing:
            return None
        if not new.isdisjoint(self._notes) or self._is_full(len(names), sum(map(_size_of, names))):
            return None
        sends = KeyedSends(self, names)
        return sends if self._kernel.send_at_once(sends, items) else None

    def put(
        self,
        channel: str,
        key: str,
        body: bytes,
        message_key: str,
        now: float | None = None,
        *,
        after: float | None = None,
        not_before: float | None = None,
    ) -> Receipt:
        """Stores a job, unless the queue has had one with this key, like `send`. Raises as `Queues.put_many` does."""
        size = self._kernel.size_for(channel, key, body)
        send = self._begin(channel, message_key, size, now)
        store: Callable[..., Receipt] = self._node.use(Queues).put_many
        if after is not None or not_before is not None:
            due_of(after, not_before)
            store = partial(self._for_later().put_later, after=after, not_before=not_before)
        send.again = partial(store, channel, [(key, body)], receipt=send)
        return self._do(send)

    def when_known(self, go_on: GoOn) -> None:
        """Calls `go_on` once the keys of an earlier opening are known, so that a put with a known key `repeats` at
        once; or with the error that prevented it."""
        if self._unread:
            self._until_known.append(go_on)
            self._begin_reading()
        else:
            go_on(None)

    def release(self, names: Iterable[Name]) -> None:
        """Forgets these keys, as (channel, message key), before their time: of messages that nobody sends again. Those
        whose commit is outstanding stay.
        """
        gone = defaultdict[UndeliveredReason | None, list[Note]](list)
        leaving = self._kernel.owner(KEEPERS[None]).outbox.leaving
        for name in names:
            note = self._notes.get(name)
            if note is not None and note.is_durable and note.row not in leaving:
                gone[note.reason].append(note)
                self._leave(note)
        for reason, notes in gone.items():
            ids = {note.row: note.wire_id for note in sorted(notes, key=attrgetter("row"))}
            self._withdraw(KEEPERS[reason], ids, sum(note.size for note in notes))

    @property
    def is_half_full(self) -> bool:
        """True if half of what the limits allow is remembered."""
        count, size, limits = len(self._notes), self._bytes, self._limits
        return 2 * count > limits.max_message_keys or 2 * size > limits.max_message_key_bytes

    def _begin(self, channel: str, message_key: str, size: int, now: float | None) -> KeyedSend:
        self._kernel.tick(now)
        if self._node.closing:
            raise ConnectionClosing("the instance is closing: nothing was stored")
        return KeyedSend(self, self._name(channel, message_key), size)

    def _name(self, channel: str, message_key: str) -> Name:
        check_message_key(message_key)
        self._kernel.name_size(message_key)
        return str.__str__(channel), str.__str__(message_key)

    def _do(self, send: KeyedSend) -> Receipt:
        if self._unread or self._early:
            self._early.append(send)
            self._begin_reading()
        else:
            send.again()
        return send

    def _do_later(self, send: KeyedSend) -> None:
        try:
            send.again()
        except TolliverError as error:
            self._kernel.tell(Stored([send], error))

    # As a message is about to enter the commit.

    def admits(self, send: KeyedSend, may_wait: bool) -> bool:
        """Returns True if the message of this send is to be stored now. Else the send was answered, or waits for a peer
        that is connecting. Raises OwnLimitExceeded if its key has no room."""
        note = self._notes.get(send.name)
        if note is not None:
            self._answer(send, note)
            return False
        self._check_room(send.name)
        if may_wait and sum(one.size for one in self._waiting) < self._limits.keep_bytes:
            self._waiting.append(send)
            return False
        return True

    def _answer(self, send: KeyedSend, note: Note) -> None:
        """Answers a send whose key is taken with the state of the message, once that is on disk."""
        if not note.is_durable:
            note.followers.append(send)
            return
        _repeat(send, note)
        self._kernel.follow(send)
        self._kernel.tell(Stored([send]))

    def _check_room(self, name: Name) -> None:
        limits = self._limits
        if self._is_full(1, _size_of(name)):
            count, size = len(self._notes) + 1, self._bytes + _size_of(name)
            raise OwnLimitExceeded(
                "too_many",
                f"message_key={name[1]!r:.100} on {name[0]!r:.100} would make {count} keys of {size} bytes: at most "
                f"{limits.max_message_keys} of {limits.max_message_key_bytes} bytes are remembered, each for "
                f"{self._window:g} s (P-64). Nothing was stored: send again later, lower Policy.key_window, or raise "
                "Limits.max_message_keys or max_message_key_bytes",
            )

    def _is_full(self, count: int, size: int) -> bool:
        """True if so many more keys, of so many bytes, are more than the limits allow."""
        limits = self._limits
        return len(self._notes) + count > limits.max_message_keys or self._bytes + size > limits.max_message_key_bytes

    def take(self, names: Sequence[Name], receipt: Receipt) -> None:
        """Takes the keys of messages that have entered the commit, all of them those of the receipt."""
        reason = next((one.reason for one in receipt.undelivered), None)  # skipped for a peer at its quota
        self._begin_gathering()
        for name, seq, recipients in zip(names, count(receipt.first_seq), receipt.counts, strict=False):
            note = Note(name, seq, recipients, reason)
            self._gathering.append(note)
            self._enter(note)

    def _begin_gathering(self) -> None:
        if not self._gathering:
            self._kernel.after_commit(partial(self._ended, self._gathering))
            self._kernel.at_commit(self._store, True)

    def _enter(self, note: Note) -> None:
        if not self._notes:
            self._kernel.timers.set("keys", self._kernel.now + self._window / _LOOKS)
        self._notes[note.name] = note
        self._bytes += _size_of(note.name)

    def _leave(self, note: Note) -> None:
        del self._notes[note.name]
        self._by_seq.pop(note.seq, None)
        self._bytes -= _size_of(note.name)

    def _store(self) -> None:
        """Adds the notes to the commit that begins, behind the messages: these leave the disk sooner."""
        notes, self._gathering = self._gathering, []
        items = [(note.name[0], note.text, b"") for note in notes]
        sizes = [self._kernel.encoded_size(*item) for item in items]
        runs = [(reason, len([*run])) for reason, run in groupby(notes, attrgetter("reason"))]
        shares = [(self._kernel.owner(KEEPERS[reason]).alone, count) for reason, count in runs]
        self._kernel.separate()
        for note, row in zip(notes, self._kernel.store_for(shares, items, sizes, None), strict=True):
            note.row, note.wire_id, note.size = row.seq, row.wire_id, row.size

    def _ended(self, notes: list[Note], error: TolliverError | None) -> None:
        """Called at the end of the commit with these notes; after a failed one their keys are free again."""
        if notes is self._gathering:
            self._gathering = []  # the commit failed before it began
        for note in notes:
            followers, note.followers, note.is_durable = note.followers, [], error is None
            if error is not None:
                self._leave(note)
                self._kernel.tell(Stored(followers, error))
                continue
            self._by_seq[note.seq] = note
            for send in followers:
                self._answer(send, note)

    # Messages that are sent later, and messages that are given up.

    def _for_later(self) -> ForLater:
        """The pattern of messages for later, which tells from now on when the time of one has come."""
        known = self._node.use(ForLater)
        known.replace_key, known.is_reading_keys = self._replace, lambda: bool(self._unread)
        return known

    def _replace(self, seq: int, new_seq: int | None, recipients: int) -> None:
        """Has the key of the message `seq`, whose time has come, stand for the message `new_seq`, which the same commit
        stores in its place; without one the key is free.
        """
        note = self._by_seq.get(seq)
        if note is None:
            return
        self._leave(note)
        self._withdraw(KEEPERS[note.reason], {note.row: note.wire_id}, note.size)
        if new_seq is not None:
            self._begin_gathering()
            new = Note(note.name, new_seq, recipients, None)
            self._gathering.append(new)
            self._enter(new)
        self._kernel.after_commit(partial(self._replaced, note))

    def _replaced(self, note: Note, error: TolliverError | None) -> None:
        if error is not None:
            self._enter(note)
            self._by_seq[note.seq] = note

    def given_up(self, reason: UndeliveredReason, seqs: Collection[int]) -> Iterable[RemoveDeliveries | AddDeliveries]:
        if self._unread:
            self._given_up_early.update(dict.fromkeys(seqs, reason))
            return ()
        by_seq = self._by_seq
        notes = [by_seq[seq] for seq in seqs if seq in by_seq and by_seq[seq].reason is None]
        return self._move(notes, reason) if notes else ()

    def _move(self, notes: Sequence[Note], reason: UndeliveredReason) -> Iterable[RemoveDeliveries | AddDeliveries]:
        """Returns the operations that give these notes to the keeper of the reason; all else counts so from now on."""
        source, target = self._kernel.owner(KEEPERS[None]), self._kernel.owner(KEEPERS[reason])
        size = sum(note.size for note in notes)
        spans = spans_of(sorted(note.row for note in notes))
        source.outbox.add(-len(notes), -size)
        source.outbox.leave(spans)
        target.outbox.add(len(notes), size)
        for note in notes:
            note.reason = reason
        rows = [(note.row, note.wire_id, note.size) for note in notes]
        return AddDeliveries(target.uuid, rows), RemoveDeliveries(source.uuid, spans)

    # Sends that wait.

    def room_is_back(self) -> None:
        """Implements `Pattern.room_is_back`: sends what nobody would get again, as a peer may be connected now."""
        waiting, self._waiting = self._waiting, []
        for send in waiting:
            self._do_later(send)

    def unsent(self) -> Collection[Receipt]:
        return self._early

    def busy(self) -> bool:
        return bool(self._early or self._waiting)

    def closing(self) -> None:
        sends = [*self._early, *self._waiting]
        self._early.clear()
        self._waiting.clear()
        if sends:
            self._kernel.tell(Stored(sends, ConnectionClosing("the instance is closing: nothing was stored")))

    def forgets(self, peer: Peer) -> None:
        """Implements `Pattern.forgets`: raises LocalProtocolError for an owner of keys."""
        if peer.uuid in KEEPERS.values():
            raise LocalProtocolError("message_keys", f"{peer.uuid} keeps message keys: they end by themselves")

    # Keys of an earlier opening.

    def _begin_reading(self) -> None:
        if self._unread and not self._is_reading:
            self._is_reading = True
            self._read()

    def _read(self) -> None:
        """Reads the notes of the next keeper."""
        uuid = self._unread[0]
        reason = next(reason for reason, one in KEEPERS.items() if one == uuid)
        self._kernel.search(uuid, partial(self._learn, reason), self._learned)

    def _learn(self, reason: UndeliveredReason | None, found: Sequence[Found]) -> None:
        for one in found:
            if not one.key:
                self._damaged += 1
                continue
            note = Note.read(one, reason)
            known = self._notes.get(note.name)
            if known is not None and known.row > note.row:
                continue  # an old one, which could not be removed
            if known is not None:
                self._leave(known)
            self._enter(note)
            self._by_seq[note.seq] = note

    def _learned(self, error: TolliverError | None) -> None:
        if error is None:
            del self._unread[0]
        if error is None and self._unread:
            self._read()
            return
        self._is_reading = False
        if error is not None:
            self._kernel.timers.set("keys", self._kernel.now + _RETRY)
            early, self._early = [*self._early], deque()
            self._kernel.tell(Stored(early, error))
            self._tell_known(error)
            return
        if self._damaged:
            text = f"{self._damaged} message keys failed their checksums: what is sent with them again is stored again"
            self._kernel.notice(NoticeKind.STORE_ERROR, None, text)
        for seq, reason in self._given_up_early.items():
            self._kernel.put_away(self.given_up(reason, (seq,)))
        self._given_up_early.clear()
        while self._early:
            self._do_later(self._early.popleft())
        self._tell_known(None)

    def _tell_known(self, error: TolliverError | None) -> None:
        waiting, self._until_known = self._until_known, []
        for go_on in waiting:
            go_on(error)

    # Old keys.

    def _on_timeout(self, _subject: None) -> None:
        """Forgets old keys, or reads the keys again after an error of the store."""
        if self._unread:
            self._begin_reading()
            return
        keepers = [uuid for uuid in KEEPERS.values() if _keeps_any(self._kernel, uuid)]
        for uuid in keepers:
            self._kernel.search_older(uuid, self._window, partial(self._forget, uuid), _nothing)
        if keepers:
            self._kernel.timers.set("keys", self._kernel.now + self._window / _LOOKS)

    def _forget(self, uuid: UUID, found: Sequence[Found]) -> None:
        """Removes these old notes with the next commit, but for those whose messages wait."""
        owner, ids, size = self._kernel.owner(uuid), dict[int, int](), 0
        for one in found:
            if one.seq in owner.outbox.leaving or one.seq in self._leaving:
                continue  # it is given to another keeper, or was released
            if one.key:
                old = Note.read(one, None)
                note = self._notes.get(old.name)
                if note is not None and note.row == old.row:
                    if self._kernel.is_owed(old.seq):
                        continue
                    self._leave(note)
            ids[one.seq] = one.wire_id
            size += one.size
        if ids:
            self._withdraw(uuid, ids, size)

    def _withdraw(self, uuid: UUID, ids: Mapping[int, int], size: int) -> None:
        """Removes notes of this keeper, given as wire ids by seq and their bytes, with the next commit; a search that
        has found them before does not remove them again.
        """
        self._leaving.update(ids)
        self._kernel.after_commit(lambda _error: self._leaving.difference_update(ids))
        self._kernel.withdraw(self._kernel.owner(uuid), ids, size)


def check_message_key(message_key: str) -> None:
    """Raises TypeError, and ValueError for an empty one."""
    check_type("message_key", message_key, str, "a text that names the message")
    if not message_key:
        raise ValueError("message_key is empty: give a text that names the message, or None")


def _repeat(send: KeyedSend, note: Note) -> None:
    """Makes the receipt of this send that of the note's message."""
    send.is_repeated = True
    send.first_seq = send.last_seq = note.seq
    send.recipients, send.counts, send.later = note.recipients, [note.recipients], int(not note.recipients)
    if note.reason is not None:
        send.give_up(None, note.reason, 1)


def _size_of(name: Name) -> int:
    """Returns the bytes of a key and its channel, as the limits count them."""
    return len(name[0].encode()) + len(name[1].encode())


def _keeps_any(services: Services, uuid: UUID) -> bool:
    return uuid in services.peers and services.peers[uuid].outbox.pending > 0


def _nothing(_error: TolliverError | None) -> None:
    """A search for old keys that failed is made again at the next look."""
