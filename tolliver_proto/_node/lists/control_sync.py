"""Our list, as one peer is told it over one connection (T-29)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..._wire.connection import Connection
from ..._wire.events import PROBE_CHANNEL, Message, Subscribe, Subscription, Unsubscribe
from ..outboxes.ids import IdAllocator


class ControlSync:
    """Brings the peer's view of our subscriptions in line, one message per subscription at a time (T-29).

    The peer was told the list of the last handshake and, on top, the changes sent since. A change that comes while
    another of the same subscription is in flight waits for its acknowledgement; the latest wins.
    """

    __slots__ = (
        "_announced",
        "_changed",
        "_connection",
        "_frames",
        "_ids",
        "_under_way",
        "mute",
        "overdue",
        "probe_id",
    )

    def __init__(self, connection: Connection, ids: IdAllocator) -> None:
        self._connection = connection
        self._ids = ids
        self._announced: frozenset[Subscription] = frozenset()
        self._changed: dict[Subscription, bool] = {}
        self._under_way: dict[Subscription, int] = {}  # by what id
        self._frames: dict[int, Subscribe | Unsubscribe] = {}
        self.probe_id: int | None = None  # of the probe that is unacknowledged
        self.mute = False  # the peer dies of control messages: a handshake is all that it is told
        self.overdue = False  # its answer is, and what had come by then may not be read yet

    def announced(self, subscriptions: Iterable[Subscription]) -> None:
        """This list was just sent in a handshake: it says all that was in flight, and more."""
        self.drop()
        self._announced = frozenset(subscriptions)
        self._changed.clear()

    def doubt(self, subscriptions: Iterable[Subscription]) -> None:
        """The peer may not have taken these from the list (T-33)."""
        self._announced -= frozenset(subscriptions)

    def insist(self, subscriptions: Iterable[Subscription]) -> None:
        """The peer may still hold these, though the list lacks them (T-61)."""
        self._announced |= frozenset(subscriptions)

    def has_said(self, subscription: Subscription) -> bool | None:
        """The last change that it was told of it."""
        return self._changed.get(subscription)

    def differing(self, own: Iterable[Subscription]) -> set[Subscription]:
        """Differences between our list and the one that the handshake told the peer."""
        return set(self._announced) ^ set(own)

    def sync(self, subscription: Subscription, wanted: bool) -> int | None:
        """Send a control message if one is needed and none is in flight; returns its id."""
        told = self._changed.get(subscription, subscription in self._announced)
        kind = Subscribe if wanted else Unsubscribe
        if told == wanted or subscription in self._under_way or self.mute or not self._connection.can_send(kind):
            return None  # the next handshake says this for DRAFT_1 (T-21)
        wire_id = self._ids.take()
        frame = kind(subscription.channel, subscription.key, wire_id)
        self._connection.send(frame)
        self._changed[subscription] = wanted
        self._under_way[subscription] = wire_id
        self._frames[wire_id] = frame
        return wire_id

    def frame(self, wire_id: int) -> Subscribe | Unsubscribe | None:
        """The control message of that id, if it is still unacknowledged."""
        return self._frames.get(wire_id)

    @property
    def under_way(self) -> Collection[int]:
        """The ids of control messages that are unacknowledged."""
        return self._frames.keys()

    def repeat(self, subscription: Subscription) -> int | None:
        """Say it once more, where the peer knows it; returns its id."""
        if not self._changed.get(subscription, subscription in self._announced):
            return None
        self._changed[subscription] = False
        wire_id = self.sync(subscription, True)
        self._changed[subscription] = True
        return wire_id

    def acked(self, wire_id: int) -> Subscription | None:
        """The subscription whose change this acknowledges, or None."""
        frame = self._frames.pop(wire_id, None)
        if frame is None:
            return None
        self._ids.give_back([(wire_id, wire_id)])
        subscription = Subscription(frame.channel, frame.key)
        self._under_way.pop(subscription, None)
        return subscription

    def probe(self) -> None:
        """Send a message that the peer does not want and so acknowledges at once (T-46, T-80). Raises OutboxFull."""
        self.probe_id = self._ids.take()
        self._connection.send(Message(PROBE_CHANNEL, "", b"", self.probe_id))

    @property
    def probing(self) -> bool:
        """True if a probe is unacknowledged. It is never sent again: its id is in use until its connection ends."""
        return self.probe_id is not None

    def answered(self, wire_id: int) -> bool:
        """True if this acknowledges the probe."""
        if wire_id != self.probe_id:
            return False
        self._drop_probe()
        return True

    def _drop_probe(self) -> None:
        if self.probe_id is not None:
            self._ids.give_back([(self.probe_id, self.probe_id)])
            self.probe_id = None

    def drop(self) -> None:
        """Nothing of this is in flight any more."""
        self._drop_probe()
        self._ids.give_back((wire_id, wire_id) for wire_id in self._frames)
        self._frames.clear()
        self._under_way.clear()
