"""Clock of a store: wall time without its jumps (D-10).

The age of a message is a difference of two times, often from two runs of a process, so it cannot come from a clock that
restarts at each boot. The wall clock can be set, by people and by NTP, which must not change ages. So both are
compared: if the wall clock has moved differently than the boot clock, it was set, and that jump is subtracted. Each
commit stores both clocks and the boot's id. During the same boot, the next run continues by the boot clock, even if the
wall clock was set meanwhile; after another boot only the wall clock is left.

It may be ahead then. So what must not come too early, a message sent with `after`, does not count the time between two
boots at all: it waits for the rest that was left at the last note (P-91).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple
from uuid import UUID, uuid4

STEP = 1.0
"""Seconds. A larger difference between the two clocks, from one reading to the next, counts as a jump."""


_running = partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
"""Boot clock: seconds since boot, including sleep if the system has such a clock."""


def _wall() -> float:
    return time.time()


def boot_id() -> bytes | None:
    """Id of this boot of the machine; None if the system has none, or no clock that includes sleep."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        with suppress(OSError, ValueError):
            return UUID(Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()).bytes
    return None


class ClockNote(NamedTuple):
    """Both clocks at one moment: the boot's id, its clock, the wall clock, and the sum of jumps, all in seconds."""

    boot: bytes
    running: float
    wall: float
    correction: float

    @property
    def time(self) -> float:
        """The time of the store, in seconds since 1970."""
        return self.wall - self.correction


class StoreClock:
    """Seconds since 1970, which never go backwards and never jump with the wall clock.

    - **Jumps** of the wall clock in either direction, between two readings, are ignored. `correction` is their sum.
    - **Restart during the same boot**: time continues from the last note (`go_on`), by the boot clock.
    - **Another boot**, or a system without boot ids: the wall clock is used, less the last `correction`, if the store
      has kept it. Time starts no earlier than `not_before`, which a store sets to the time of its newest message.
      Otherwise, after a wall clock that was years ahead, that message would not grow old for years.
    - **Sleep**: on Linux it counts, by CLOCK_BOOTTIME. On systems whose boot clock stops meanwhile, sleep looks like a
      jump and is ignored, so messages live longer.
    """

    def __init__(
        self,
        correction: float = 0.0,
        *,
        wall: Callable[[], float] = _wall,
        running: Callable[[], float] = _running,
        boot: Callable[[], bytes | None] = boot_id,
    ) -> None:
        self.correction: float = correction
        self._wall = wall
        self._running = running
        self._boot = boot() or uuid4().bytes  # where boots have no ids, each run counts as one
        self._ahead = wall() - running()
        self._last = float("-inf")

    def now(self) -> float:
        """The time, in seconds since 1970."""
        wall = self._wall()
        ahead = wall - self._running()
        if abs(ahead - self._ahead) > STEP:
            self.correction += ahead - self._ahead
        self._ahead = ahead
        self._last = max(self._last, wall - self.correction)
        return self._last

    def wall(self) -> float:
        """The wall clock as it is, in seconds since 1970."""
        return self._wall()

    def note(self) -> ClockNote:
        """Both clocks now, to be stored for `go_on`."""
        self.now()
        running = self._running()
        return ClockNote(self._boot, running, running + self._ahead, self.correction)

    def go_on(self, note: ClockNote) -> bool:
        """Continue from a note, if it is of this boot; returns whether it is. Jumps of the wall clock since then are
        found at the next reading."""
        if note.boot != self._boot or note.running > self._running():
            return False
        self.correction = note.correction
        self._ahead = note.wall - note.running
        self._last = float("-inf")
        return True

    def not_before(self, seconds: float) -> None:
        """Set the time to at least `seconds`."""
        behind = seconds - self.now()
        if behind > 0:
            self.correction -= behind
