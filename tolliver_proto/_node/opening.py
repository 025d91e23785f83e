"""First moments of an instance (T-46).

Something may come before its subscription or its handler does. A program that is back subscribes and registers a moment
after its connections stand. A message that it does not want yet is not acknowledged until that is certain, and one that
it wants is kept for its handler, so that nothing is lost and nothing is overtaken. Both end with the connection that it
came on (T-49).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from .._wire.events import Message, Subscription
from .._wire.limits import Limits
from .subscriptions import matching

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
