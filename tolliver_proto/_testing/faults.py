"""Simulated faults: broken connections, split networks, full disks, crashes."""

from __future__ import annotations

from .adapter_loop import H
from .network import Network


class Faults(Network[H]):
    """Simulated network with faults: broken connections, a split network, full disks, crashes. Each `_op_` method is
    one fault, which is begun at a random time.
    """

    def _op_break(self, host: H) -> None:
        """Breaks a connection at any byte."""
        if not host.ends:
            return
        self.counts["breaks"] += 1
        end = self._rng.choice(list(host.ends.values()))
        self._trace(f"{host.name} {end.cid} breaks")
        for side in (end, end.other):
            while side.arriving and self._chance(0.7):
                side.arriving.pop()
            self._lose_later(side)

    def _op_split(self, host: H) -> None:
        """Splits the network in two for a while: no bytes get through, and some connections end."""
        if self.now < self._split_until:
            return
        self.counts["splits"] += 1
        self._split_until = self.now + self._rng.random() * 15
        for one in self._everybody():
            one.island = self._rng.randrange(2)
        islands = " ".join(f"{one.name}:{one.island}" for one in self._everybody())
        self._trace(f"the network is split until {self._split_until:.4f}: {islands}")
        for one in self._everybody():
            for end in list(one.ends.values()):
                if self._apart(one, end.other.host) and self._chance(0.3):
                    self._at(self._rng.random() * 15, self._time_out, end)

    def _op_fill(self, host: H) -> None:
        """Fills a host's disk for a while: only commits without a message succeed (D-13)."""
        self.counts["filled"] += 1
        self._trace(f"{host.name} has a full disk")
        host.store.full = True
        self._at(self._rng.random() * 10, self._free, host)

    def _free(self, host: H) -> None:
        host.store.full = host.store.spent = False

    def _halt(self, host: H) -> None:
        """Crashes a host. A commit that runs at that moment is applied or not, at random."""
        self._trace(f"{host.name} is gone")
        self._writer.ended(host)
        host.node = None
        host.born += 1
        host.jobs.clear()
        host.timer = float("inf")
        host.draining = False
        ends, host.ends = host.ends, {}
        for end in ends.values():
            end.over = True
            self._lose_later(end.other)
