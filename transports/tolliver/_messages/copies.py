"""Copies of a delivery for several matching handlers.

The node knows one delivery of a message and takes one verdict on it. If several handlers match, each gets a copy and
settles that once; all copies share a counter. When the last copy is settled, the node gets the gravest verdict of all
(T-45).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tolliver_proto import Delivery
from tolliver_proto.node import Answer, GiveUp, HandleAgain, Verdict


class _Shared:
    """State that the copies of one delivery for several handlers share: how many are not settled yet, and the gravest
    verdict so far.
    """

    __slots__ = ("delivery", "left", "verdict")

    def __init__(self, delivery: Delivery, handlers: int) -> None:
        self.delivery = delivery
        self.left = handlers
        self.verdict: Verdict = True


class _Copy(Delivery):
    """The copy of a delivery for one handler."""

    __slots__ = ("shared",)

    def __init__(self, shared: _Shared) -> None:
        one = shared.delivery
        super().__init__(one.cid, one.peer_id, one.message, one.attempt)
        self.shared = shared


def copies(deliveries: Sequence[Delivery], handlers: int) -> list[list[Delivery]]:
    """For each of `handlers` handlers, a list of copies of these deliveries."""
    shared = [_Shared(one, handlers) for one in deliveries]
    return [[_Copy(one) for one in shared] for _ in range(handlers)]


def is_copy(delivery: Delivery) -> bool:
    """True if other handlers have copies of the delivery, too."""
    return isinstance(delivery, _Copy)


def originals(deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
    """The node's own delivery of each copy; a delivery that is no copy is returned as it is."""
    return [one.shared.delivery if isinstance(one, _Copy) else one for one in deliveries]


def decided(deliveries: Sequence[Delivery], verdict: Verdict) -> Mapping[Verdict, Sequence[Delivery]]:
    """Settle deliveries with one handler's verdict; returns those that are now decided, grouped by their final verdict.

    A copy is decided once the last of its siblings is settled; a delivery that is no copy, at once.
    """
    found: dict[Verdict, list[Delivery]] = {}
    for one in deliveries:
        if isinstance(one, _Copy):
            shared = one.shared
            shared.verdict = max(shared.verdict, verdict, key=_gravity)
            shared.delivery.cause = shared.delivery.cause or one.cause
            shared.left -= 1
            if shared.left == 0:
                found.setdefault(shared.verdict, []).append(shared.delivery)
        else:
            found.setdefault(verdict, []).append(one)
    return found


def _gravity(verdict: Verdict) -> tuple[int, float]:
    """Sort key of verdicts, by which the gravest is the largest: its rank, then the delay in seconds.

    One failure makes a failure (T-45); a failure with a delay stands above one without, and the longest delay counts. A
    message released before its handler began has no failure, and is redelivered. An answer counts among successes.
    """
    if isinstance(verdict, GiveUp):
        return 4, 0.0
    if isinstance(verdict, HandleAgain):
        return 3, verdict.seconds
    if isinstance(verdict, Answer):
        return 0, 1.0
    return (0 if verdict else 1 if verdict is None else 2), 0.0
