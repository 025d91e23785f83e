"""Cache of handled messages, to drop duplicates (T-48).

This is an exact set of the last N, never a high-water mark, because lower ids do come later (T-09, T-40, T-51). A copy
of what was handled and is not on disk yet, where it must be, is let go without an ack: it is sent again. A derived
identity never comes back after its job is done, so what is known of it ends with a day (T-72a).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, takewhile
from uuid import UUID

from ..._common.derived import REMEMBERED, is_derived
from ..actions import Delivery
from ..message_set import Handled, Known, MessageSet


class DedupeCache:
    """The last `size` handled messages, and what is to be known of those that are being handled."""

    def __init__(self, size: int, known: Iterable[Handled] = ()) -> None:
        """A set of just that size is taken over as it is."""
        self._size = size
        self._used: dict[UUID, float] = {}  # derived identities, in the order of their last use
        self._begun: dict[Delivery, Handled] = {}
        self._storing: set[Handled] = set()  # handled well and not yet known
        room = size + 1  # the newest comes before the oldest goes
        if isinstance(known, MessageSet) and known.room == room:
            self._known = known
            return
        self._known = MessageSet(room)
        for one in known:
            self.add(*one)

    def peers(self) -> list[UUID]:
        """Of whom something is remembered."""
        return self._known.peers()

    def find(self, peer: UUID, message_id: int, checksum: int) -> Known:
        """Knowledge of this message: it was handled, or another one under its id, or neither."""
        return self._known.find(peer, message_id, checksum)

    def begin(self, delivery: Delivery, message_id: int, checksum: int) -> None:
        """It is handed out now."""
        self._begun[delivery] = delivery.peer_id, message_id, checksum

    def is_storing(self, peer: UUID, message_id: int, checksum: int) -> bool:
        """True if it was handled, and that is not on disk yet."""
        return (peer, message_id, checksum) in self._storing

    def failed(self, delivery: Delivery) -> None:
        """It is not being handled any more: the next copy is a message again."""
        self._begun.pop(delivery, None)

    def moved(self, delivery: Delivery, to: Delivery) -> None:
        """It is handed out as another one from now on."""
        if delivery in self._begun:
            self._begun[to] = self._begun.pop(delivery)

    def succeeded(self, delivery: Delivery) -> Handled | None:
        """Message for `add`, at once or when it is on disk; None if it was not being handled, or a copy of it was."""
        handled = self._begun.pop(delivery, None)
        if handled is None:
            return None
        peer, message_id, checksum = handled
        assert checksum is not None
        if handled in self._storing or self.find(peer, message_id, checksum) is Known.YES:
            return None
        self._storing.add(handled)
        return handled

    def add(self, peer: UUID, message_id: int, checksum: int | None) -> Known:
        """From now on copies of it are duplicates. Returns what was known until now."""
        self._storing.discard((peer, message_id, checksum))
        known = self._known.add(peer, message_id, checksum)
        if len(self._known) > self._size:
            self._known.forget_oldest()
        return known

    def forget(self, peer: UUID) -> None:
        """Its ids mean nothing any more (T-77)."""
        self._known.forget(peer)
        self._begun = {delivery: one for delivery, one in self._begun.items() if one[0] != peer}
        self._storing = {one for one in self._storing if one[0] != peer}
        self._used.pop(peer, None)

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
        """End of the first derived identity's day."""
        return next(iter(self._used.values())) + REMEMBERED if self._used else None

    def expire(self, now: float) -> list[UUID]:
        """The derived identities whose time is over: what they sent is a message again."""
        crowding = list(islice(self._used, len(self._used) - self._size)) if self.crowded else []
        for uuid in crowding:
            del self._used[uuid]
        over = list(takewhile(lambda uuid: self._used[uuid] + REMEMBERED <= now, self._used))
        for uuid in over:
            del self._used[uuid]
            self._known.forget(uuid)
        return crowding + over
