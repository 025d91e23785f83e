"""Inbox of a peer, and what comes before its handler does.

All connections of a peer share its inbox. A message has its place there from when it is handed out until its handlers
have ended, whether or not the connection that it came on still stands (D-9, T-48). So a copy of it is known for one,
and a peer that comes back again and again has no more credit than one that stays. A copy waits without its body, as a
number for each connection, and shares the answer.

In the first moments of an instance a message may come before its subscription or its handler does (T-46): a program
that is back subscribes and registers a moment after its connections stand. A message that it does not want yet is not
acknowledged until that is certain, and one that it wants is kept for its handler, so that nothing is lost and nothing
is overtaken. Both end with the connection that the message came on (T-49).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum
from math import inf
from uuid import UUID

from ..._wire.events import Message, Subscription
from ..._wire.limits import Limits
from ..actions import Delivery, Handler
from ..message_set import checksum_of
from ..subscriptions import matching

Names = tuple[str, str]
"""Channel and key."""


class Fate(Enum):
    """Fate of a message that no handler gets."""

    UNWANTED = "unwanted"  # acknowledged and dropped
    DOUBTFUL = "doubtful"  # nobody wants it so far
    WANTED = "wanted"  # and not acknowledged, so that it comes again
    STUCK = "stuck"  # one of its handlers is: neither handed out nor acknowledged (D-9)
    OWN = "own"  # a pattern's own, which it takes when it is left (P-10)


class Opening:
    """Time since the opening. `given`: the instance was told then what it is subscribed to."""

    def __init__(self, limits: Limits, given: bool, now: float) -> None:
        self.handlers_due = now + limits.handler_grace
        self.subscriptions_due = now if given else now + limits.subscription_grace
        self._ended: set[Subscription] = set()

    def is_unwanted(self, channel: str, key: str, now: float) -> bool:
        """True if nobody will want what nobody wants now."""
        return now >= self.subscriptions_due or any(pair in self._ended for pair in matching(channel, key))

    def unsubscribed(self, subscription: Subscription, now: float) -> None:
        """For what it names that is certain."""
        if now < self.subscriptions_due:
            self._ended.add(subscription)


class EarlyMessages:
    """Messages of one connection that came too early, within the bounds of its credit (D-9)."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._kept: list[Message] = []
        self._kept_bytes = 0
        self._doubtful: dict[int, Names] = {}

    def keep(self, message: Message, messages: int, size: int) -> bool:
        """Keep it for its handler, beside so many that are handed out; False where there is no room."""
        limits, size = self._limits, size + self._kept_bytes + len(message.body)
        if len(self._kept) + messages >= limits.inbox_messages or size > limits.inbox_bytes:
            return False
        self._kept.append(message)
        self._kept_bytes += len(message.body)
        return True

    def take_kept(self) -> list[Message]:
        """All of them, in order."""
        kept, self._kept, self._kept_bytes = self._kept, [], 0
        return kept

    def doubt(self, message_id: int, channel: str, key: str) -> None:
        """Remember it by its names. One that there is no room for comes again."""
        if len(self._doubtful) < self._limits.inbox_messages:
            self._doubtful[message_id] = channel, key

    def take_doubtful(self, is_certain: Callable[[str, str], bool]) -> dict[int, Names]:
        """By their ids, those of whose names that is certain now."""
        certain = {names for names in set(self._doubtful.values()) if is_certain(*names)}
        taken = {message_id: names for message_id, names in self._doubtful.items() if names in certain}
        for message_id in taken:
            del self._doubtful[message_id]
        return taken


COPIES = 64
"""Copies of one message that wait on one connection: those beyond are let go, and come again."""

MessageKey = tuple[int | None, int]
"""Id and checksum: what makes two reliable messages of a peer the same (T-48)."""


def key_of(message: Message) -> MessageKey:
    return message.message_id, checksum_of(message)


class Inbox:
    """Deliveries that are handed out and not settled, and the copies that wait for them."""

    __slots__ = (
        "aside",
        "asked_at",
        "attempts",
        "bounds",
        "count",
        "delivered",
        "exempt",
        "exhausted",
        "held",
        "letters",
        "size",
        "waiting",
        "withheld",
    )

    def __init__(self) -> None:
        self.count = 0  # messages that take credit
        self.size = 0  # bytes of their bodies
        self.exhausted = False  # nothing more is read until half of it is back
        self.held: dict[Hashable, Delivery] = {}  # by id; unreliable and overdue ones by themselves
        self.aside = 0  # of these, other messages of an id that one has: by id and checksum
        self.exempt: set[Delivery] = set()  # of these, what stuck handlers have: it takes no credit
        self.waiting: dict[MessageKey, dict[int, int]] = {}  # copies by message and connection
        self.bounds: dict[Bound, None] = {}  # of handlers, for which its peer waits (P-24)
        self.delivered = 0  # messages that were handed out, and those that became dead letters, in all
        self.letters = 0
        self.attempts: dict[MessageKey, int] = {}  # failed deliveries of messages from this peer (T-47)
        self.withheld: dict[Subscription, float] = {}  # entries of ours that it sent for in vain, and when last (T-50)
        self.asked_at = -inf  # when it was asked for such messages last

    def find(self, message: Message) -> Delivery | None:
        """Delivery of the same message that handlers have, if there is one."""
        held = self.held.get(message.message_id)
        if held is not None and held.message == message:
            return held
        return self.held.get(key_of(message)) if self.aside else None

    def has(self, delivery: Delivery) -> bool:
        """True if it is handed out and not settled."""
        return self._key(delivery) is not None

    def add(self, delivery: Delivery) -> None:
        """It is handed out: of its message none is held, or an overdue one."""
        message = delivery.message
        key: Hashable = message.message_id
        if key is None:
            key = delivery
        elif key in self.held:
            key = key_of(message)
            self.aside += 1
        self.held[key] = delivery
        self.delivered += 1
        self.count += 1
        self.size += len(message.body)

    def remove(self, delivery: Delivery) -> bool:
        """Its handlers have ended; False if that is known."""
        if not self._unlink(delivery):
            return False
        if self.exempt and delivery in self.exempt:
            self.exempt.remove(delivery)
        else:
            self.count -= 1
            self.size -= len(delivery.message.body)
        return True

    def set_overdue(self, delivery: Delivery) -> None:
        """A copy of it may be handed out. It keeps its credit."""
        self._unlink(delivery)
        self.held[delivery] = delivery

    def set_exempt(self, delivery: Delivery, exempt: bool) -> None:
        """Deliveries in the hands of a stuck handler take no credit. Nothing changes for one that is not held."""
        if exempt is (delivery in self.exempt) or self._key(delivery) is None:
            return
        (self.exempt.add if exempt else self.exempt.remove)(delivery)
        sign = -1 if exempt else 1
        self.count += sign
        self.size += sign * len(delivery.message.body)

    def _unlink(self, delivery: Delivery) -> bool:
        held, message_id = self.held, delivery.message.message_id
        usual: Hashable = delivery if message_id is None else message_id
        if held.get(usual) is delivery:
            del held[usual]
            return True
        key = self._key(delivery)
        if key is None:
            return False
        del held[key]
        self.aside -= isinstance(key, tuple)
        return True

    def _key(self, delivery: Delivery) -> Hashable | None:
        """Place of a delivery that is held."""
        message = delivery.message
        keys = (message.message_id, delivery, key_of(message)) if self.aside else (message.message_id, delivery)
        return next((key for key in keys if self.held.get(key) is delivery), None)

    # Copies.

    def wait(self, key: MessageKey, cid: int) -> bool:
        """A copy came on this connection; False where as many wait already as may."""
        counts = self.waiting.setdefault(key, {})
        counts[cid] = counts.get(cid, 0) + 1
        if counts[cid] > COPIES:
            counts[cid] = COPIES
            return False
        return True

    def lose(self, cid: int) -> None:
        """The connection is over: an ack belongs to the one that its message came on (T-49)."""
        for counts in self.waiting.values():
            counts.pop(cid, None)


class Bound:
    """Bound of one handler: messages that it may have unsettled, of all senders, and the peers that wait (P-24)."""

    __slots__ = ("count", "handler", "most", "waiting")

    def __init__(self, handler: Handler, most: int) -> None:
        """Raises ValueError."""
        if most < 1:
            raise ValueError(f"pending={most!r:.100}: give the number of messages, at least 1, or None")
        self.handler = handler
        self.most = most
        self.count = 0
        self.waiting: dict[UUID, Inbox] = {}

    def is_full(self, share: int) -> bool:
        """True if it has as many as it may, or that share of them."""
        return self.count * share >= self.most
