"""Index of kept values: where each is stored, by its name (P-30, P-83).

These are the last values, or the answers to calls.

State: `entries` is true of the disk. `changes` gather for the next commit, and `_running` are those of the commit that
the store has. As a commit begins, each changed name becomes one new message of the owner, and the message of the older
value is withdrawn by the same commit. The entries follow when the commit is durable, so a failed commit changes none.

The entries are read from the store after the opening, names and sizes alone; calls wait until they are known. Bodies
are read by seq, in pieces, one piece at a time. A value that changes meanwhile is taken from the commit that stored it,
so that reading ends even where names change with every commit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import inf
from typing import NamedTuple
from uuid import UUID

from .._common.errors import TolliverError
from .._node.actions import Fetch, GoOn, NoticeKind
from .._node.services import Services
from .._node.store import Found, Row, StoredMessage

Name = tuple[str, str]
"""(channel, key)"""

_PIECE = 1000  # values that are read at a time
_PIECE_BYTES = 2**20


class StoredValue(NamedTuple):
    """A stored value: its message, the size of that in bytes, and when it was stored, in seconds of the node."""

    seq: int
    wire_id: int
    size: int
    stored_at: float


class Change(NamedTuple):
    """A new value and the size of its message; `body` is None if the name is cleared."""

    body: bytes | None
    size: int


class Reading:
    """A request to read values. `wants` tests a name; `names` returns the present names; `bodies` are the results by
    seq, None for a damaged value."""

    __slots__ = ("bodies", "done", "missing", "names", "wants")

    def __init__(self, wants: Callable[[Name], bool], names: Callable[[], Iterable[Name]], done: GoOn) -> None:
        self.wants: Callable[[Name], bool] = wants
        self.names: Callable[[], Iterable[Name]] = names
        self.done: GoOn = done
        self.bodies: dict[int, bytes | None] = {}
        self.missing: deque[int] = deque()


class ValueIndex:
    """Index of a keeper's values by channel and key: those in the store, with their number and their bytes, and the
    changes that are not stored yet.

    At most `max_count` of `max_bytes` are kept. `damaged` tells the operator of damaged ones, after their number.
    """

    def __init__(self, services: Services, owner: UUID, max_count: int, max_bytes: int, damaged: str) -> None:
        self._kernel, self._uuid, self._damaged = services, owner, damaged
        self._max_count, self._max_bytes = max_count, max_bytes
        self._overhead = services.encoded_size("", "", b"")
        self.entries: dict[Name, StoredValue] = {}
        self.changes: dict[Name, Change] = {}
        self._running: dict[Name, Change] = {}
        outbox = None if owner not in services.peers else services.peers[owner].outbox
        self.is_known: bool = outbox is None or not outbox.pending
        self.count: int = 0 if outbox is None else outbox.pending
        self.bytes: int = 0 if outbox is None else outbox.pending_bytes - self.count * self._overhead
        self._until_known: list[GoOn] = []
        self._until_stored: list[Callable[[], None]] = []
        self._rows: Sequence[StoredMessage] = ()  # of the running commit
        self._readings: dict[Reading, None] = {}  # those that wait
        self._turns: deque[Reading] = deque()  # those with something missing; the first has asked for a piece

    # Opening.

    def when_known(self, go_on: GoOn) -> None:
        """Calls `go_on` once the entries are known, or with the error that prevented it."""
        if self.is_known:
            go_on(None)
            return
        self._until_known.append(go_on)
        if len(self._until_known) == 1:
            self._kernel.search(self._uuid, self._learn, self._learned)

    def _learn(self, found: Sequence[Found]) -> None:
        now = self._kernel.now
        self.entries.update(
            ((one.channel, one.key), StoredValue(one.seq, one.wire_id, one.size, now - one.age)) for one in found
        )

    def _learned(self, error: TolliverError | None) -> None:
        self.is_known = error is None
        waiting, self._until_known = self._until_known, []
        for go_on in waiting:
            go_on(error)

    # Changes.

    def excess(self, name: Name, new: int) -> str | None:
        """Returns which bound a value of `new` bytes at this name would pass, as a text; None if it has room."""
        before = self._size_of(name)
        count, size = self.count + (before is None), self.bytes + new - (before or 0)
        grows = new > (before or 0)
        if (count > self._max_count and before is None) or (size > self._max_bytes and grows):
            return f"{count} values of {size} bytes: at most {self._max_count} of {self._max_bytes} bytes are kept"
        return None

    def change(self, name: Name, body: bytes | None, size: int | None) -> None:
        """Sets the name's value, of `size` bytes, or clears it, with the next commit."""
        if not self.changes:
            self._kernel.after_commit(partial(self._ended, self.changes))
        self._kernel.at_commit(self._begin, body is not None)
        self._count(self._size_of(name), -1)
        self.changes[name] = Change(body, 0 if size is None else size + self._overhead)
        self._count(size, 1)

    def _count(self, size: int | None, sign: int) -> None:
        if size is not None:
            self.count += sign
            self.bytes += sign * size

    def _size_of(self, name: Name) -> int | None:
        """Returns the bytes of the newest value of this name, as the limits count them; None without a value."""
        for changes in (self.changes, self._running):
            if name in changes:
                return None if changes[name].body is None else changes[name].size - self._overhead
        return self.entries[name].size - self._overhead if name in self.entries else None

    def _begin(self) -> None:
        """Adds the changes made since the last commit to the one that begins."""
        self._running, self.changes, self._rows = self.changes, {}, ()
        owner = self._kernel.owner(self._uuid)
        old = [self.entries[name] for name in self._running if name in self.entries]
        if old:
            self._kernel.withdraw(owner, {one.seq: one.wire_id for one in old}, sum(one.size for one in old))
        items = [(*name, one.body) for name, one in self._running.items() if one.body is not None]
        sizes = [one.size for one in self._running.values() if one.body is not None]
        if items:
            self._rows = self._kernel.store_for([(owner.alone, len(items))], items, sizes, None)

    def _ended(self, changes: Mapping[Name, Change], error: TolliverError | None) -> None:
        """Called at the end of a commit with changes: takes them over into the entries; after a failed one, counts
        names and bytes without them."""
        if changes is self.changes:
            self.changes = {}  # the commit failed before it began
        else:
            self._running = {}
        if error is None:
            for name in changes:
                self.entries.pop(name, None)
            for row in self._rows:
                self._enter(row)
        else:
            self._recount()
        waiting, self._until_stored = self._until_stored, []
        for call in waiting:
            call()

    def _enter(self, row: StoredMessage) -> None:
        name = row.channel, row.key
        self.entries[name] = StoredValue(row.seq, row.wire_id, row.size, self._kernel.now)
        for reading in self._readings:
            if reading.wants(name):
                reading.bodies[row.seq] = row.body

    def _recount(self) -> None:
        sizes = {name: one.size for name, one in self.entries.items()}
        for changes in (self._running, self.changes):
            for name, one in changes.items():
                sizes[name] = one.size
                if one.body is None:
                    del sizes[name]
        self.count = len(sizes)
        self.bytes = sum(sizes.values()) - self.count * self._overhead

    # Reading.

    @property
    def is_read(self) -> bool:
        """True while values are read, or are to be read once the entries are known."""
        return bool(self._readings or self._until_known)

    def __contains__(self, name: Name) -> bool:
        """True if the name has a value, or gets one with a commit that is under way."""
        return self._size_of(name) is not None

    def __bool__(self) -> bool:
        """True if some value is kept, or on its way to the disk."""
        return bool(not self.is_known or self.entries or self.changes or self._running)

    def names(self, reading: Reading) -> list[Name]:
        """The names that the reading wants, with those of the gathering commit, in order, without damaged values."""
        names = {*filter(reading.wants, self.entries), *filter(reading.wants, self.changes)}
        return sorted(name for name in names if self.body_of(name, reading, b"") is not None)

    def body_of(self, name: Name, reading: Reading, unread: bytes | None = None) -> bytes | None:
        """Returns the newest value of this name, `unread` if it was not read, None if it is damaged or cleared."""
        if name in self.changes:
            return self.changes[name].body
        return reading.bodies.get(self.entries[name].seq, unread)

    def message_size(self, name: Name) -> int:
        """Returns the bytes of the message with the newest value of this name."""
        return self.changes[name].size if name in self.changes else self.entries[name].size

    def begin(self, reading: Reading) -> None:
        """Reads the values, then calls `done`: no stored value of the names is missing then. A reading whose functions
        raise here leaves nothing behind."""
        self.when_known(partial(self._go_on, reading))

    def _go_on(self, reading: Reading, error: TolliverError | None = None) -> None:
        """Reads the values that the reading still lacks. Waits for a running commit that changes such a value, as the
        newest counts. `error` ends the reading.
        """
        if error is None and any(map(reading.wants, self._running)):
            self._readings[reading] = None
            self._until_stored.append(partial(self._go_on, reading))
            return
        seqs = {self.entries[name].seq for name in reading.names()} if error is None else set[int]()
        missing = sorted(seqs - reading.bodies.keys())
        if not missing:
            self._readings.pop(reading, None)
            reading.done(error)
            return
        self._readings[reading] = None
        reading.missing = deque(missing)
        self._turns.append(reading)
        if len(self._turns) == 1:
            self._fetch()

    def _fetch(self) -> None:
        missing = self._turns[0].missing
        self._kernel.tell(Fetch(self._uuid, missing[0] - 1, min(len(missing), _PIECE), _PIECE_BYTES))

    def rows(self, rows: Sequence[Row], error: TolliverError | None) -> None:
        """Takes the rows of a Fetch, or its error, for the reading that asked for it. A message without a row was
        withdrawn meanwhile."""
        reading = self._turns.popleft()
        found = {row.seq: row.body for row in rows if isinstance(row, StoredMessage)}
        damaged = [row.seq for row in rows if row.seq not in found]
        if damaged:
            self._kernel.notice(NoticeKind.STORE_ERROR, None, f"{len(damaged)} {self._damaged}")
        last = rows[-1].seq if rows else inf
        while reading.missing and reading.missing[0] <= last:
            seq = reading.missing.popleft()
            reading.bodies[seq] = found.get(seq)
        if error is None and reading.missing:
            self._turns.append(reading)
        if self._turns:
            self._fetch()
        if error is not None or not reading.missing:
            self._go_on(reading, error)
