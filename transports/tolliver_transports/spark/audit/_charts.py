"""Charts over time as SVG: lines, and connections as bars.

There is no script; what is hovered over says its value. All charts of a report share one axis of time, so what happens
at one moment stands in one vertical line, and a kill is seen in all of them. Colours are classes: the page's style
sheet knows light, dark and paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import NamedTuple

WIDTH = 960
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 12, 10, 24
_LANE = 32  # height of one
_HEIGHT = 190
COLOURS = 8
"""The number of classes c0, c1, ..."""


class Axis(NamedTuple):
    """Time from left to right: `begin` and `end` in seconds since 1970."""

    begin: float
    end: float

    def x(self, time: float) -> float:
        span = max(self.end - self.begin, 1e-3)
        inner = WIDTH - _LEFT - _RIGHT
        return _LEFT + inner * min(max((time - self.begin) / span, 0.0), 1.0)


class Series(NamedTuple):
    """Values over time; a None breaks the line."""

    name: str
    points: Sequence[tuple[float, float | None]]


class Curves(NamedTuple):
    """A chart of the user's own for the report: by the name of a line its (seconds since 1970, value) in order."""

    title: str
    lines: Mapping[str, Sequence[tuple[float, float]]]


class Bar(NamedTuple):
    """A stretch of time. `cut`: what it shows may have gone on."""

    begin: float
    end: float
    words: str
    cut: bool = False


def lines(
    axis: Axis, series: Sequence[Series], show: Callable[[float], str], gaps: Iterable[Bar] = (), *, log: bool = False
) -> str:
    """One line for each series over the same scale: from 0 on, or with `log` by powers of ten. `gaps` are shaded."""
    height = _HEIGHT
    floor = height - _BOTTOM
    values = [value for one in series for _, value in one.points if value is not None]
    steps = decades(values) if log else nice_steps(max(values, default=0.0) or 1.0)
    least = steps[0]

    def y(value: float) -> float:
        share = math.log(max(value, least) / least, steps[-1] / least) if log else value / steps[-1]
        return floor - (floor - _TOP) * share

    parts = [_shade(axis, gap, floor) for gap in gaps]
    for step in steps:
        parts.append(f'<path class="grid" d="M{_LEFT} {y(step):.1f}H{WIDTH - _RIGHT}"/>')
        parts.append(f'<text class="label end" x="{_LEFT - 8}" y="{y(step) + 4:.1f}">{escape(show(step))}</text>')
    parts += _times(axis, floor)
    for number, one in enumerate(series):
        colour = f"c{number % COLOURS}"
        for run in _runs(one.points):
            path = "L".join(f"{axis.x(time):.1f} {y(value):.1f}" for time, value in run)
            dots = "M" + path + ("h.1" if len(run) == 1 else "")
            parts.append(f'<path class="line {colour}" d="{dots}"><title>{escape(one.name)}</title></path>')
        most = max((value for _, value in one.points if value is not None), default=0.0)
        for time, value in one.points:
            if value is not None and (value > 0 or most == 0):
                words = f"{one.name}: {show(value)} at {clock(time)}"
                parts.append(
                    f'<circle class="dot {colour}" cx="{axis.x(time):.1f}" cy="{y(value):.1f}" r="2.2">'
                    f"<title>{escape(words)}</title></circle>"
                )
    keys = "".join(
        f'<span class="key"><i class="c{number % COLOURS}"></i>{escape(one.name)}</span>'
        for number, one in enumerate(series)
    )
    return _svg(height, parts) + f'<p class="keys">{keys}</p>'


def bars(axis: Axis, lanes: Sequence[tuple[str, Sequence[Bar]]]) -> str:
    """One lane for each name, its bars in it."""
    floor = _TOP + _LANE * max(len(lanes), 1)
    parts = _times(axis, floor)
    for number, (name, stretches) in enumerate(lanes):
        top = _TOP + _LANE * number
        parts.append(f'<path class="grid" d="M{_LEFT} {top + _LANE}H{WIDTH - _RIGHT}"/>')
        for one in stretches:
            left = axis.x(one.begin)
            width = max(axis.x(one.end) - left, 2.0)
            parts.append(
                f'<rect class="bar c{number % COLOURS}" rx="2" '
                f'x="{left:.1f}" y="{top + 16}" width="{width:.1f}" height="11">'
                f"<title>{escape(one.words)}</title></rect>"
            )
            if one.cut:
                right = left + width
                parts.append(f'<path class="cut" d="M{right - 4:.1f} {top + 14}l8 15m0 -15l-8 15"/>')
        parts.append(f'<text class="label lane" x="{_LEFT}" y="{top + 12}">{escape(name)}</text>')
    return _svg(floor + _BOTTOM, parts)


def nice_steps(top: float, about: int = 4) -> list[float]:
    """From 0 to at least `top` in round steps."""
    rough = top / about
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough * 0.999)
    return [step * number for number in range(math.ceil(top / step - 1e-9) + 1)]


def decades(values: Iterable[float]) -> list[float]:
    """Powers of ten around the values, two at least."""
    positive = [value for value in values if value > 0] or [1.0]
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    return [10.0**power for power in range(low, max(high, low + 1) + 1)]


def clock(time: float) -> str:
    """UTC."""
    return datetime.fromtimestamp(time, UTC).strftime("%H:%M:%S.%f")[:-3]


def _runs(points: Sequence[tuple[float, float | None]]) -> Iterable[list[tuple[float, float]]]:
    run: list[tuple[float, float]] = []
    for time, value in (*points, (0.0, None)):
        if value is not None:
            run.append((time, value))
        elif run:
            yield run
            run = []


def _times(axis: Axis, floor: float) -> list[str]:
    span = axis.end - axis.begin
    shown = "%H:%M:%S" if span < 86_400 else "%m-%d %H:%M"
    parts = [f'<path class="axis" d="M{_LEFT} {floor}H{WIDTH - _RIGHT}"/>']
    for number in range(7):
        time = axis.begin + span * number / 6
        x, words = axis.x(time), datetime.fromtimestamp(time, UTC).strftime(shown)
        if 0 < span < 10:
            words = clock(time)[:-2]
        side = "start" if number == 0 else "end" if number == 6 else "middle"
        parts.append(f'<path class="axis" d="M{x:.1f} {floor}v4"/>')
        parts.append(f'<text class="label {side}" x="{x:.1f}" y="{floor + 18}">{words}</text>')
    return parts


def _shade(axis: Axis, gap: Bar, floor: float) -> str:
    left = axis.x(gap.begin)
    width = max(axis.x(gap.end) - left, 1.0)
    return (
        f'<rect class="gap" x="{left:.1f}" y="{_TOP}" width="{width:.1f}" height="{floor - _TOP}">'
        f"<title>{escape(gap.words)}</title></rect>"
    )


def _svg(height: float, parts: Iterable[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(parts)}</svg>'
