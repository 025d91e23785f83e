"""Cache of handled messages, to drop duplicates (T-48).

The cache is an exact set of the last N messages, not a high-water mark, because lower ids may come later (T-09, T-40,
T-51). Where handled messages must be on disk, a copy that comes before the commit gets no ack, so that the sender
resends it. A derived identity never returns after its job, so its entries expire after a day (T-72a).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, takewhile
from uuid import UUID

from ..._common.derived_ids import REMEMBERED, is_derived
from ..actions import Delivery
from ..message_set import Handled, Known, MessageSet


class DedupeCache:
    """Memory by which copies of messages are recognized: the last `size` handled messages, and those being handled or
    stored as handled.
    """

    def __init__(self, size: int, known: Iterable[Handled] = ()) -> None:
        """Takes over a `MessageSet` of the right capacity without a copy."""
        self._size = size
        self._used: dict[UUID, float] = {}  # derived identities, in the order of their last use
        self._begun: dict[Delivery, Handled] = {}
        self._storing: set[Handled] = set()  # handled, not added yet
        room = size + 1  # `add` removes the oldest after it has added the newest
        if isinstance(known, MessageSet) and known.room == room:
            self._known = known
            return
        self._known = MessageSet(room)
        for one in known:
            self.add(*one)

    def peers(self) -> list[UUID]:
        """Senders of the remembered messages."""
        return self._known.peers()

    def find(self, peer: UUID, message_id: int, checksum: int) -> Known:
        """Looks a message up by sender, wire id and checksum. Returns whether this message was handled, another one was
        under its id, or neither.
        """
        return self._known.find(peer, message_id, checksum)

    def begin(self, delivery: Delivery, message_id: int, checksum: int) -> None:
        """Records that the message of `delivery`, with this wire id and checksum, is handed out."""
        self._begun[delivery] = delivery.peer_id, message_id, checksum

    def is_storing(self, peer: UUID, message_id: int, checksum: int) -> bool:
        """True if this message was handled, and the commit that remembers that is still outstanding."""
        return (peer, message_id, checksum) in self._storing

    def failed(self, delivery: Delivery) -> None:
        """Forgets a delivery that failed: the next copy is delivered."""
        self._begun.pop(delivery, None)

    def moved(self, delivery: Delivery, to: Delivery) -> None:
        """Replaces a delivery by `to`, the delivery of the same message's next try."""
        if delivery in self._begun:
            self._begun[to] = self._begun.pop(delivery)

    def succeeded(self, delivery: Delivery) -> Handled | None:
        """Ends the handling of a delivery. Returns the arguments for `add`, to be called now or after the commit; None
        if the message or its copy is known already."""
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
        """Remembers a handled message, whose copies are duplicates from now on; with a `checksum` of None, all of its
        id. Returns what was known before.
        """
        self._storing.discard((peer, message_id, checksum))
        known = self._known.add(peer, message_id, checksum)
        if len(self._known) > self._size:
            self._known.forget_oldest()
        return known

    def forget(self, peer: UUID) -> None:
        """Forgets the peer's messages: its ids may start over (T-77)."""
        self._known.forget(peer)
        self._begun = {delivery: one for delivery, one in self._begun.items() if one[0] != peer}
        self._storing = {one for one in self._storing if one[0] != peer}
        self._used.pop(peer, None)

    # Derived identities.

    def use(self, peer: UUID, now: float) -> None:
        """Notes a message of a derived identity, whose messages are forgotten a day after its last one; ignores other
        peers.
        """
        if is_derived(peer):
            self._used.pop(peer, None)
            self._used[peer] = now

    @property
    def crowded(self) -> bool:
        """True if there are more derived identities than messages to remember: the oldest has no message left here."""
        return len(self._used) > self._size > 0

    @property
    def next_expiry(self) -> float | None:
        """Time at which the first derived identity expires, in seconds of the node's clock; None without one."""
        return next(iter(self._used.values())) + REMEMBERED if self._used else None

    def expire(self, now: float) -> list[UUID]:
        """Forgets and returns the derived identities whose day has ended: what they sent is no duplicate any more."""
        crowding = list(islice(self._used, len(self._used) - self._size)) if self.crowded else []
        for uuid in crowding:
            del self._used[uuid]
        over = list(takewhile(lambda uuid: self._used[uuid] + REMEMBERED <= now, self._used))
        for uuid in over:
            del self._used[uuid]
            self._known.forget(uuid)
        return crowding + over
