"""Announcing our subscriptions to the peer of one connection (T-29)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..._wire.connection import Connection
from ..._wire.events import PROBE_CHANNEL, Message, Subscribe, Subscription, Unsubscribe
from ..outboxes.ids import IdAllocator


class ControlSync:
    """Tells one peer the changes of our subscriptions by control messages, one for each subscription at a time (T-29).

    The peer knows the list of the last handshake and the changes sent since. A change of a subscription whose last
    change is unacknowledged waits for that acknowledgement; the latest change wins.
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
        self._under_way: dict[Subscription, int] = {}  # wire id by subscription
        self._frames: dict[int, Subscribe | Unsubscribe] = {}
        self.probe_id: int | None = None  # wire id of the unacknowledged probe
        self.mute: bool = False  # the peer crashes on control messages: only handshakes tell our list
        self.overdue: bool = False  # the answer to the probe is late, but input of the peer may still be unread

    def announced(self, subscriptions: Iterable[Subscription]) -> None:
        """Begins again from the subscriptions that a handshake just sent: they replace all changes in flight."""
        self.drop()
        self._announced = frozenset(subscriptions)
        self._changed.clear()

    def doubt(self, subscriptions: Iterable[Subscription]) -> None:
        """Treats these as not announced: the peer may not have taken them from the list (T-33)."""
        self._announced -= frozenset(subscriptions)

    def insist(self, subscriptions: Iterable[Subscription]) -> None:
        """Treats these as announced: the peer may still hold them though our list, or our last change, lacks them
        (T-61).
        """
        self._announced |= frozenset(subscriptions)
        for one in subscriptions:
            self._changed.pop(one, None)

    def has_said(self, subscription: Subscription) -> bool | None:
        """Returns the last change of this subscription that was sent to the peer: True for subscribed, False for
        unsubscribed, None if none was sent."""
        return self._changed.get(subscription)

    def tells(self, subscription: Subscription) -> bool:
        """Returns True if the peer was told last, on this connection, that we want the subscription."""
        return self._changed.get(subscription, subscription in self._announced)

    def differing(self, own: Iterable[Subscription]) -> set[Subscription]:
        """Returns the subscriptions that only one of the two lists has: ours, and the one of the handshake."""
        return set(self._announced) ^ set(own)

    def sync(self, subscription: Subscription, wanted: bool) -> int | None:
        """Sends a control message if the peer does not know that the subscription is `wanted` (or not), and none for it
        is in flight; returns its wire id, or None if none was sent.
        """
        told = self.tells(subscription)
        kind = Subscribe if wanted else Unsubscribe
        if told == wanted or subscription in self._under_way or self.mute or not self._connection.can_send(kind):
            return None  # DRAFT_1 has no such frame: the next handshake carries the change (T-21)
        wire_id = self._ids.take()
        frame = kind(subscription.channel, subscription.key, wire_id)
        self._connection.send(frame)
        self._changed[subscription] = wanted
        self._under_way[subscription] = wire_id
        self._frames[wire_id] = frame
        return wire_id

    def frame(self, wire_id: int) -> Subscribe | Unsubscribe | None:
        """Returns the unacknowledged control message with this wire id, or None if there is none."""
        return self._frames.get(wire_id)

    @property
    def under_way(self) -> Collection[int]:
        """Wire ids of the unacknowledged control messages."""
        return self._frames.keys()

    def repeat(self, subscription: Subscription) -> int | None:
        """Sends the subscribe message again if the peer knows the subscription; returns its wire id, or None if it was
        not sent.
        """
        if not self._changed.get(subscription, subscription in self._announced):
            return None
        self._changed[subscription] = False
        wire_id = self.sync(subscription, True)
        self._changed[subscription] = True
        return wire_id

    def acked(self, wire_id: int) -> Subscription | None:
        """Takes the ack of this wire id; returns the subscription of the control message, or None if the id is of
        none.
        """
        frame = self._frames.pop(wire_id, None)
        if frame is None:
            return None
        self._ids.give_back([(wire_id, wire_id)])
        subscription = Subscription(frame.channel, frame.key)
        self._under_way.pop(subscription, None)
        return subscription

    def probe(self) -> None:
        """Sends a message that the peer does not want and so acknowledges at once (T-46, T-80). Raises OutboxFull."""
        self.probe_id = self._ids.take()
        self._connection.send(Message(PROBE_CHANNEL, "", b"", self.probe_id))

    @property
    def probing(self) -> bool:
        """True if a probe is unacknowledged. A probe is never resent: its id is in use until the connection ends."""
        return self.probe_id is not None

    def answered(self, wire_id: int) -> bool:
        """Takes the ack of this wire id; returns True if the id is that of the probe."""
        if wire_id != self.probe_id:
            return False
        self._drop_probe()
        return True

    def _drop_probe(self) -> None:
        if self.probe_id is not None:
            self._ids.give_back([(self.probe_id, self.probe_id)])
            self.probe_id = None

    def drop(self) -> None:
        """Gives back the ids of the probe and of all control messages in flight."""
        self._drop_probe()
        self._ids.give_back((wire_id, wire_id) for wire_id in self._frames)
        self._frames.clear()
        self._under_way.clear()
