"""Messages that several handlers get: each settles a copy of its own.

The node knows one delivery of a message and takes one verdict on it. Where several handlers match, each has a copy,
which it settles once, and all copies share a count. With the last of them the node gets the gravest verdict (T-45).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolliver_proto import Delivery
from tolliver_proto.node import GiveUp, HandleAgain, Verdict


class _Shared:
    """A delivery of the node: handlers that have not settled their copy, and the gravest verdict of the others."""

    __slots__ = ("delivery", "left", "verdict")

    def __init__(self, delivery: Delivery, handlers: int) -> None:
        self.delivery = delivery
        self.left = handlers
        self.verdict: Verdict = True


class _Copy(Delivery):
    """One handler's."""

    __slots__ = ("shared",)

    def __init__(self, shared: _Shared) -> None:
        one = shared.delivery
        super().__init__(one.cid, one.peer_id, one.message, one.attempt)
        self.shared = shared


def copies(deliveries: Sequence[Delivery], handlers: int) -> list[list[Delivery]]:
    """Copies of these for each of so many handlers."""
    shared = [_Shared(one, handlers) for one in deliveries]
    return [[_Copy(one) for one in shared] for _ in range(handlers)]


def originals(deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
    """These, as the node knows them."""
    return [one.shared.delivery if isinstance(one, _Copy) else one for one in deliveries]


def decided(deliveries: Sequence[Delivery], verdict: Verdict) -> Mapping[Verdict, Sequence[Delivery]]:
    """A handler says this of what it has: what is settled with it, by what all its handlers together say."""
    found: dict[Verdict, list[Delivery]] = {}
    for one in deliveries:
        if isinstance(one, _Copy):
            shared = one.shared
            shared.verdict = max(shared.verdict, verdict, key=_gravity)
            shared.left -= 1
            if shared.left == 0:
                found.setdefault(shared.verdict, []).append(shared.delivery)
        else:
            found.setdefault(verdict, []).append(one)
    return found


def _gravity(verdict: Verdict) -> tuple[int, float]:
    """One failure is one (T-45), and where one handler wants the message again later, that is when it is tried again.
    A message that one handler never had has not failed there, and comes again."""
    if isinstance(verdict, GiveUp):
        return 4, 0.0
    if isinstance(verdict, HandleAgain):
        return 3, verdict.seconds
    return (0 if verdict else 1 if verdict is None else 2), 0.0
