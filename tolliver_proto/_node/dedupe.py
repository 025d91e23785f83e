"""Cache of handled message ids, to drop duplicates (T-48).

This is an exact set of the last N, never a high-water mark, because lower ids do come later (T-09, T-40, T-51). A copy
that comes while another is being handled, or before that is on disk where it must be, is let go without an ack: it is
sent again. A derived identity never comes back after its job is done, so what is known of it ends with a day (T-72a).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from itertools import islice, takewhile
from uuid import UUID

from .._common.derived import REMEMBERED, is_derived
from .actions import Delivery

_Key = tuple[UUID, int | None]


def _key(delivery: Delivery) -> _Key:
    return delivery.peer_id, delivery.message.message_id


class DedupeCache:
    """The last `size` handled messages, as (peer, message id), and those that are being handled now."""

    def __init__(self, size: int, known: Iterable[tuple[UUID, int]] = ()) -> None:
        self._size = size
        self._used: dict[UUID, float] = {}  # derived identities, in the order of their last use
        self._order: deque[_Key] = deque()
        self._known: set[_Key] = set()
        self._under_way: dict[_Key, Delivery | None] = {}  # None: handled well, and not yet known
        for peer, message_id in known:
            self.add(peer, message_id)

    def __bool__(self) -> bool:
        return self._size > 0

    def knows(self, peer: UUID, message_id: int) -> bool:
        """True if it was handled."""
        return (peer, message_id) in self._known

    def begin(self, delivery: Delivery) -> bool:
        """It is handed out now; False if another copy of it is being handled."""
        return self._under_way.setdefault(_key(delivery), delivery) is delivery

    def failed(self, delivery: Delivery) -> None:
        """It is not being handled any more: the next copy is a message again."""
        if self._under_way.get(_key(delivery)) is delivery:
            del self._under_way[_key(delivery)]

    def succeeded(self, delivery: Delivery) -> bool:
        """True if this is news: it was being handled. To be followed by `add`, at once or when it is on disk."""
        if self._under_way.get(_key(delivery)) is not delivery:
            return False
        self._under_way[_key(delivery)] = None
        return True

    def add(self, peer: UUID, message_id: int) -> None:
        """From now on copies of it are duplicates."""
        self._under_way.pop((peer, message_id), None)
        if (peer, message_id) in self._known:
            return
        self._known.add((peer, message_id))
        self._order.append((peer, message_id))
        if len(self._order) > self._size:
            self._known.discard(self._order.popleft())

    def forget(self, peer: UUID) -> None:
        """Its ids mean nothing any more (T-77)."""
        self._drop({peer})
        self._under_way = {key: one for key, one in self._under_way.items() if key[0] != peer}
        self._used.pop(peer, None)

    def _drop(self, peers: Collection[UUID]) -> None:
        self._order = deque(key for key in self._order if key[0] not in peers)
        self._known = set(self._order)

    # Derived identities.

    def use(self, peer: UUID, now: float) -> None:
        """If it is a derived identity, its day begins again."""
        if is_derived(peer):
            self._used.pop(peer, None)
            self._used[peer] = now

    @property
    def crowded(self) -> bool:
        """More derived identities than messages to remember: nothing of the first is remembered any more."""
        return len(self._used) > self._size > 0

    @property
    def next_expiry(self) -> float | None:
        """When the first derived identity's day is over."""
        return next(iter(self._used.values())) + REMEMBERED if self._used else None

    def expire(self, now: float) -> list[UUID]:
        """The derived identities whose time is over: what they sent is a message again."""
        crowding = list(islice(self._used, len(self._used) - self._size)) if self.crowded else []
        for uuid in crowding:
            del self._used[uuid]
        over = list(takewhile(lambda uuid: self._used[uuid] + REMEMBERED <= now, self._used))
        for uuid in over:
            del self._used[uuid]
        if over:
            self._drop(set(over))
        return crowding + over
