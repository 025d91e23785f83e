"""Base of the simulated worlds: virtual clock, heap of events, trace.

Each event is an entry of one heap, and all choices come from one random generator, so that one seed is one trace. The
subclasses have the subject: nodes of the messaging protocol, or hubs of the other.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any
from zlib import crc32

from .invariants import SimFailure, check
from .randomness import Dice

TAIL = 60  # lines of the trace in a failure's text
_MOST_STEPS = 200_000
_QUIET = 1.0  # seconds without an event, after which `done` is called


@dataclass(frozen=True, slots=True)
class Report:
    """Result of a simulation. `trace_hash` is the hash of all lines of its trace: the same for the same seed."""

    seed: int
    trace_hash: int
    steps: int
    virtual_seconds: float
    counts: dict[str, int]
    handled: int = 0
    """Checksum of the set of messages that each instance handled, whatever the order of events."""


class VirtualClock:
    """Base of the simulations. It owns the virtual time in seconds, the functions that are due at a time, the random
    generator, and the trace: a line for each thing that happens.
    """

    def __init__(self, seed: int, dice: Dice, trace: bool) -> None:
        self.seed = seed
        self.now: float = 0.0
        self.lines: deque[str] = deque(maxlen=None if trace else TAIL)
        self.counts: Counter[str] = Counter()
        self._rng = dice
        self._hash = 0
        self._handled = 0
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = 0
        self._steps = 0

    def _at(self, delay: float, function: Callable[..., None], *arguments: Any) -> None:
        self._order += 1
        heappush(self._events, (self.now + delay, self._order, function, arguments))

    def _trace(self, line: str) -> None:
        line = f"{self.now:9.4f} {line}"
        self._hash = crc32(line.encode(), self._hash)
        self.lines.append(line)

    def _chance(self, probability: float) -> bool:
        return probability > 0 and self._rng.random() < probability

    def _run_until(self, end: float, done: Callable[[], bool] = lambda: False) -> None:
        while self._events and self._events[0][0] <= end:
            self.now, _, function, arguments = heappop(self._events)
            self._steps += 1
            check(self._steps < _MOST_STEPS, "the simulation does not end: somebody is busy for ever")
            function(*arguments)
            if (self._steps % 32 == 0 or self._is_quiet()) and done():
                return
        self.now = max(self.now, end) if not done() else self.now

    def _is_quiet(self) -> bool:
        return bool(self._events) and self._events[0][0] - self.now > _QUIET

    def _failure(self, error: Exception) -> SimFailure:
        """Returns the failure for an error: seed, time, and the last lines of the trace."""
        tail = "\n".join(list(self.lines)[-TAIL:])
        return SimFailure(f"seed {self.seed} at {self.now:.4f} s: {type(error).__name__}: {error}\n{tail}")

    def _told(self) -> Report:
        return Report(self.seed, self._hash, self._steps, self.now, dict(self.counts), self._handled)
