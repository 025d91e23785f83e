"""Clock of a store: wall time without its steps (D-10).

An age is the difference of two times, often of two lives of a process, so it cannot come from a clock that begins anew
with each boot. But a wall clock is set, by people and by NTP, and a message is no older for that. So two clocks are
looked at together: where the wall clock has gone another way than the clock that nobody sets, it was set, and that step
is left out. Each commit notes both clocks and the boot. While that boot lasts, the next life goes on by the clock that
nobody sets, whatever was set meanwhile; after it the wall clock alone is left.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

STEP = 1.0
"""Seconds by which the two clocks differ between two looks where one was set; a smaller difference is followed."""


_running = partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
"""Seconds since some time, asleep or not, where the system has such a clock."""


def _wall() -> float:
    return time.time()


def _boot() -> bytes | None:
    """Name of this boot, None where the system gives it none, or has no clock that runs through all of it."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        with suppress(OSError, ValueError):
            return UUID(Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()).bytes
    return None


class ClockNote(NamedTuple):
    """The clocks at one moment: which boot, seconds of its clock and of the wall clock, and what that is ahead."""

    boot: bytes
    running: float
    wall: float
    correction: float


class StoreClock:
    """Seconds since 1970, which never run backwards and never jump with the wall clock.

    - **A step** of the wall clock, forward or back, that happens between two looks counts for nothing. `correction` is
      the sum of all of them: what the wall clock is ahead.
    - **A restart within a boot**: the time goes on from what was noted last (`go_on`), by the clock that nobody sets.
    - **A boot**, or a system that gives boots no name: nothing was seen in between, so the wall clock is believed, less
      the `correction` of the last life where the store has kept that. Time then begins no earlier than `not_before`,
      for which a store gives the time of its newest message: else, after a wall clock that was years ahead, that
      message would be young for years.
    - **Suspend**: on Linux the time asleep counts, as CLOCK_BOOTTIME goes on. Elsewhere the clock that nobody sets may
      stand still meanwhile; the time asleep then looks like a step, counts for nothing, and messages live longer.
    """

    def __init__(
        self,
        correction: float = 0.0,
        *,
        wall: Callable[[], float] = _wall,
        running: Callable[[], float] = _running,
        boot: Callable[[], bytes | None] = _boot,
    ) -> None:
        self.correction: float = correction
        self._wall = wall
        self._running = running
        self._boot = boot()
        self._ahead = wall() - running()
        self._last = float("-inf")

    def now(self) -> float:
        """The time."""
        wall = self._wall()
        ahead = wall - self._running()
        if abs(ahead - self._ahead) > STEP:
            self.correction += ahead - self._ahead
        self._ahead = ahead
        self._last = max(self._last, wall - self.correction)
        return self._last

    def note(self) -> ClockNote | None:
        """This moment, for `go_on`; None where a boot has no name."""
        if self._boot is None:
            return None
        self.now()
        running = self._running()
        return ClockNote(self._boot, running, running + self._ahead, self.correction)

    def go_on(self, note: ClockNote) -> None:
        """From that moment, if it was in this boot: the next look sees whether the wall clock was set since."""
        if note.boot == self._boot and note.running <= self._running():
            self.correction = note.correction
            self._ahead = note.wall - note.running
            self._last = float("-inf")

    def not_before(self, seconds: float) -> None:
        """Time is at least this, and goes on from there."""
        behind = seconds - self.now()
        if behind > 0:
            self.correction -= behind
