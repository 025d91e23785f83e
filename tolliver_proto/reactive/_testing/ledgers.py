"""Ledgers: expected contents of simulated streams, kept apart from the hubs.

The name of a publication tells its number of elements, their sizes, and its end. So the subscribing side knows each
element that has to come, and the publishing side counts the demand. The answers of the hubs are compared with both.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from ..._testing.invariants import check
from .._events import Elements, OnComplete, OnError
from .._hub import ELEMENT_COST
from .._varint import MAX_LONG

Key = tuple[int, int]
"""A connection's cid, and the subscriber id of a stream on it."""

FAILED, REFUSED = "failed on purpose", "refused on purpose"


class Plan(NamedTuple):
    """Plan of a publication: number and sizes of its elements, and its end. The publication's name encodes all of
    it."""

    serial: int  # number of the subscription, so that no two have the same elements
    ending: str  # "complete", "fail", "refuse" or "endless"
    size: int  # bytes of each element, 0 if sizes differ
    length: int  # elements before the end

    @property
    def name(self) -> str:
        return "/".join(map(str, self))

    @classmethod
    def of(cls, name: str) -> Plan:
        serial, ending, size, length = name.split("/")
        return cls(int(serial), ending, int(size), int(length))

    def element(self, index: int) -> bytes:
        text = b"%d:%d" % (self.serial, index)
        if self.size:
            return text[-self.size :].rjust(self.size, b".")
        return b"" if index % 11 == 5 else text + b"." * (index * 7 % 40)

    def left(self, index: int) -> int:
        """Returns the number of elements of the plan from number `index`, counted from 0, to its end."""
        return MAX_LONG if self.ending == "endless" else self.length - index


def cost(elements: list[bytes]) -> int:
    """Returns the cost of elements as a hub counts them, in bytes."""
    return sum(map(len, elements)) + ELEMENT_COST * len(elements)


class OutboundStream:
    """Expected state of a stream that a host publishes: its plan, and the elements that were requested and sent."""

    def __init__(self, key: Key, plan: Plan, demand: int) -> None:
        self.key = key
        self.plan = plan
        self.granted = demand
        self.sent = 0
        self.accepted = False
        self.busy = False  # the source has no element now, and goes on later

    def grant(self, count: int) -> None:
        self.granted = min(self.granted + count, MAX_LONG)

    def next(self, count: int) -> list[bytes]:
        """Returns the next `count` elements of the plan, and counts them as sent."""
        check(
            self.granted == MAX_LONG or self.sent + count <= self.granted,
            f"{self.key} is pulled for {count} more than the {self.sent} of {self.granted} (rule 1.1)",
        )
        elements = [self.plan.element(self.sent + at) for at in range(count)]
        self.sent += count
        return elements


class InboundStream:
    """Expected state of a stream that a host subscribes to: its plan, and the elements that were requested and have
    come.
    """

    def __init__(self, key: Key, plan: Plan, window: int, demand: int) -> None:
        self.key = key
        self.plan = plan
        self.window = window  # the largest outstanding demand; 0: no limit
        self.granted = demand
        self.received = 0
        self.done = 0  # received elements that the application has taken
        self.enough: int | None = None  # elements after which the stream is cancelled
        self.answered = False
        self.over = False
        self.misused = False  # a request below 1 was made
        self.busy = False
        self.unread: deque[bytes] = deque()

    def grant(self, count: int) -> int:
        self.granted = min(self.granted + count, MAX_LONG)
        return count

    def on_subscribed(self, size: int) -> None:
        check(not self.answered, f"{self.key} is answered twice (rule 1.9)")
        check(size in (0, self.plan.size), f"{self.key} has elements of {size} bytes, not {self.plan.size}")
        self.answered = True

    def on_elements(self, event: Elements) -> None:
        check(self.answered, f"{self.key} has elements before its answer (rule 1.9)")
        check(event.elements, f"{self.key} has elements, and none")
        for element in event.elements:
            check(
                element == self.plan.element(self.received), f"{self.key}: {element!r} is not element {self.received}"
            )
            self.received += 1
        check(self.granted == MAX_LONG or self.received <= self.granted, f"{self.key} has more than was granted (1.1)")
        self.unread.extend(event.elements)

    def on_end(self, event: OnComplete | OnError, *, excused: bool = False) -> None:
        """Checks the end of the stream. `excused`: its publisher sends more than was requested (R-18). An end that the
        plan does not have is allowed then.
        """
        check(not self.over, f"{self.key} ends twice (rule 1.7)")
        self.over = True
        if isinstance(event, OnError) and event.cause is not None:
            return  # the connection has ended
        check(self.answered or self.misused, f"{self.key} ends before its answer (rule 1.9)")
        if isinstance(event, OnComplete):
            known = self.plan.ending == "complete" and self.received == self.plan.length
        elif event.message == FAILED:
            known = self.plan.ending == "fail" and self.received == self.plan.length
        elif event.message == REFUSED:
            known = self.plan.ending == "refuse"
        else:
            refused = "the limit" in event.message and not self.received
            known = refused or ("3.9" in event.message and self.misused) or ("1.1" in event.message and excused)
        check(known, f"{self.key} ends after {self.received} elements of {self.plan} with {event}")
