"""Flow control of publishers whose elements must fit on a disk.

A granted element may arrive, and may have the maximum size. So a grant reserves that much of the stage until the
element is written, or cannot arrive any more. Staged and expected elements together never exceed the stage, whatever
publishers do; when readers delete, grants grow again.

The bridge counts a request as the confirmation of as many earlier elements, if not more are in flight than with the
first grant (docs/streams.md). So a stream's first grant is its whole window, and later grants only replace elements
that are on disk.
"""

from __future__ import annotations

from collections.abc import Mapping


class Credit:
    """Count of the elements that each publisher, by the name of its stream, may send without filling the stage. A
    granted element reserves the bytes that it may take, until `settle`. Sizes are in bytes.

    Invariants: used + reserved <= capacity, with `used` as of the last grant; out <= window.
    """

    def __init__(self, capacity: int, window: int, costs: Mapping[str, int]) -> None:
        """`costs` is the most that an element of each publisher takes in the stage. Raises ValueError if the stage is
        too small."""
        self._capacity = capacity
        self._costs = dict(costs)
        self.window: int = min(window, capacity // 2 // sum(costs.values()))
        """Window of each stream, in elements. All windows together take at most half of the stage, so that all can
        begin."""
        if not self.window:
            raise ValueError(
                f"maxStagedBytes is {capacity}, and an element of each publisher may take {sum(costs.values())} bytes "
                "of it: lower maxElementBytes, or give maxStagedBytes twice as much at least"
            )
        self.out: dict[str, int] = dict.fromkeys(costs, 0)
        """Elements of each publisher that may arrive, or have arrived but are not on disk yet."""

    @property
    def reserved(self) -> int:
        return sum(count * self._costs[name] for name, count in self.out.items())

    @property
    def full(self) -> bool:
        """True if no publisher can be granted more, although elements are staged and could be deleted."""
        return all(count == self.window for count in self.out.values())

    def begin(self, name: str, used: int) -> int:
        """First grant of the publisher `name`, with `used` bytes in the stage: its whole window in elements, which are
        reserved, or 0 if that does not fit now.
        """
        if self.out[name] or self._fits(name, used) < self.window:
            return 0
        return self.grant(name, used)

    def grant(self, name: str, used: int) -> int:
        """Grant the publisher `name` as many elements as its window and the stage, which has `used` bytes in it, have
        room for; reserve them, and return how many they are.
        """
        more = max(0, min(self.window - self.out[name], self._fits(name, used)))
        self.out[name] += more
        return more

    def settle(self, name: str, count: int) -> None:
        """Release the reservation of `count` elements of the publisher `name`, which are on disk or will not arrive."""
        self.out[name] -= count

    def _fits(self, name: str, used: int) -> int:
        return (self._capacity - used - self.reserved) // self._costs[name]
