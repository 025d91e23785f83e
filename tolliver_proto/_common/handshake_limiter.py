"""Limits on connections with a handshake in progress (D-7).

A peer that is not established is a stranger. Strangers share two bounds, one for all of them and one for each address.
A connection counts from `add` to `remove`, by its cid, so that it never counts twice. A full share is told once, and
again only after half of its connections have gone. A connection that has sent nothing for a second makes room for
another one of its address: else idle sockets could keep out a peer behind the same address. Where all places are taken,
any connection that came more than a second ago may have to: else strangers of many addresses, who send a byte now and
then, could keep out everybody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

_KEPT_FOR = 1.0  # seconds that a connection keeps its place, however many others come
ALL = ""  # the share that every connection counts in; all other shares are addresses


class HandshakeLimiter:
    """Connections with a handshake in progress, counted in all and for each address."""

    def __init__(self, most: int, most_per_address: int) -> None:
        self._most = most
        self._most_per_address = most_per_address
        self._shares: dict[int, tuple[str, ...]] = {}
        self._since: dict[int, float] = {}  # when each connection came, the oldest first
        self._heard: set[int] = set()  # those that have sent something
        self._in_progress: Counter[str] = Counter()
        self._told: set[str] = set()

    def most(self, share: str) -> int:
        return self._most if share == ALL else self._most_per_address

    def full(self, address: str) -> str | None:
        """Returns the limit without room for one more connection: ALL or the address; None if both have room."""
        return next((share for share in _shares(address) if self._in_progress[share] >= self.most(share)), None)

    def is_news(self, share: str) -> bool:
        """True if it was not told before that this limit, ALL or an address, is reached; marks it as told."""
        is_news = share not in self._told
        self._told.add(share)
        return is_news

    def add(self, cid: int, address: str, now: float = 0.0) -> None:
        self._since[cid] = now
        self._shares[cid] = _shares(address)
        self._in_progress.update(self._shares[cid])

    def heard(self, cid: int) -> None:
        """Notes that bytes have come on the connection `cid`: no newer one takes its place from now on."""
        if cid in self._since:
            self._heard.add(cid)

    def since(self, cid: int) -> float | None:
        """Returns when the connection `cid` came; None if it is not counted, or no longer."""
        return self._since.get(cid)

    def silent(self, address: str, now: float) -> int | None:
        """Returns the cid of the address's oldest connection that has sent nothing for a second, or None."""
        old = (cid for cid in self.old(now) if cid not in self._heard)
        return next((cid for cid in old if self.address(cid) == address != ALL), None)

    def old(self, now: float) -> Iterator[int]:
        """Yields the cids of connections that came more than a second ago, the oldest first."""
        for cid, since in self._since.items():
            if since > now - _KEPT_FOR:
                return
            yield cid

    def address(self, cid: int) -> str:
        """Returns the address of the connection `cid`, or "" if it is not known."""
        return self._shares.get(cid, (ALL,))[-1]

    def remove(self, cid: int) -> None:
        """Counts the connection no longer: it is established or gone. Does nothing for an unknown cid."""
        self._since.pop(cid, None)
        self._heard.discard(cid)
        for share in self._shares.pop(cid, ()):
            self._in_progress[share] -= 1
            if self._in_progress[share] <= self.most(share) // 2:
                self._told.discard(share)
            if not self._in_progress[share]:
                del self._in_progress[share]


def _shares(address: str) -> tuple[str, ...]:
    """Returns the limits that a connection of the address counts in, ALL and the address; an unknown address has no
    limit of its own.
    """
    return (ALL, address) if address else (ALL,)
