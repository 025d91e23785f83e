"""UUIDv7 for an instance that has no other identity (T-03).

A UUID has 48 bits of milliseconds, a 42-bit counter, 32 random bits (RFC 9562, method 1). The time never goes back:
while the clock is behind the last millisecond used, that one is kept, and only the counter grows. Clock and randomness
are read here, as the core has no I/O.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from uuid import UUID

_COUNTER_BITS = 42
_LOW_BITS = 30  # bits of the counter after the variant; the other 12 are before it
_TAIL_BITS = 32


class Uuid7:
    """Creates ascending UUIDs, even if the clock goes back. Thread-safe.

    `clock` returns nanoseconds since 1970, `random_bits(n)` n random bits.
    """

    def __init__(
        self, clock: Callable[[], int] = time.time_ns, random_bits: Callable[[int], int] = secrets.randbits
    ) -> None:
        self._clock = clock
        self._random_bits = random_bits
        self._lock = threading.Lock()
        self._millisecond = -1
        self._counter = 0

    def __call__(self) -> UUID:
        with self._lock:
            millisecond, counter = self._advance(max(self._clock() // 1_000_000, 0))
            tail = self._random_bits(_TAIL_BITS)
        high, low = counter >> _LOW_BITS, counter & ((1 << _LOW_BITS) - 1)
        return UUID(int=millisecond << 80 | 7 << 76 | high << 64 | 2 << 62 | low << _TAIL_BITS | tail)

    def _advance(self, now: int) -> tuple[int, int]:
        self._counter += 1
        if self._counter >> _COUNTER_BITS:
            now = max(now, self._millisecond + 1)
        if now > self._millisecond:
            self._millisecond = now
            # The top bit starts as 0, so that the counter cannot overflow soon.
            self._counter = self._random_bits(_COUNTER_BITS - 1)
        return self._millisecond, self._counter


uuid7 = Uuid7()
"""A new UUIDv7, greater than every earlier one of this process."""
