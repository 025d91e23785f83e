"""Charts over time as SVG: lines, and connections as bars.

There is no script; tooltips show values. All charts of a report have the same time axis, so that events of one moment,
such as a kill, are aligned. Colours and dashes are CSS classes; the page's style sheet has light, dark and print
variants. Each line has its name at its right end, and each chart has a description for screen readers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import NamedTuple

WIDTH = 960
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 128, 24, 40
_LANE = 32  # height of a lane in pixels
_HEIGHT = 214
_APART = 14  # least distance between the names of two lines
_NAME = 14  # characters of a name that fit beside the chart
_COLOURS, _DASHES = 7, 3
REST = "c7"
"""CSS class of lines without a colour of their own: grey."""


def look(number: int) -> str:
    """CSS classes of the line `number` of a chart, counted from 0: the first seven differ in colour, all others also in
    dashes.
    """
    dash = number // _COLOURS % _DASHES
    return f"c{number % _COLOURS}" + (f" d{dash}" if dash else "")


def dashed(base: str, number: int) -> str:
    """The colour of the CSS classes `base`, with the dashes of `number`, for one of several related lines."""
    dash = number % _DASHES
    return base.split()[0] + (f" d{dash}" if dash else "")


class Axis(NamedTuple):
    """Time axis from `begin` to `end`, in seconds since 1970."""

    begin: float
    end: float

    def x(self, time: float) -> float:
        span = max(self.end - self.begin, 1e-3)
        inner = WIDTH - _LEFT - _RIGHT
        return _LEFT + inner * min(max((time - self.begin) / span, 0.0), 1.0)


class Series(NamedTuple):
    """Values over time; None interrupts the line. `look` are its CSS classes."""

    name: str
    points: Sequence[tuple[float, float | None]]
    look: str


class Curves(NamedTuple):
    """A user's own chart for the report: by name of a line, its (seconds since 1970, value) pairs in order."""

    title: str
    lines: Mapping[str, Sequence[tuple[float, float]]]


class Bar(NamedTuple):
    """A period in a chart, in seconds since 1970. `cut`: its end was not recorded; `pale`: a failed attempt."""

    begin: float
    end: float
    words: str
    cut: bool = False
    pale: bool = False


def lines(
    axis: Axis,
    series: Sequence[Series],
    show: Callable[[float], str],
    gaps: Iterable[Bar] = (),
    *,
    log: bool = False,
    unit: str = "",
    about: str = "",
) -> str:
    """Chart of lines on one scale: from 0, or with `log` in powers of ten. `gaps` are shaded.

    `unit` is shown above the scale; `about` describes the chart.
    """
    height = max(_HEIGHT, _TOP + _BOTTOM + _APART * len(series))
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
    parts.append(f'<text class="label" x="0" y="12">{escape(unit)}</text>')
    parts += _times(axis, floor)
    for one in series:
        for run in _runs(one.points):
            path = "L".join(f"{axis.x(time):.1f} {y(value):.1f}" for time, value in run)
            dots = "M" + path + ("h.1" if len(run) == 1 else "")
            parts.append(f'<path class="line {one.look}" d="{dots}"><title>{escape(one.name)}</title></path>')
        most = max((value for _, value in one.points if value is not None), default=0.0)
        for time, value in one.points:
            if value is not None and (value > 0 or most == 0):
                words = f"{one.name}: {show(value)} at {clock(time)}"
                parts.append(
                    f'<circle class="dot {one.look}" cx="{axis.x(time):.1f}" cy="{y(value):.1f}" r="2.2">'
                    f"<title>{escape(words)}</title></circle>"
                )
    parts += _names(series, y, floor)
    return _svg(height, parts, f"{about}: {'; '.join(_extent(one, show) for one in series)}")


def _names(series: Sequence[Series], y: Callable[[float], float], floor: float) -> list[str]:
    """SVG of the names of lines next to their ends, in the same order, without overlaps. `y` converts a value into a
    height, `floor` is the lowest one.
    """
    ends = [next((value for _, value in reversed(one.points) if value is not None), 0.0) for one in series]
    order = sorted(range(len(series)), key=lambda number: y(ends[number]))
    places: list[float] = []
    for number in order:
        places.append(max(y(ends[number]), places[-1] + _APART if places else _TOP))
    low = floor
    for rank in reversed(range(len(places))):  # move up those that are too low
        places[rank] = low = min(places[rank], low)
        low -= _APART
    parts = []
    left = WIDTH - _RIGHT + 6
    for number, place in zip(order, places, strict=True):
        one = series[number]
        short = one.name if len(one.name) <= _NAME else one.name[: _NAME - 1] + "…"
        parts.append(f'<path class="line {one.look}" d="M{left} {place:.1f}h16"/>')
        parts.append(
            f'<text class="label name" x="{left + 20}" y="{place + 4:.1f}">{escape(short)}'
            f"<title>{escape(one.name)}</title></text>"
        )
    return parts


def _extent(one: Series, show: Callable[[float], str]) -> str:
    values = [value for _, value in one.points if value is not None]
    return f"{one.name} {show(min(values))} to {show(max(values))}" if values else f"{one.name} nothing"


def bars(axis: Axis, lanes: Sequence[tuple[str, Sequence[Bar]]], about: str = "") -> str:
    """Chart with one lane for each name, which has its bars. `lanes` are (name, bars) pairs, `about` describes the
    chart.
    """
    floor = _TOP + _LANE * max(len(lanes), 1)
    parts = _times(axis, floor)
    for number, (name, stretches) in enumerate(lanes):
        top = _TOP + _LANE * number
        parts.append(f'<path class="grid" d="M{_LEFT} {top + _LANE}H{WIDTH - _RIGHT}"/>')
        for one in stretches:
            left = axis.x(one.begin)
            width = max(axis.x(one.end) - left, 2.0)
            parts.append(
                f'<rect class="bar{" pale" if one.pale else ""}" rx="2" '
                f'x="{left:.1f}" y="{top + 16}" width="{width:.1f}" height="11">'
                f"<title>{escape(one.words)}</title></rect>"
            )
            if one.cut:
                right = left + width
                parts.append(f'<path class="cut" d="M{right - 4:.1f} {top + 14}l8 15m0 -15l-8 15"/>')
        parts.append(f'<text class="label lane" x="{_LEFT}" y="{top + 12}">{escape(name)}</text>')
    told = "; ".join(f"{name} {len(stretches):,}" for name, stretches in lanes)
    return _svg(floor + _BOTTOM, parts, f"{about}: {told}")


def nice_steps(top: float, about: int = 4) -> list[float]:
    """About as many round numbers as `about` says, from 0 to at least `top`."""
    rough = top / about
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough * 0.999)
    return [step * number for number in range(math.ceil(top / step - 1e-9) + 1)]


def decades(values: Iterable[float]) -> list[float]:
    """At least two powers of ten, around the values."""
    positive = [value for value in values if value > 0] or [1.0]
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    return [10.0**power for power in range(low, max(high, low + 1) + 1)]


def clock(time: float) -> str:
    """Time of day in UTC, for `time` in seconds since 1970."""
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
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    parts.append(f'<text class="label middle" x="{middle:.1f}" y="{floor + 34}">time (UTC)</text>')
    return parts


def _shade(axis: Axis, gap: Bar, floor: float) -> str:
    left = axis.x(gap.begin)
    width = max(axis.x(gap.end) - left, 1.0)
    return (
        f'<rect class="gap" x="{left:.1f}" y="{_TOP}" width="{width:.1f}" height="{floor - _TOP}">'
        f"<title>{escape(gap.words)}</title></rect>"
    )


def _svg(height: float, parts: Iterable[str], about: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(about)}">{"".join(parts)}</svg>'
