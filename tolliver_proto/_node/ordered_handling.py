"""Lanes of one handler: concurrent messages, in order per lane (P-20, P-21).

`Lanes` decides which messages of a handler may begin now; a fixed number may run at once. With a lane function, such as
the key, the messages of a lane run one after another, in order, and a lane that waits delays no other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from .._common.arguments import check_count

T = TypeVar("T", bound=Hashable)


class Lanes(Generic[T]):
    """Items that wait, and items that have begun; at most one of a lane at a time, such as the messages of one key.
    `lane` returns the lane of an item; None: each item has its own.
    """

    __slots__ = ("_at_work", "_lane", "_most", "_ready", "_waiting")

    def __init__(self, most: int, lane: Callable[[T], Hashable] | None = None) -> None:
        """Raises TypeError, and ValueError for fewer than one call at once."""
        check_count("concurrency", most, 1)
        self._most = most
        self._lane = lane
        self._ready: deque[T] = deque()  # heads of their lanes, which begin when a place is free
        self._at_work: set[T] = set()
        self._waiting: dict[Hashable, deque[T]] = {}  # by lane, behind its item that is ready or has begun

    @property
    def has_place(self) -> bool:
        """True if fewer items than allowed have begun."""
        return len(self._at_work) < self._most

    @property
    def may_begin(self) -> bool:
        """True if `begin` returns an item."""
        return bool(self._ready) and self.has_place

    def add(self, item: T) -> None:
        """Adds an item behind the others of its lane."""
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
        """Begins and returns the next item; None if no item may begin."""
        if not self.may_begin:
            return None
        item = self._ready.popleft()
        self._at_work.add(item)
        return item

    def end(self, item: T) -> None:
        """Marks the item as ended, which lets the next of its lane begin; ignores one that had not begun."""
        if item in self._at_work:
            self._at_work.remove(item)
            self._go_on(item)

    def take_out(self, wanted: Callable[[T], bool]) -> list[T]:
        """Removes and returns the wanted items that have not begun."""
        heads = [item for item in self._ready if wanted(item)]
        gone = [item for waiting in self._waiting.values() for item in waiting if wanted(item)]
        for lane, waiting in self._waiting.items():
            self._waiting[lane] = deque(item for item in waiting if not wanted(item))
        self._ready = deque(item for item in self._ready if not wanted(item))
        for item in heads:
            self._go_on(item)
        return [*heads, *gone]

    def _go_on(self, item: T) -> None:
        """Makes the next item of the lane ready, or removes the empty lane."""
        if self._lane is None:
            return
        lane = self._lane(item)
        waiting = self._waiting[lane]
        if waiting:
            self._ready.append(waiting.popleft())
        else:
            del self._waiting[lane]
