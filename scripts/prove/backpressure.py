"""Chart of a fast publisher, a slow subscriber, and their backlog.

    python -m scripts.prove.backpressure            15 seconds: writes docs/backpressure.svg, prints the figures
    python -m scripts.prove.backpressure --short    two seconds, draws nothing unless --svg says where

Two processes over loopback each have the streams of a real program, and share one page of memory. The publisher's
source never ends and writes there how many elements were pulled from it; the subscriber writes how many it is through
with. So the depth, pulled minus consumed, is exact at each moment, however far apart the two are. It is greatest when
an element has just been pulled: there the publisher's side looks, at every element. Exit status 1 where the depth
passed its bound.
"""

from __future__ import annotations

import argparse
import math
import mmap
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

import anyio
import anyio.to_thread
from tolliver.anyio import StreamsOptions, Subscription, create_streams

from tolliver_proto.reactive import UNBOUNDED, Limits

CHART = Path(__file__).resolve().parents[2] / "docs" / "backpressure.svg"
ELEMENT = 1024  # bytes
WINDOW = 256  # elements: the default
INTERVAL = 0.05  # seconds between samples
SMOOTH = 5  # samples that a rate is the mean of
SOCKETS = 16 * 2**20  # bytes: more than the system keeps in a connection over loopback
PATIENCE = 60  # seconds for one run
PULLED, CONSUMED, DEEPEST = range(3)


class Phase(NamedTuple):
    name: str
    seconds: float
    rate: float
    """Elements a second that the subscriber consumes; inf is as many as come."""


PHASES = (
    Phase("2,000 a second", 2, 2000),
    Phase("nothing", 2, 0),
    Phase("as fast as it can", 1.5, math.inf),
    Phase("2,000 a second again", 1.5, 2000),
)
SHORT = (Phase("2,000 a second", 0.4, 2000), Phase("nothing", 0.2, 0), Phase("as fast as it can", 0.4, math.inf))


class Sample(NamedTuple):
    time: float
    """Seconds since the start."""
    pulled: int
    consumed: int
    granted: int
    """Number of elements that the subscriber has asked for so far."""

    @property
    def depth(self) -> int:
        return self.pulled - self.consumed

    @property
    def open(self) -> int:
        """Rest of the grants: the window, as far as it is open now."""
        return self.granted - self.consumed


Count = Callable[[Sample], int]
Point = tuple[float, float]
pulled, consumed, depth, opened = map(attrgetter, ("pulled", "consumed", "depth", "open"))


@dataclass(frozen=True)
class Run:
    """Observations of one stream."""

    samples: Sequence[Sample]
    deepest: int
    """The greatest depth, of all moments."""

    def rates(self, count: Count) -> list[Point]:
        """(time, elements a second), each over the last few samples."""
        pairs = zip(self.samples, self.samples[SMOOTH:], strict=False)
        return [(now.time, rate(count, before, now)) for before, now in pairs]

    def over_time(self, count: Count) -> list[Point]:
        return [(sample.time, count(sample)) for sample in self.samples]


def rate(count: Count, before: Sample, now: Sample) -> float:
    return (count(now) - count(before)) / (now.time - before.time)


# The run.


@contextmanager
def counters(path: Path) -> Iterator[memoryview]:
    """Numbers that both processes see; each has one writer."""
    with (
        path.open("r+b") as file,
        mmap.mmap(file.fileno(), mmap.PAGESIZE) as shared,
        memoryview(shared).cast("Q") as numbers,
    ):
        yield numbers


async def publish(path: Path) -> None:
    """The publisher's process: until its input is closed."""
    with counters(path) as numbers:

        def source(_name: str) -> Iterator[bytes]:
            element = bytes(ELEMENT)
            while True:
                numbers[PULLED] += 1
                numbers[DEEPEST] = max(numbers[DEEPEST], numbers[PULLED] - numbers[CONSUMED])
                yield element

        async with create_streams(StreamsOptions(listen="127.0.0.1:0", plaintext=True)) as streams:
            streams.publish("numbers", source)
            print(streams.port, flush=True)
            await anyio.to_thread.run_sync(sys.stdin.read)


async def consume(subscription: Subscription[bytes], phases: Sequence[Phase], numbers: memoryview) -> None:
    begin = time.monotonic()
    for phase in phases:
        end, count = begin + phase.seconds, 0
        if not phase.rate:
            await anyio.sleep(phase.seconds)
        while phase.rate and time.monotonic() < end:
            await anext(subscription)
            numbers[CONSUMED] += 1
            count += 1
            ahead = begin + count / phase.rate - time.monotonic()
            if ahead > 0 or count % WINDOW == 0:  # an application that awaits nothing at all would starve its loop
                await anyio.sleep(max(0.0, ahead))
        begin = time.monotonic()


async def sample(subscription: Subscription[bytes], numbers: memoryview, samples: list[Sample]) -> None:
    begin = time.monotonic()
    while True:
        granted = subscription._stream._granted
        samples.append(Sample(time.monotonic() - begin, numbers[PULLED], numbers[CONSUMED], granted))
        await anyio.sleep(max(0.0, begin + len(samples) * INTERVAL - time.monotonic()))


async def subscribe(port: int, phases: Sequence[Phase], demand: int, numbers: memoryview) -> Run:
    samples: list[Sample] = []
    async with create_streams(StreamsOptions(plaintext=True)) as streams:
        peer = await streams.connect(f"127.0.0.1:{port}", timeout=PATIENCE)
        async with peer.subscribe("numbers", demand=demand) as subscription, anyio.create_task_group() as tasks:
            with anyio.fail_after(PATIENCE):
                tasks.start_soon(sample, subscription, numbers, samples)
                await consume(subscription, phases, numbers)
            tasks.cancel_scope.cancel()
    return Run(samples, numbers[DEEPEST])


def measure(phases: Sequence[Phase], demand: int) -> Run:
    """One stream from a process of its own to this one."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "counters"
        path.write_bytes(bytes(mmap.PAGESIZE))
        command = [sys.executable, "-m", "scripts.prove.backpressure", "--publish", str(path)]
        with (
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as publisher,
            counters(path) as numbers,
        ):
            assert publisher.stdin
            assert publisher.stdout
            try:
                run = anyio.run(subscribe, int(publisher.stdout.readline()), phases, demand, numbers)
                publisher.stdin.close()
                publisher.wait(PATIENCE)
            finally:
                publisher.kill()
    return run


# Messages to people.


def most_unbounded(limits: Limits) -> int:
    """Elements that may lie between source and application where nothing but bytes bounds them."""
    return (limits.max_unread + limits.high_water + SOCKETS) // ELEMENT


def faults(bounded: Run, unbounded: Run) -> list[str]:
    """Faults of the run: a depth above its bound."""
    found = [
        f"after {sample.time:.2f} s {sample.depth} elements lay between, the window was {WINDOW}"
        for sample in bounded.samples
        if not sample.depth <= sample.open <= WINDOW
    ]
    if bounded.deepest > WINDOW:
        found.append(f"{bounded.deepest} elements lay between at most, the window was {WINDOW}")
    if unbounded.deepest > most_unbounded(Limits()):
        found.append(f"without bound {unbounded.deepest} elements lay between, more than the limits allow")
    return found


def figures(phases: Sequence[Phase], bounded: Run, unbounded: Run) -> str:
    """The table of the page."""
    lines = ["| the subscriber takes | pulled, per second | consumed, per second | most between |", "|---|---|---|---|"]
    for name, begin, end in spans(phases):
        inside = [sample for sample in bounded.samples if begin <= sample.time < end]
        first, last = inside[0], inside[-1]
        speeds = [f"{rate(count, first, last):,.0f}" for count in (pulled, consumed)]
        lines.append(f"| {name} | {' | '.join(speeds)} | {max(map(depth, inside))} |")
    lines.append(f"| looked at each time an element was pulled | | | {bounded.deepest} |")
    size = unbounded.deepest * ELEMENT / 2**20
    lines.append(f"| the same, demand without bound | | | {unbounded.deepest:,} ({size:.0f} MiB) |")
    return "\n".join(lines)


def spans(phases: Sequence[Phase]) -> Iterator[tuple[str, float, float]]:
    """(name, begin, end) of each phase, in seconds since the start."""
    begin = 0.0
    for phase in phases:
        yield phase.name, begin, begin + phase.seconds
        begin += phase.seconds


# The chart.

WIDTH, LEFT, RIGHT = 820, 84, 20
TOPS, HEIGHT, PANEL = (92, 312, 532), 728, 150
INKS = {  # of light paper, of dark paper
    ".paper": ("fill", "#ffffff", "#0d1117"),
    ".band": ("fill", "#f3f5f8", "#161c24"),
    "text": ("fill", "#1f2328", "#e6edf3"),
    ".faint": ("fill", "#59636e", "#9198a1"),
    ".grid": ("stroke", "#d1d9e0", "#30363d"),
    ".pulled": ("stroke", "#f0a26b", "#a8551f"),
    ".consumed": ("stroke", "#0b63c5", "#6cb6ff"),
    ".depth": ("stroke", "#1a7f5a", "#4cc38a"),
    ".window": ("stroke", "#c2255c", "#ff7eb6"),
}
SHAPES = """
text { font: 13px system-ui, sans-serif; } .faint { font-size: 12px; } .title { font-weight: 600; }
.end { text-anchor: end; } .middle { text-anchor: middle; }
polyline { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
.pulled { stroke-width: 5; } .window { stroke-dasharray: 6 4; }
"""


def style() -> str:
    light, dark = (
        "\n".join(f"{chosen} {{ {what}: {colours[which]}; }}" for chosen, (what, *colours) in INKS.items())
        for which in (0, 1)
    )
    return f"{SHAPES}{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"


@dataclass(frozen=True)
class Panel:
    """A rectangle with a scale of values from below to above; with `low`, a logarithmic one whose lowest step is 0."""

    top: int
    title: str
    ticks: Sequence[int]
    span: float
    """Seconds from left to right."""
    low: int = 0

    def x(self, at: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * min(at / self.span, 1)

    def y(self, value: float) -> float:
        most = self.ticks[-1]
        share = math.log(max(value, self.low) / self.low) / math.log(most / self.low) if self.low else value / most
        return self.top + PANEL * (1 - share)

    def line(self, kind: str, points: Sequence[Point]) -> str:
        places = " ".join(f"{self.x(at):.1f},{self.y(value):.1f}" for at, value in points)
        return f'<polyline class="{kind}" points="{places}"/>'

    def frame(self, phases: Sequence[Phase]) -> list[str]:
        drawn = []
        for number, (_, begin, end) in enumerate(spans(phases)):
            if number % 2:
                width = self.x(end) - self.x(begin)
                drawn.append(rectangle("band", self.x(begin), self.top, width, PANEL))
        for value in self.ticks:
            y = self.y(value)
            drawn.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            drawn.append(words("faint end", LEFT - 8, y + 4, f"{0 if value == self.low else value:,}"))
        drawn.append(words("title", LEFT, self.top - 12, self.title))
        return drawn

    def legend(self, *entries: tuple[str, str]) -> list[str]:
        drawn, x, y = [], WIDTH - RIGHT, self.top - 12
        for kind, label in reversed(entries):
            drawn.append(words("faint end", x, y, label))
            x -= round(6.9 * len(label)) + 10
            drawn.append(f'<polyline class="{kind}" points="{x - 22},{y - 4} {x},{y - 4}"/>')
            x -= 42
        return drawn


def rectangle(kind: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'


def words(kind: str, x: float, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def round_up(value: float) -> int:
    """To one digit: where a scale may end."""
    unit = 10 ** int(math.log10(value))
    return int(math.ceil(value / unit) * unit)


def chart(phases: Sequence[Phase], bounded: Run, unbounded: Run) -> str:
    span = sum(phase.seconds for phase in phases)
    bound = 64 * 2**20 // ELEMENT
    half = round_up(max(bound, unbounded.deepest)) // 2
    fastest = max(speed for _, speed in bounded.rates(pulled))
    powers = [10**power for power in range(2, math.ceil(math.log10(fastest)) + 1)]
    rates = Panel(
        TOPS[0], f"elements per second, means of {SMOOTH * INTERVAL * 1000:.0f} ms", powers, span, low=powers[0]
    )
    between = Panel(TOPS[1], f"elements between, window {WINDOW}", [0, WINDOW // 2, WINDOW, WINDOW * 5 // 4], span)
    without = Panel(TOPS[2], "elements between, demand without bound", [0, half, 2 * half], span)
    drawn = [
        words(
            "title",
            LEFT,
            26,
            "A publisher that never waits and its subscriber: elements of 1 KiB over loopback",
        ),
        *rates.frame(phases),
        *rates.legend(("pulled", "pulled from the source"), ("consumed", "consumed")),
        rates.line("pulled", bounded.rates(pulled)),
        rates.line("consumed", bounded.rates(consumed)),
        *between.frame(phases),
        *between.legend(("window", "granted and not consumed"), ("depth", "pulled and not consumed")),
        between.line("depth", bounded.over_time(depth)),
        between.line("window", bounded.over_time(opened)),
        *without.frame(phases),
        *without.legend(("window", "64 MiB"), ("depth", "pulled and not consumed")),
        without.line("window", [(0, bound), (span, bound)]),
        without.line("depth", unbounded.over_time(depth)),
    ]
    for name, begin, end in spans(phases):
        drawn.append(words("faint middle", rates.x((begin + end) / 2), 52, name))
    for second in range(int(span) + 1):
        drawn.append(words("faint middle", without.x(second), TOPS[2] + PANEL + 18, str(second)))
    drawn.append(words("faint middle", (LEFT + WIDTH - RIGHT) / 2, TOPS[2] + PANEL + 38, "seconds"))
    inner = "\n".join(drawn)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img">\n<title>Rates and depth of a stream over time</title>\n'
        f"<desc>\n{escape(figures(phases, bounded, unbounded))}\n</desc>\n"
        f"<style>{style()}</style>\n{rectangle('paper', 0, 0, WIDTH, HEIGHT)}\n{inner}\n</svg>\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--svg", type=Path, help="where the chart goes")
    parser.add_argument("--publish", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.publish:
        anyio.run(publish, options.publish)
        return 0
    phases = SHORT if options.short else PHASES
    bounded, unbounded = measure(phases, WINDOW), measure(phases, UNBOUNDED)
    print(figures(phases, bounded, unbounded))
    path = options.svg or (None if options.short else CHART)
    if path is not None:
        path.write_text(chart(phases, bounded, unbounded), "utf-8")
    wrong = faults(bounded, unbounded)
    print(*wrong, sep="\n", file=sys.stderr, end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
