"""`tolliver bench`: rates and latencies of messages, requests and streams.

Everything is real: mutual TLS over TCP, and a database with its syncs for each instance. A sender is an instance of its
own. It waits for an answer, or for the acknowledgement of a batch, before it goes on: more senders or a larger batch
are more at a time. The other end is in this process, or it is `tolliver bench --serve` somewhere else.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import anyio
import anyio.lowlevel
import typer
from attrs import define, evolve
from rich.progress import BarColumn, Progress

from tolliver_proto import Delivery

from .._options.instance import InstanceOptions, Remote
from .._options.reading import arguments, parse
from .._options.streams import StreamsOptions
from .._private import must_be_file, write_private
from ..anyio import Instance, Peer, create_instance, create_streams
from ..certs import make_ca, make_certificate
from . import bench_peer
from .bar import progress
from .bench_peer import COUNT, PUBLISH, REQUEST, SEND, Filler, age
from .connecting import Place, alongside
from .measures import HEADS, Kind, Measure, as_csv
from .send import missing
from .tables import print_table
from .watching import options_of, remotes_of

_TURN = 32  # unreliable messages before the connections have their turn
_FULL = 0.001  # seconds until it is tried again
_POLL = 0.01
_SILENCE = 2.0  # seconds without a message, and no more are waited for
_TICK = 0.1
_ASKING = 0.25


COUNTS = {Kind.PUBLISH: 50_000, Kind.SEND: 10_000, Kind.REQUEST: 2_000, Kind.STREAM: 50_000}
"""Messages, where nothing else is said."""
_OF_MESSAGES = (Kind.PUBLISH, Kind.SEND, Kind.REQUEST)


@define(frozen=True, kw_only=True)
class Job:
    """Work to measure: each kind at each size, `messages` of it (None: as many as is usual for the kind)."""

    kinds: Sequence[Kind]
    sizes: Sequence[int]
    messages: int | None
    senders: int
    batch: int
    demand: int
    timeout: float

    def measures(self) -> list[Measure]:
        """One for each, not begun."""
        return [
            Measure(
                kind,
                size,
                COUNTS[kind] if self.messages is None else self.messages,
                self.senders,
                self.batch if kind is Kind.SEND else 1,
            )
            for kind in self.kinds
            for size in self.sizes
        ]

    def share(self, measure: Measure, sender: int) -> int:
        """Messages of the sender with this number."""
        return measure.messages // self.senders + (sender < measure.messages % self.senders)


def kinds_of(typed: Sequence[Kind], place: Place) -> list[Kind]:
    """The kinds to measure. Raises ValueError where these cannot be measured with one peer."""
    if not place.meeting.connect:
        return list(typed or Kind)
    if Kind.STREAM in typed and len(set(typed)) > 1:
        raise ValueError(
            "stream has a port of its own at the other end (`tolliver bench stream --serve`): run it alone"
        )
    return list(typed or _OF_MESSAGES)


def bench_and_report(
    job: Job,
    place: Place,
    run: Callable[[Callable[[], Awaitable[None]]], None],
    *,
    as_json: bool,
    csv: str | None,
) -> None:
    """Measure, and print what was measured however it ends."""
    measures = job.measures()
    if csv not in (None, "-"):
        must_be_file(csv)  # before hours of measuring
    bar, move = _progress()
    try:
        with bar, ExitStack() as stack:
            run(partial(_bench, job, _ends(job, place, stack), measures, move))
    finally:
        begun = [one for one in measures if one.done]
        if csv not in (None, "-"):
            write_private(csv, as_csv(begun).encode())
        if csv == "-":
            typer.echo(as_csv(begun), nl=False)
        elif as_json:
            for one in begun:
                typer.echo(json.dumps(one.facts()))
        elif begun:
            print_table(HEADS, [line for one in begun for line in one.lines()])


def _progress() -> tuple[Progress, Callable[[Measure], None]]:
    bar = progress(BarColumn())
    task = bar.add_task("connecting", total=None)

    def move(measure: Measure) -> None:
        said = f"{measure.kind}, {measure.size:,} bytes: {measure.done:,}, {measure.rate:,.0f}/s"
        bar.update(task, completed=measure.done, total=measure.messages, description=said)

    return bar, move


# Both ends.


@define(eq=False)
class Ends:
    """Options of all instances and streams; where the other end is elsewhere, `peer` and `publisher` are None."""

    senders: list[InstanceOptions]
    subscribers: list[StreamsOptions]
    remotes: list[Remote]
    peer: InstanceOptions | None = None
    publisher: StreamsOptions | None = None


def _ends(job: Job, place: Place, stack: ExitStack) -> Ends:
    """Raises ValueError where something is missing or cannot be meant."""
    meeting = place.meeting
    if not meeting.connect:
        return _both_ends(job, place, Path(stack.enter_context(TemporaryDirectory(prefix="tolliver-bench-"))))
    if len(meeting.connect) != 1 or meeting.listen is not None:
        raise ValueError("with whom? Give one --connect HOST:PORT, where `tolliver bench --serve` listens")
    if Kind.STREAM in job.kinds:
        return Ends([], [options_of(meeting)] * job.senders, remotes_of(meeting))
    return Ends([one.options(dial=True) for one in _several(place, job.senders)], [], place.remotes)


def _several(place: Place, senders: int) -> list[Place]:
    """An instance has one certificate and one database, so several have names of their own."""
    meeting = place.meeting
    if senders == 1:
        return [place]
    if meeting.name is None or place.database is not None:
        raise ValueError(
            f"{senders} senders are {senders} instances: give --certs DIR --name NAME, where "
            f"`tolliver certs DIR NAME-1 ... NAME-{senders}` made their certificates, and no --database"
        )
    names = [f"{meeting.name}-{number}" for number in range(1, senders + 1)]
    return [evolve(place, meeting=evolve(meeting, name=name)) for name in names]


def _both_ends(job: Job, place: Place, directory: Path) -> Ends:
    """Two ends on this machine, with certificates that end with the command."""
    meeting = place.meeting
    if not _is_alone(place):
        raise ValueError("certificates, --database and the like go with --connect or --serve: alone it makes its own")
    if not meeting.plaintext:
        make_ca(directory)
    chosen = arguments(parse(place.flags))

    def common(name: str) -> dict[str, Any]:
        if meeting.plaintext:
            return {"tls": meeting.tls(), "plaintext": True}
        make_certificate(directory, name)
        return {"tls": evolve(meeting, certs=directory, name=name).tls()}

    def instance(name: str, **more: Any) -> InstanceOptions:
        database = directory / f"{name}.db"
        return InstanceOptions(database=database, revision=place.revision, **common(name), **chosen, **more)

    messages, streams = any(one in job.kinds for one in _OF_MESSAGES), Kind.STREAM in job.kinds
    return Ends(
        [instance(f"sender{number}") for number in range(job.senders)] if messages else [],
        [StreamsOptions(**common(f"subscriber{number}")) for number in range(job.senders)] if streams else [],
        [],
        instance("peer", listen="127.0.0.1:0") if messages else None,
        StreamsOptions(listen="127.0.0.1:0", **common("publisher")) if streams else None,
    )


def _is_alone(place: Place) -> bool:
    meeting = place.meeting
    given = (meeting.listen, meeting.certs, meeting.name, meeting.cert, meeting.key_file, meeting.ca, meeting.acl)
    return all(one is None for one in (*given, meeting.spki, place.database, place.record))


# Work.


async def _bench(job: Job, ends: Ends, measures: Sequence[Measure], move: Callable[[Measure], None]) -> None:
    async with AsyncExitStack() as stack:
        bench = await _Messages.open(job, ends, stack) if ends.senders else None
        streams = await _Streams.open(job, ends, stack) if ends.subscribers else None
        for measure in measures:
            work = streams if measure.kind is Kind.STREAM else bench
            assert work is not None
            try:
                async with _showing(measure, move):
                    await work.measure(measure)
                measure.complete = True
            finally:
                measure.end()


@asynccontextmanager
async def _showing(measure: Measure, move: Callable[[Measure], None]) -> AsyncIterator[None]:
    async def keep() -> None:
        while True:
            move(measure)
            await anyio.sleep(_TICK)

    failures: list[Exception] = []
    async with anyio.create_task_group() as group:
        group.start_soon(keep)
        try:
            yield
        except Exception as error:  # carried out of the task group, which would wrap it
            failures.append(error)
        group.cancel_scope.cancel()
    if failures:
        raise failures[0]


async def _together(works: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """All to their end; the first exception of any, not wrapped in a group."""
    failures: list[Exception] = []

    async with anyio.create_task_group() as group:

        async def guard(work: Callable[[], Awaitable[None]]) -> None:
            try:
                await work()
            except Exception as error:
                failures.append(error)
                group.cancel_scope.cancel()

        for work in works:
            group.start_soon(guard, work)
    if failures:
        raise failures[0]


class _Messages:
    """Senders of messages, connected to the other end."""

    def __init__(self, job: Job, senders: list[Instance], here: bool) -> None:
        self._job = job
        self._senders = senders
        self._here = here
        self._keys = map(str, count())
        self._run = token_hex(8)
        self._measure: Measure | None = None
        self._last = 0.0

    @classmethod
    async def open(cls, job: Job, ends: Ends, stack: AsyncExitStack) -> _Messages:
        self = cls(job, [], ends.peer is not None)
        remotes = ends.remotes
        if ends.peer is not None:
            peer = await stack.enter_async_context(create_instance(ends.peer))
            await bench_peer.take(peer, self._taken)
            remotes = [Remote(*peer.addresses[0])]
        for options in ends.senders:
            self._senders.append(await stack.enter_async_context(create_instance(options)))
        await _together([partial(self._meet, sender, remotes[0]) for sender in self._senders])
        return self

    async def _meet(self, sender: Instance, remote: Remote) -> None:
        with anyio.move_on_after(self._job.timeout):
            await sender.new_connection(remote)
            for channel in (PUBLISH, SEND):
                await sender.wait_subscribed(channel)
            await sender.wait_responder(COUNT)
            return
        why = "; ".join(missing(sender)) or "the peer there is no `tolliver bench --serve`"
        raise TimeoutError(f"{remote}: not ready within {self._job.timeout:g} s: {why}")

    async def measure(self, measure: Measure) -> None:
        kinds = {Kind.PUBLISH: self._publish, Kind.SEND: self._send, Kind.REQUEST: self._request}
        work = kinds[measure.kind]
        filler, keys = Filler(measure.size), [f"{self._run}/{next(self._keys)}" for _ in self._senders]
        self._measure = measure
        counting = (
            [] if self._here or measure.kind is not Kind.PUBLISH else [partial(self._keep_counting, measure, keys)]
        )
        works = [
            partial(work, measure, filler, sender, key, self._job.share(measure, number))
            for number, (sender, key) in enumerate(zip(self._senders, keys, strict=True))
        ]
        measure.begin()
        await alongside(partial(_together, works), counting)
        if measure.kind is Kind.PUBLISH:
            await self._arrive(measure, keys)
        self._measure = None

    def _taken(self, delivery: Delivery) -> None:
        """Unreliable messages are counted where they come, if that is here."""
        measure = self._measure
        if measure is not None and measure.kind is Kind.PUBLISH:
            measure.done += 1
            self._last = perf_counter()
            passed = age(delivery.body)
            if passed is not None:
                measure.timed("arrival").add(passed)

    async def _publish(self, measure: Measure, filler: Filler, sender: Instance, key: str, messages: int) -> None:
        progress = perf_counter()
        for number in range(messages):
            while not sender.unreliable_send(PUBLISH, key, filler.body()):
                if perf_counter() - progress > self._job.timeout:
                    raise TimeoutError("; ".join(("the peer takes no more", *missing(sender))))
                await anyio.sleep(_FULL)
            measure.sent += 1
            if number % _TURN == 0:
                progress = perf_counter()
                await anyio.lowlevel.checkpoint()
        await sender.flush(timeout=self._job.timeout)

    async def _arrive(self, measure: Measure, keys: Sequence[str]) -> None:
        """Wait until all have come, or no more do."""
        before, grown = -1, perf_counter()
        while True:
            if not self._here:
                await self._count(measure, keys)
            if measure.done >= measure.sent:
                break
            if measure.done > before:
                before, grown = measure.done, perf_counter()
            elif perf_counter() - grown > _SILENCE:
                break
            await anyio.sleep(_POLL)
        measure.end(self._last or None)

    async def _count(self, measure: Measure, keys: Sequence[str]) -> None:
        """Ask the other end how many have come."""
        replies = [
            await sender.request(COUNT, b"", key, timeout=self._job.timeout)
            for sender, key in zip(self._senders, keys, strict=True)
        ]
        measure.done = sum(int(reply.body) for reply in replies)
        self._last = perf_counter()

    async def _keep_counting(self, measure: Measure, keys: Sequence[str]) -> None:
        while True:
            await anyio.sleep(_ASKING)
            await self._count(measure, keys)

    async def _send(self, measure: Measure, filler: Filler, sender: Instance, key: str, messages: int) -> None:
        stored, acknowledged = measure.timed("disk"), measure.timed("acknowledgement")
        left = messages
        while left:
            items = [(SEND, key, filler.body()) for _ in range(min(left, measure.batch))]
            begun = perf_counter()
            receipt = await sender.send_many(items, require_recipients=1)
            stored.add(perf_counter() - begun)
            measure.sent += len(items)
            await sender.wait_acked(receipt, timeout=self._job.timeout)
            acknowledged.add(perf_counter() - begun)
            measure.done += len(items)
            left -= len(items)

    async def _request(self, measure: Measure, filler: Filler, sender: Instance, key: str, messages: int) -> None:
        answer = measure.timed("answer")
        for _ in range(messages):
            body = filler.body()
            begun = perf_counter()
            measure.sent += 1
            await sender.request(REQUEST, body, key, timeout=self._job.timeout)
            answer.add(perf_counter() - begun)
            measure.done += 1


class _Streams:
    """Subscribers, each with a connection of its own to the publisher."""

    def __init__(self, job: Job, peers: list[Peer], here: bool) -> None:
        self._job = job
        self._peers = peers
        self._here = here

    @classmethod
    async def open(cls, job: Job, ends: Ends, stack: AsyncExitStack) -> _Streams:
        remotes = ends.remotes
        if ends.publisher is not None:
            publisher = await stack.enter_async_context(create_streams(ends.publisher))
            bench_peer.publish(publisher)
            remotes = [Remote(*publisher.addresses[0])]
        peers = []
        for options in ends.subscribers:
            streams = await stack.enter_async_context(create_streams(options))
            peers.append(await streams.connect(remotes[0], timeout=job.timeout))
        return cls(job, peers, ends.publisher is not None)

    async def measure(self, measure: Measure) -> None:
        measure.begin()
        await _together(
            [
                partial(self._take, measure, peer, self._job.share(measure, number))
                for number, peer in enumerate(self._peers)
            ]
        )

    async def _take(self, measure: Measure, peer: Peer, elements: int) -> None:
        times = measure.timed("arrival") if self._here else None
        measure.sent += elements
        subscription = peer.subscribe(bench_peer.stream_name(measure.size, elements), prefetch=self._job.demand)
        async with subscription:
            async for run in subscription.runs():
                measure.done += len(run)
                if times is not None:
                    for element in run:
                        passed = age(element)
                        if passed is not None:
                            times.add(passed)
