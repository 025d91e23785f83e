"""Credit of publishers whose elements have to fit on a disk.

An element that is granted may come, and may be as large as the limit lets it be: so a grant reserves as much of the
stage until the element stands there, or cannot come any more. Staged and expected elements together never exceed the
stage, however publishers behave; and as readers delete, grants grow again.

A stream of the bridge counts a request as a receipt for as many elements before, as long as no more are out than with
its first grant (docs/streams.md). So a stream begins with its whole window, and what is granted later takes the place of
what is on the disk.
"""

from __future__ import annotations

from collections.abc import Mapping


class Credit:
    """The credit of some publishers, by name. Sizes in bytes.

    Always: used + what is reserved <= capacity, if `used` was when it was granted; and out <= window.
    """

    def __init__(self, capacity: int, window: int, costs: Mapping[str, int]) -> None:
        """`costs` is what an element of each may take in the stage. Raises ValueError where that is too much."""
        self._capacity = capacity
        self._costs = dict(costs)
        self.window: int = min(window, capacity // 2 // sum(costs.values()))
        """Of each stream, in elements: half of the stage is enough for all windows, so that they can begin."""
        if not self.window:
            raise ValueError(
                f"maxStagedBytes is {capacity}, and an element of each publisher may take {sum(costs.values())} bytes "
                "of it: lower maxElementBytes, or give maxStagedBytes twice as much at least"
            )
        self.out: dict[str, int] = dict.fromkeys(costs, 0)
        """Elements that may come, or have come and are not on the disk yet."""

    @property
    def reserved(self) -> int:
        return sum(count * self._costs[name] for name, count in self.out.items())

    @property
    def full(self) -> bool:
        """True if nobody could be granted more, however much there is."""
        return all(count == self.window for count in self.out.values())

    def begin(self, name: str, used: int) -> int:
        """The first grant of a stream: its whole window; or 0, then try again."""
        if self.out[name] or self._fits(name, used) < self.window:
            return 0
        return self.grant(name, used)

    def grant(self, name: str, used: int) -> int:
        """The elements that it may send beside, now that the stage has `used` bytes; they are reserved."""
        more = max(0, min(self.window - self.out[name], self._fits(name, used)))
        self.out[name] += more
        return more

    def settle(self, name: str, count: int) -> None:
        """So many are on the disk, or will never come."""
        self.out[name] -= count

    def _fits(self, name: str, used: int) -> int:
        return (self._capacity - used - self.reserved) // self._costs[name]
