"""Text for numbers: counts, sizes, times, and charts of one line."""

from __future__ import annotations

import time
from collections.abc import Sequence

from attrs import define, field

NOTHING = "-"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_BARS = "▁▂▃▄▅▆▇█"


def number(value: float | None) -> str:
    """Text of `value` in at most six characters, unless it is very large; of None a dash."""
    if value is None:
        return NOTHING
    for least, unit in ((1e9, "G"), (1e6, "M"), (1e5, "k")):
        if abs(value) >= least:
            return f"{value / (1e3 if unit == 'k' else least):.{0 if unit == 'k' else 1}f}{unit}"
    return f"{value:.1f}" if abs(value) < 10 and value % 1 else f"{value:,.0f}"


def size(value: float | None) -> str:
    """Text of `value` bytes, with a unit; of None a dash."""
    if value is None:
        return NOTHING
    unit = 0
    while abs(value) >= 1024 and unit < len(_UNITS) - 1:
        value /= 1024
        unit += 1
    return f"{value:.{1 if unit and abs(value) < 10 else 0}f} {_UNITS[unit]}"


def span(seconds: float | None) -> str:
    """Text of a duration in seconds, with a unit."""
    if seconds is None:
        return NOTHING
    sign, left = "-" if seconds < 0 else "", abs(seconds)
    if not left:
        return "0 s"
    if left < 1e-3:
        return f"{sign}{left * 1e6:.0f} µs"
    if left < 1:
        return f"{sign}{left * 1e3:.{1 if left < 0.01 else 0}f} ms"
    for most, length, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if left < most:
            return f"{sign}{left:.1f} s" if left < 10 else f"{sign}{int(left // length)} {unit}"
    return f"{sign}{int(left // 86_400)} d"


def sparkline(values: Sequence[float | None], width: int, top: float | None = None) -> str:
    """Chart in one line of the last `width` values as bars, newest on the right; an unknown value is a gap. `top` is
    the value of the highest bar, by default the largest value."""
    shown = list(values)[-width:]
    highest = max((one for one in shown if one is not None), default=0.0) if top is None else top
    bars = "".join(" " if one is None else _bar(one, highest) for one in shown)
    return bars.rjust(width)


def _bar(value: float, highest: float) -> str:
    if value <= 0 or highest <= 0:
        return _BARS[0]
    return _BARS[min(len(_BARS) - 1, 1 + int((len(_BARS) - 1) * value / highest * 0.999))]


@define
class Pace:
    """Rates at which counters grow. Times are in seconds, by our own clock."""

    begun: float = field(factory=time.monotonic)
    _before: tuple[float, tuple[int, ...]] | None = None

    @property
    def seconds(self) -> float:
        """Seconds since this object was made."""
        return max(time.monotonic() - self.begun, 1e-6)

    def look(self, *counts: int) -> list[float]:
        """Growth per second of each of the counters, whose values are `counts`, since the last call."""
        now, (then, before) = time.monotonic(), self._before or (self.begun, (0,) * len(counts))
        self._before = now, counts
        return [(new - old) / max(now - then, 1e-6) for new, old in zip(counts, before, strict=True)]
