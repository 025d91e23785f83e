"""Limits on connections whose handshake is not over (D-7).

A peer that is not established is a stranger, and strangers share two bounds, one for all of them and one for each
address. The unit counted is a cid, from `add` to `remove`, so that nothing is counted twice. A bound that was met is
news once; it is news again after half of its connections have gone. One that has said nothing for a while makes room
for another of its address: else idle sockets would keep out a peer that is behind the same one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

_SILENT_FOR = 1.0  # seconds: as long a handshake may take, whoever else comes
ALL = ""  # the share that every connection takes part of; the others are addresses


class HandshakeLimiter:
    """Connections with a handshake in progress."""

    def __init__(self, most: int, most_per_address: int) -> None:
        self._most = most
        self._most_per_address = most_per_address
        self._shares: dict[int, tuple[str, ...]] = {}
        self._since: dict[int, float] = {}  # those that have said nothing, the oldest first
        self._in_progress: Counter[str] = Counter()
        self._told: set[str] = set()

    def most(self, share: str) -> int:
        return self._most if share == ALL else self._most_per_address

    def full(self, address: str) -> str | None:
        """ALL or the address, where that has no room for one more."""
        return next((share for share in _shares(address) if self._in_progress[share] >= self.most(share)), None)

    def is_news(self, share: str) -> bool:
        """True if this share, which is full, was not told as full before."""
        is_news = share not in self._told
        self._told.add(share)
        return is_news

    def add(self, cid: int, address: str, now: float = 0.0) -> None:
        self._since[cid] = now
        self._shares[cid] = _shares(address)
        self._in_progress.update(self._shares[cid])

    def heard(self, cid: int) -> None:
        """It has said something: it makes room for nobody."""
        self._since.pop(cid, None)

    def silent(self, address: str, now: float) -> int | None:
        """The oldest of that address, if it is known, that has said nothing for a second."""
        return next((cid for cid in self._silent_until(now - _SILENT_FOR) if self.address(cid) == address != ALL), None)

    def _silent_until(self, time: float) -> Iterator[int]:
        for cid, since in self._since.items():
            if since > time:
                return
            yield cid

    def address(self, cid: int) -> str:
        """The address that it came from, or "" if that is not known."""
        return self._shares.get(cid, (ALL,))[-1]

    def remove(self, cid: int) -> None:
        """Established or gone; one that is not counted is no error."""
        self._since.pop(cid, None)
        for share in self._shares.pop(cid, ()):
            self._in_progress[share] -= 1
            if self._in_progress[share] <= self.most(share) // 2:
                self._told.discard(share)
            if not self._in_progress[share]:
                del self._in_progress[share]


def _shares(address: str) -> tuple[str, ...]:
    """An unknown address has no share of its own."""
    return (ALL, address) if address else (ALL,)
