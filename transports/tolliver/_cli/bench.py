"""`tolliver bench`: rates and latencies of messages, requests and streams.

Nothing is simulated: connections use mutual TLS over TCP, and each instance has a database with syncs. Each sender is
an instance of its own, and waits for a reply, or for the acknowledgement of a batch, before it continues; more senders
or a larger batch mean more in flight. The peer is in this process, or a `tolliver bench --serve` elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
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
from rich.progress import BarColumn

from tolliver_proto import Delivery

from .._options.instance import InstanceOptions, Remote
from .._options.reading import arguments, parse
from .._options.streams import StreamsOptions
from ..anyio import Instance, Peer, create_instance, create_streams
from ..certs import make_ca, make_certificate
from . import bench_peer
from .bench_peer import COUNT, PUBLISH, REQUEST, SEND, Filler, age
from .connecting import Place, alongside
from .measures import HEADS, Kind, Measure
from .send import missing
from .tables import print_table, progress
from .watching import options_of, remotes_of

_TURN = 32  # unreliable messages sent before other tasks get their turn
_FULL = 0.001  # seconds until the next try when a send buffer is full
_POLL = 0.01
_SILENCE = 2.0  # seconds without a message, after which no more are expected
_TICK = 0.1

COUNTS = {Kind.PUBLISH: 50_000, Kind.SEND: 10_000, Kind.REQUEST: 2_000, Kind.STREAM: 50_000}
"""Messages, where nothing else is said."""
_OF_MESSAGES = (Kind.PUBLISH, Kind.SEND, Kind.REQUEST)


@define(frozen=True, kw_only=True)
class Job:
    """Work that a benchmark measures: each kind of work at each size of a body in bytes, with `messages` of each (None:
    the kind's default). `timeout` is in seconds.
    """

    kinds: Sequence[Kind]
    sizes: Sequence[int]
    messages: int | None
    senders: int
    batch: int
    demand: int
    timeout: float

    def shares(self, measure: Measure) -> list[int]:
        """Number of messages of each sender."""
        whole, rest = divmod(measure.messages, self.senders)
        return [whole + (number < rest) for number in range(self.senders)]


def kinds_of(typed: Sequence[Kind], place: Place) -> list[Kind]:
    """Kinds to measure: those typed, or all that the peer of `place` has. Raises ValueError if they cannot all be
    measured with one peer.
    """
    if not place.meeting.connect:
        return list(typed or Kind)
    if Kind.STREAM in typed and len(set(typed)) > 1:
        raise ValueError(
            "stream has a port of its own at the other end (`tolliver bench stream --serve`): run it alone"
        )
    return list(typed or _OF_MESSAGES)


def bench_and_report(
    job: Job, place: Place, run: Callable[[Callable[[], Awaitable[None]]], None], *, as_json: bool
) -> None:
    """Measure with the peer of `place`, and print the results, also after an error or interrupt. `run` runs a coroutine
    function on a loop.
    """
    measures = [
        Measure(kind, size, job.messages or COUNTS[kind], job.senders, job.batch if kind is Kind.SEND else 1)
        for kind in job.kinds
        for size in job.sizes
    ]
    bar = progress(BarColumn())
    task = bar.add_task("connecting", total=None)

    def show(measure: Measure) -> None:
        said = f"{measure.kind}, {measure.size:,} bytes: {measure.done:,}, {measure.rate:,.0f}/s"
        bar.update(task, completed=measure.done, total=measure.messages, description=said)

    try:
        with bar, TemporaryDirectory(prefix="tolliver-bench-") as directory:
            run(partial(_bench, job, _ends(job, place, Path(directory)), measures, show))
    finally:
        begun = [one for one in measures if one.done]
        if as_json:
            for one in begun:
                typer.echo(json.dumps(one.facts()))
        elif begun:
            print_table(HEADS, [line for one in begun for line in one.lines()])


# Both sides.


@define(eq=False)
class Ends:
    """Options of all instances and streams of a benchmark: `remotes` is the peer elsewhere; or `peer` and `publisher`
    are the options of the peer in this process.
    """

    senders: Sequence[InstanceOptions] = ()
    subscribers: Sequence[StreamsOptions] = ()
    remotes: Sequence[Remote] = ()
    peer: InstanceOptions | None = None
    publisher: StreamsOptions | None = None


def _ends(job: Job, place: Place, directory: Path) -> Ends:
    """Options of both ends, for the job and the peer of `place`; databases go into the directory. Raises ValueError if
    something is missing or invalid.
    """
    meeting = place.meeting
    if not meeting.connect:
        return _both_ends(job, place, directory)
    if len(meeting.connect) != 1 or meeting.listen is not None:
        raise ValueError("with whom? Give one --connect HOST:PORT, where `tolliver bench --serve` listens")
    if Kind.STREAM in job.kinds:
        return Ends(subscribers=[options_of(meeting)] * job.senders, remotes=remotes_of(meeting))
    places = [place]
    if job.senders > 1:  # each instance needs its own certificate and database
        if meeting.identity.name is None or place.database is not None:
            raise ValueError(
                f"{job.senders} senders are {job.senders} instances: give --certs DIR --name NAME, where "
                f"`tolliver certs DIR NAME-1 ... NAME-{job.senders}` made their certificates, and no --database"
            )
        names = [f"{meeting.identity.name}-{number}" for number in range(1, job.senders + 1)]
        identities = [evolve(meeting.identity, name=name) for name in names]
        places = [evolve(place, meeting=evolve(meeting, identity=one)) for one in identities]
    return Ends([one.options(dial=True) for one in places], remotes=place.remotes)


def _both_ends(job: Job, place: Place, directory: Path) -> Ends:
    """Options for a job with both sides in this process, with temporary certificates; databases go into the directory.
    Raises ValueError.
    """
    meeting, who = place.meeting, place.meeting.identity
    given = (meeting.listen, meeting.acl, meeting.spki, place.database, place.record)
    if any(one is not None for one in given) or (who.is_given and not who.plaintext):
        raise ValueError("certificates, --database and the like go with --connect or --serve: alone it makes its own")
    if not who.plaintext:
        make_ca(directory)
    chosen = arguments(parse(place.flags))

    def common(name: str) -> dict[str, Any]:
        if not who.plaintext:
            make_certificate(directory, name)
            return {"tls": evolve(who, certs=directory, name=name).tls()}
        return {"tls": who.tls(), "plaintext": True}

    def instance(name: str, **more: Any) -> InstanceOptions:
        database = directory / f"{name}.db"
        return InstanceOptions(database=database, revision=place.revision, **common(name), **chosen, **more)

    ends, numbers = Ends(), range(job.senders)
    if any(one in job.kinds for one in _OF_MESSAGES):
        ends.peer = instance("peer", listen="127.0.0.1:0")
        ends.senders = [instance(f"sender{number}") for number in numbers]
    if Kind.STREAM in job.kinds:
        ends.publisher = StreamsOptions(listen="127.0.0.1:0", **common("publisher"))
        ends.subscribers = [StreamsOptions(**common(f"subscriber{number}")) for number in numbers]
    return ends


# Work.


async def _bench(job: Job, ends: Ends, measures: Sequence[Measure], show: Callable[[Measure], None]) -> None:
    async with AsyncExitStack() as stack:
        messages, streams = _Messages(job, ends.peer is not None), _Streams(job, ends.publisher is not None)
        await messages.open(ends, stack)
        await streams.open(ends, stack)
        for measure in measures:
            work = streams if measure.kind is Kind.STREAM else messages
            try:
                await alongside(partial(work.measure, measure), [partial(_keep_showing, measure, show)])
                measure.complete = True
            finally:
                measure.end()


async def _keep_showing(measure: Measure, show: Callable[[Measure], None]) -> None:
    while True:
        show(measure)
        await anyio.sleep(_TICK)


class _Messages:
    """Senders of messages, connected to the peer. `here`: the peer is in this process."""

    def __init__(self, job: Job, here: bool) -> None:
        self._job = job
        self._here = here
        self._senders: list[Instance] = []
        self._keys = map(str, count())
        self._run = token_hex(8)
        self._measure: Measure | None = None
        self._last = 0.0

    async def open(self, ends: Ends, stack: AsyncExitStack) -> None:
        remotes = ends.remotes
        if ends.peer is not None:
            peer = await stack.enter_async_context(create_instance(ends.peer))
            await bench_peer.take(peer, self._taken)
            remotes = [Remote(*peer.addresses[0])]
        for options in ends.senders:
            self._senders.append(await stack.enter_async_context(create_instance(options)))
        async with anyio.create_task_group() as group:
            for sender in self._senders:
                group.start_soon(self._meet, sender, remotes[0])

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
        work = {Kind.PUBLISH: self._publish, Kind.SEND: self._send, Kind.REQUEST: self._request}[measure.kind]
        filler, keys = Filler(measure.size), [f"{self._run}/{next(self._keys)}" for _ in self._senders]
        self._measure = measure
        measure.begin()
        async with anyio.create_task_group() as group:
            for sender, key, share in zip(self._senders, keys, self._job.shares(measure), strict=True):
                group.start_soon(work, measure, filler, sender, key, share)
        if measure.kind is Kind.PUBLISH:
            await self._arrive(measure, keys)
        self._measure = None

    def _taken(self, delivery: Delivery) -> None:
        """Count an unreliable message that has arrived in this process."""
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
        """Wait until all messages of `measure` have arrived, or no more do."""
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
        """Ask the peer how many messages with these keys have arrived, and note that in `measure`."""
        replies = [
            await sender.request(COUNT, b"", key, timeout=self._job.timeout)
            for sender, key in zip(self._senders, keys, strict=True)
        ]
        measure.done = sum(int(reply.body) for reply in replies)
        self._last = perf_counter()

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
    """Subscribers, each with its own connection to the publisher. `here`: the publisher is in this process."""

    def __init__(self, job: Job, here: bool) -> None:
        self._job = job
        self._here = here
        self._peers: list[Peer] = []

    async def open(self, ends: Ends, stack: AsyncExitStack) -> None:
        remotes = ends.remotes
        if ends.publisher is not None:
            publisher = await stack.enter_async_context(create_streams(ends.publisher))
            bench_peer.publish(publisher)
            remotes = [Remote(*publisher.addresses[0])]
        for options in ends.subscribers:
            streams = await stack.enter_async_context(create_streams(options))
            self._peers.append(await streams.connect(remotes[0], timeout=self._job.timeout))

    async def measure(self, measure: Measure) -> None:
        measure.begin()
        async with anyio.create_task_group() as group:
            for peer, share in zip(self._peers, self._job.shares(measure), strict=True):
                group.start_soon(self._take, measure, peer, share)

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
