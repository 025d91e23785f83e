"""Dead letters of an instance, as numbers and sizes (T-47).

The letters themselves are in the store. Enough is known here to say which must go when there are too many.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence


class DeadLetters:
    """Number and size of each letter, the oldest first."""

    __slots__ = ("_bytes", "_next_number", "_sizes")

    def __init__(self, sizes: Sequence[tuple[int, int]], next_number: int) -> None:
        self._sizes = dict(sizes)
        self._bytes = sum(self._sizes.values())
        self._next_number = next_number

    def __len__(self) -> int:
        return len(self._sizes)

    def add(self, size: int) -> int:
        """One more; returns its number."""
        number = self._next_number
        self._next_number += 1
        self._sizes[number] = size
        self._bytes += size
        return number

    def beyond(self, count: int, size: int) -> list[int]:
        """The oldest that must go, so that so many letters and bytes are left. The newest one stays in any case."""
        letters, total = len(self._sizes), self._bytes
        gone: list[int] = []
        for number, its_size in self._sizes.items():
            if letters <= 1 or (letters <= count and total <= size):
                break
            gone.append(number)
            letters -= 1
            total -= its_size
        return gone

    def take_out(self, numbers: Iterable[int]) -> dict[int, int]:
        """Those of these that were there, with their sizes."""
        gone = {number: self._sizes.pop(number) for number in dict.fromkeys(numbers) if number in self._sizes}
        self._bytes -= sum(gone.values())
        return gone

    def take_back(self, added: Collection[int], gone: Mapping[int, int]) -> None:
        """A commit that was to add these, and to take those out, has failed."""
        self.take_out(added)
        still_there = {number: size for number, size in gone.items() if number not in added}
        self._sizes = dict(sorted({**self._sizes, **still_there}.items()))
        self._bytes += sum(still_there.values())
