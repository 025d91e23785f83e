"""Lanes of one handler, for messages side by side (P-20, P-21).

They say which of its messages may begin now. At most so many are begun at once. With lanes of a kind, such as the key,
those of one lane begin one after the other, in the order in which they came, and a lane that waits holds up no other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Lanes(Generic[T]):
    """Items that wait, and those that are begun. `lane` says in which lane one goes; None: each has its own."""

    __slots__ = ("_at_work", "_lane", "_most", "_ready", "_waiting")

    def __init__(self, most: int, lane: Callable[[T], Hashable] | None = None) -> None:
        """Raises ValueError."""
        if most < 1:
            raise ValueError(f"concurrency={most!r:.100}: give the number of calls at once, at least 1")
        self._most = most
        self._lane = lane
        self._ready: deque[T] = deque()  # they may begin when there is a place
        self._at_work: set[T] = set()
        self._waiting: dict[Hashable, deque[T]] = {}  # by lane, behind the one that is ready or begun

    @property
    def has_place(self) -> bool:
        """True if one more may be begun."""
        return len(self._at_work) < self._most

    def add(self, item: T) -> None:
        """One more has come."""
        if self._lane is None:
            self._ready.append(item)
            return
        lane = self._lane(item)
        if lane in self._waiting:
            self._waiting[lane].append(item)
        else:
            self._waiting[lane] = deque()
            self._ready.append(item)

    def begin(self) -> T | None:
        """The next that is begun now; None where none may be."""
        if not self._ready or not self.has_place:
            return None
        item = self._ready.popleft()
        self._at_work.add(item)
        return item

    def end(self, item: T) -> None:
        """It is over. One that was not begun is passed over."""
        if item in self._at_work:
            self._at_work.remove(item)
            self._go_on(item)

    def take_out(self, wanted: Callable[[T], bool]) -> list[T]:
        """Those of these that were not begun: they are here no more."""
        heads = [item for item in self._ready if wanted(item)]
        gone = [item for waiting in self._waiting.values() for item in waiting if wanted(item)]
        for lane, waiting in self._waiting.items():
            self._waiting[lane] = deque(item for item in waiting if not wanted(item))
        self._ready = deque(item for item in self._ready if not wanted(item))
        for item in heads:
            self._go_on(item)
        return [*heads, *gone]

    def _go_on(self, item: T) -> None:
        """The next of its lane, or the lane is empty."""
        if self._lane is None:
            return
        lane = self._lane(item)
        waiting = self._waiting[lane]
        if waiting:
            self._ready.append(waiting.popleft())
        else:
            del self._waiting[lane]
