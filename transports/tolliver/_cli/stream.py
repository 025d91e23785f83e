"""`tolliver stream`: writes the elements of a stream to standard output.

An element counts as processed once it is written, and only then is more demanded: so a slow reader of our output slows
down the publisher. The rate is shown on standard error if that is a terminal and the output is not.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial

import anyio
from attrs import define, evolve, field

from tolliver_proto import ConnectionClosing

from .._options.instance import Remote
from .._options.streams import StreamsOptions
from ..anyio import create_streams
from . import words
from .connecting import alongside
from .figures import Pace
from .standard import Output
from .tables import progress
from .watching import PATIENCE, Watch

_TICK = 0.5  # seconds between two updates of the rate

Written = Callable[[Iterable[bytes]], bytes]


def written_as(*, raw: bool, as_hex: bool, as_json: bool = False) -> Written:
    """Function that formats elements: as they are (`raw`), as hexadecimal digits, as JSON lines with base64, or else as
    lines. Lines are escaped on a terminal, and nowhere else (D-14).
    """
    if raw:
        return b"".join
    if as_hex:
        return _as_hex
    if as_json:
        return _as_json
    return _for_a_terminal if sys.stdout.isatty() else _as_lines


def _as_hex(elements: Iterable[bytes]) -> bytes:
    return _as_lines(element.hex().encode() for element in elements)


def _as_json(elements: Iterable[bytes]) -> bytes:
    return _as_lines(b'{"element": "%s"}' % base64.b64encode(element) for element in elements)


def _as_lines(elements: Iterable[bytes]) -> bytes:
    return b"".join(element + b"\n" for element in elements)


def _for_a_terminal(elements: Iterable[bytes]) -> bytes:
    encoding = sys.stdout.encoding
    return _as_lines(words.body(element).encode(encoding, "backslashreplace") for element in elements)


@define(frozen=True, kw_only=True)
class Job:
    """Stream to subscribe to, its window, the format of elements, and the number after which to end (None: all)."""

    name: str
    demand: int
    count: int | None
    written: Written


@define
class Meter:
    """Counters of received elements and bytes, and their rates."""

    elements: int = 0
    size: int = 0
    pace: Pace = field(factory=Pace)

    def add(self, run: list[bytes]) -> None:
        self.elements += len(run)
        self.size += sum(map(len, run))

    def look(self) -> str:
        """Text with the rates since the last call, and the totals."""
        elements, size = self.pace.look(self.elements, self.size)
        return f"{elements:,.0f}/s, {size:,.0f} B/s, {self._total()}"

    def summary(self) -> str:
        seconds = self.pace.seconds
        rates = f"{self.elements / seconds:,.0f}/s, {self.size / seconds:,.0f} B/s"
        return f"{self._total()} in {seconds:.2f} s ({rates})"

    def _total(self) -> str:
        return f"{words.count(self.elements, 'element')} of {words.count(self.size, 'byte')}"


def stream_and_report(
    job: Job,
    options: StreamsOptions,
    remotes: list[Remote],
    run: Callable[[Callable[[], Awaitable[None]]], None],
) -> None:
    """Write the stream, and print the summary in any case. `run` runs a coroutine function on a loop. Raises
    StreamError and other errors that ended the stream early.
    """
    meter = Meter()
    bar = progress(shown=not sys.stdout.isatty())
    task = bar.add_task("connecting", total=None)
    try:
        with bar:
            run(partial(_stream, job, options, remotes, meter, lambda said: bar.update(task, description=said)))
    finally:
        if meter.elements:
            words.say(meter.summary())


async def _stream(
    job: Job, options: StreamsOptions, remotes: list[Remote], meter: Meter, show: Callable[[str], None]
) -> None:
    async def keep_showing() -> None:
        while True:
            await anyio.sleep(_TICK)
            show(meter.look())

    output, watch = Output(), Watch(_say_nothing)
    async with create_streams(evolve(options, on_event=watch)) as streams:
        for address in words.dialled(streams.addresses):
            words.say(f"listening on {address}; Ctrl-C ends")
        peers = [await streams.connect(remote, timeout=PATIENCE) for remote in remotes]
        peer = peers[0] if peers else await watch.somebody()
        meter.pace = Pace()
        try:
            subscription = peer.subscribe(job.name, prefetch=job.demand)
        except ConnectionClosing as closing:  # the peer's goodbye, with its reason, came before
            raise await watch.last_words() from closing
        async with subscription:
            await alongside(partial(_take, subscription.runs(), job, meter, output), [keep_showing])


def _say_nothing(_line: str) -> None:
    """Ignores lines about peers, as the stream's own end reports everything."""


async def _take(runs: AsyncIterator[list[bytes]], job: Job, meter: Meter, output: Output) -> None:
    async for run in runs:
        wanted = run if job.count is None else run[: job.count - meter.elements]
        await output.write(job.written(wanted))
        meter.add(wanted)
        if meter.elements == job.count:
            return
