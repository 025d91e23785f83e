"""Inbox of a peer, and messages that come before their handler.

All connections of a peer share its inbox. A delivery stays in the inbox until its handlers have ended, even if its
connection was lost (D-9, T-48). So a copy is recognised as one, and a peer that reconnects again and again gets no more
credit than one that stays. A copy waits without its body, as a count per connection, and shares the answer.

In the first moments of an instance a message may come before its subscription or its handler (T-46): a restarted
program subscribes and registers a moment after its connections stand. A message that is not wanted yet gets no ack
until its fate is certain; a wanted one is kept for its handler, so that nothing is lost or overtaken. Both end with the
connection that the message came on (T-49).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum
from math import inf
from uuid import UUID

from ..._common.arguments import Unchecked, check_count
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
    DOUBTFUL = "doubtful"  # no subscription wants it so far
    WANTED = "wanted"  # not acknowledged, so that its sender resends it
    STUCK = "stuck"  # a matching handler is stuck: neither handed out nor acknowledged (D-9)
    OWN = "own"  # a pattern's own, which it takes when it is left (P-10)


class Opening:
    """Time since the opening of the node, by which it knows whether subscriptions may still come. `given`: the instance
    knew its subscriptions from the start.
    """

    def __init__(self, limits: Limits, given: bool, now: float) -> None:
        self.handlers_due = now + limits.handler_grace
        self.subscriptions_due = now if given else now + limits.subscription_grace
        self._ended: set[Subscription] = set()

    def is_unwanted(self, channel: str, key: str, now: float) -> bool:
        """True if no subscription to this channel and key will come any more."""
        return now >= self.subscriptions_due or any(pair in self._ended for pair in matching(channel, key))

    def unsubscribed(self, subscription: Subscription, now: float) -> None:
        """Records that the application does not want this name any more, before the wait for subscriptions has
        ended."""
        if now < self.subscriptions_due:
            self._ended.add(subscription)


class EarlyMessages:
    """Messages of one connection that came before their handler or subscription, within the credit (D-9)."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._kept: list[Message] = []
        self._kept_bytes = 0
        self._doubtful: dict[int, Names] = {}

    def keep(self, message: Message, messages: int, size: int) -> bool:
        """Keeps the message for its handler. Returns False if there is no room within the credit, of which `messages`
        with `size` bytes are handed out.
        """
        limits, size = self._limits, size + self._kept_bytes + len(message.body)
        if len(self._kept) + messages >= limits.inbox_messages or size > limits.inbox_bytes:
            return False
        self._kept.append(message)
        self._kept_bytes += len(message.body)
        return True

    def take_kept(self) -> list[Message]:
        """Removes and returns all kept messages, in order."""
        kept, self._kept, self._kept_bytes = self._kept, [], 0
        return kept

    def doubt(self, message_id: int, channel: str, key: str) -> None:
        """Remembers id and names of a message that may be unwanted, without its body; without room for that, its sender
        resends it.
        """
        if len(self._doubtful) < self._limits.inbox_messages:
            self._doubtful[message_id] = channel, key

    def take_doubtful(self, is_certain: Callable[[str, str], bool]) -> dict[int, Names]:
        """Removes and returns the names of the remembered messages for which `is_certain(channel, key)` is True, by
        id.
        """
        certain = {names for names in set(self._doubtful.values()) if is_certain(*names)}
        taken = {message_id: names for message_id, names in self._doubtful.items() if names in certain}
        for message_id in taken:
            del self._doubtful[message_id]
        return taken


COPIES = 64
"""Copies of one message that may wait on one connection; the sender resends those beyond."""

MessageKey = tuple[int | None, int]
"""Id and checksum: two reliable messages of a peer are the same if both are equal (T-48)."""


def key_of(message: Message) -> MessageKey:
    return message.message_id, checksum_of(message)


class Inbox:
    """Received messages of one sender that were handed out and are not settled, and the copies that wait for the same
    verdict.
    """

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
        self.count: int = 0  # messages that take credit
        self.size: int = 0  # bytes of their bodies
        self.exhausted: bool = False  # reading has stopped until half of the credit is free
        self.held: dict[Hashable, Delivery] = {}  # by id; unreliable and overdue ones by themselves
        self.aside: int = 0  # number of `held` by id and checksum, as their id was taken
        self.exempt: set[Delivery] = set()  # of `held`, deliveries of stuck handlers, which take no credit
        self.waiting: dict[MessageKey, dict[int, int]] = {}  # copies by message and connection
        self.bounds: dict[Bound, None] = {}  # full bounds of handlers that the peer waits for (P-24)
        self.delivered: int = 0  # messages handed out, in all
        self.letters: int = 0
        self.attempts: dict[MessageKey, int] = {}  # failed deliveries of messages from this peer (T-47)
        self.withheld: dict[
            Subscription, float
        ] = {}  # our entries with withheld messages, and when the last came (T-50)
        self.asked_at: float = -inf  # time of the last request to resend such messages

    def find(self, message: Message) -> Delivery | None:
        """The delivery of the same message that is handed out and not settled, None without one."""
        held = self.held.get(message.message_id)
        if held is not None and held.message == message:
            return held
        return self.held.get(key_of(message)) if self.aside else None

    def has(self, delivery: Delivery) -> bool:
        """True if the delivery is handed out and not settled."""
        return self._key(delivery) is not None

    def add(self, delivery: Delivery) -> None:
        """Adds a delivery whose message is not handed out already, or only as overdue."""
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
        """Marks the delivery as settled; returns False if it was settled before."""
        if not self._unlink(delivery):
            return False
        if self.exempt and delivery in self.exempt:
            self.exempt.remove(delivery)
        else:
            self.count -= 1
            self.size -= len(delivery.message.body)
        return True

    def set_overdue(self, delivery: Delivery) -> None:
        """Lets a copy of this message be handed out too, as its handler takes too long. The delivery keeps its
        credit.
        """
        self._unlink(delivery)
        self.held[delivery] = delivery

    def set_exempt(self, delivery: Delivery, exempt: bool) -> None:
        """Sets whether a delivery takes no credit (`exempt`), as its handler is stuck; ignores one that is not in the
        inbox.
        """
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
        """Returns the key under which a delivery is held here; None if it is not."""
        message = delivery.message
        keys = (message.message_id, delivery, key_of(message)) if self.aside else (message.message_id, delivery)
        return next((key for key in keys if self.held.get(key) is delivery), None)

    # Copies.

    def wait(self, key: MessageKey, cid: int) -> bool:
        """Counts a copy that came on the connection `cid` and waits for the verdict on the first; returns False above
        the limit of such copies.
        """
        counts = self.waiting.setdefault(key, {})
        counts[cid] = counts.get(cid, 0) + 1
        if counts[cid] > COPIES:
            counts[cid] = COPIES
            return False
        return True

    def lose(self, cid: int) -> None:
        """Forgets the waiting copies that came on the lost connection `cid`, as an ack can only be sent on the
        message's connection (T-49).
        """
        for counts in self.waiting.values():
            counts.pop(cid, None)


class Bound:
    """Bound of one handler's unsettled messages, of all senders, with their number and the peers that wait until it has
    room (P-24).
    """

    __slots__ = ("count", "handler", "most", "waiting")

    def __init__(self, handler: Handler, most: Unchecked) -> None:
        """Raises TypeError, and ValueError for a bound below 1."""
        check_count("pending", most, 1)
        self.handler: Handler = handler
        self.most: int = most
        self.count: int = 0
        self.waiting: dict[UUID, Inbox] = {}

    def is_full(self, share: int) -> bool:
        """True if the unsettled messages reach the bound divided by `share`."""
        return self.count * share >= self.most
