"""Subscription index: (channel, key) to matching targets, with wildcards.

A subscription is a dictionary key. A message can match only four of them: its own names and each replaced by the
wildcard "" (T-24). So routing costs four look-ups and the recipients, for any number of subscriptions (I6). Matches of
names in use are remembered until a subscription changes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic, TypeVar

from .._common.reserved import is_envelope
from .._wire.events import Subscription
from .store import AddPeerSubscription, Operation, RemovePeerSubscription, ReplacePeerSubscriptions

T = TypeVar("T", bound=Hashable)
R = TypeVar("R")

_REMEMBERED = 4096


class Routes(Generic[T, R]):
    """Targets, such as peers or handlers, by subscription. `make` turns the matching targets, each once (T-25), into
    the result of `match`."""

    __slots__ = ("_make", "_matches", "_targets")

    def __init__(self, make: Callable[[tuple[T, ...]], R]) -> None:
        self._make = make
        self._targets: dict[Subscription, dict[T, None]] = {}
        self._matches: dict[tuple[str, str], R] = {}

    def __len__(self) -> int:
        return len(self._targets)

    def __iter__(self) -> Iterator[tuple[Subscription, Iterable[T]]]:
        """Each subscription with its targets."""
        return iter(self._targets.items())

    def add(self, subscription: Subscription, target: T) -> None:
        self._targets.setdefault(subscription, {})[target] = None
        self._matches.clear()

    def discard(self, subscription: Subscription, target: T) -> None:
        """Removes exactly this entry; one that is missing is no error (T-26)."""
        targets = self._targets.get(subscription)
        if targets is None or target not in targets:
            return
        del targets[target]
        if not targets:
            del self._targets[subscription]
        self._matches.clear()

    def has(self, subscription: Subscription) -> bool:
        """True if a target has a subscription to exactly this channel and key."""
        return subscription in self._targets

    def of(self, subscription: Subscription) -> Iterable[T]:
        """The targets that have a subscription to exactly this channel and key."""
        return self._targets.get(subscription, ())

    def match(self, channel: str, key: str) -> R:
        found = self._matches.get((channel, key))
        return found if found is not None else self._look_up(channel, key)

    def match_all(self, items: Iterable[tuple[str, str, object]]) -> list[R]:
        """Matches each item, of which channel and key come first, like `match`."""
        matches = self._matches
        return [matches.get((channel, key)) or self.match(channel, key) for channel, key, _ in items]

    def _look_up(self, channel: str, key: str) -> R:
        targets: dict[T, None] = {}
        for subscription in matching(channel, key):
            targets |= self._targets.get(subscription, {})
        if len(self._matches) >= _REMEMBERED:
            self._matches.clear()
        self._matches[channel, key] = found = self._make(tuple(targets))
        return found


def applied(subscriptions: frozenset[Subscription], operations: Iterable[Operation]) -> frozenset[Subscription]:
    """A peer's list after these operations, which must all be about that peer."""
    for operation in operations:
        if isinstance(operation, ReplacePeerSubscriptions):
            subscriptions = frozenset(operation.subscriptions)
        elif isinstance(operation, AddPeerSubscription):
            subscriptions |= {operation.subscription}
        else:
            assert isinstance(operation, RemovePeerSubscription)
            subscriptions -= {operation.subscription}
    return subscriptions


def removed_by(operations: Iterable[Operation]) -> frozenset[Subscription]:
    """Subscriptions that these operations end for good (T-61)."""
    return frozenset(one.subscription for one in operations if isinstance(one, RemovePeerSubscription))


def overlap(one: Subscription, other: Subscription) -> bool:
    """True if one message can match both subscriptions."""
    if one.channel != other.channel and any(map(is_envelope, (one.channel, other.channel))):
        return False  # as `matching` has it
    return all(not a or not b or a == b for a, b in zip(one, other, strict=True))


def matching(channel: str, key: str) -> tuple[Subscription, ...]:
    """The subscriptions that a message of these names matches, exact first (T-24). A request or a reply matches no
    wildcard of channels: a subscriber of everything does not want envelopes (P-11).
    """
    if is_envelope(channel):
        return Subscription(channel, key), Subscription(channel, "")
    return Subscription(channel, key), Subscription(channel, ""), Subscription("", key), Subscription("", "")
