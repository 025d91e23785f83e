"""`tolliver send`: one message, or each line of a file as one.

`tolliver replay` shares this code. Messages are sent in batches, one commit each, and a few batches may wait for their
acknowledgements at a time. Counts are the instance's: stored, number of recipients, acknowledged by all of them.
"""

from __future__ import annotations

import io
import json
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import anyio
import anyio.lowlevel
import typer
from attrs import define, field
from rich.progress import BarColumn, Progress

from tolliver_proto import OutboxFull, Receipt, Subscription
from tolliver_proto.errors import Undelivered
from tolliver_proto.node import PeerInfo

from .._messages.instance import Item
from .._options.instance import InstanceOptions
from ..anyio import Instance, create_instance
from . import standard, words
from .connecting import Interrupted, alongside, signals
from .schema import Encode
from .tables import progress

T = TypeVar("T")
BATCH = 1000  # messages in one commit
USUAL = {"limits.window_messages": 2048}
"""Defaults of options for sending files. A smaller window would let each side wait for the other."""
_UNDER_WAY = 20  # most batches that wait for acknowledgements
_POLL = 0.02  # seconds
_GRACE = 1.0  # seconds for a connected peer to announce its subscriptions
_UNRELIABLE_RUN = 100  # unreliable messages sent before other tasks get their turn


@define(frozen=True)
class Batch:
    """Messages that are sent together: stored in one commit, or sent unreliably. `size` is in bytes of the source."""

    items: list[Item]
    reliable: bool
    size: int = 0


@define(frozen=True, kw_only=True)
class Job:
    """Messages to send, and how. `timeout` is in seconds.

    - `batches`: iterator that reads incrementally.
    - `wanted`: a subscription that a recipient should have before sending begins (None: any).
    - `waits`: wait for the acknowledgements, up to `timeout`.
    - `rate`: messages per second.
    - `verb`, `unwanted`: words of the summary: what is counted, and why a message had no recipient.
    - `shown`: show a progress bar of `total` bytes.
    - `to`: the recipients, None for any (P-25).
    - `keeps`: the database stays after the command, so a later run can send what is left.
    """

    batches: Callable[[], AsyncGenerator[Batch, None]]
    wanted: Subscription | None
    waits: bool
    timeout: float
    rate: float | None = None
    verb: str
    unwanted: str
    shown: bool = True
    total: int | None = None
    to: list[UUID] | None = None
    keeps: bool = True


def job_of_lines(
    channel: str,
    key: str,
    source: bytes | Path | None,
    *,
    reliable: bool,
    waits: bool,
    timeout: float,
    to: list[UUID] | None = None,
    encode: Encode | None = None,
    keeps: bool = True,
) -> Job:
    """Messages from `source`: a body, or a path of which each line is one (None is standard input).

    `encode` converts each body. Raises OSError, and ValueError for a body that cannot be converted.
    """
    if encode is not None and isinstance(source, bytes):
        source, encode = encode(source, "the message"), None
    full = "" if reliable else ", or what is in flight to them has no room for more"
    batch = partial(_batch, channel, key, reliable, encode)
    return Job(
        batches=partial(_batches, source, batch),
        wanted=Subscription(channel, key),
        waits=waits and reliable,
        timeout=timeout,
        verb="stored" if reliable else "sent",
        unwanted=f"no peer is subscribed to {words.name(channel)} {words.name(key)}{full}",
        shown=not isinstance(source, bytes),
        total=source.stat().st_size or None if isinstance(source, Path) else None,
        to=to,
        keeps=keeps,
    )


def _batch(
    channel: str, key: str, reliable: bool, encode: Encode | None, bodies: list[bytes], before: int, size: int
) -> Batch:
    """Batch of these bodies, of `size` bytes of the source, to be stored (`reliable`) or not. `before` is the number of
    earlier lines, for error texts.
    """
    if encode is not None:
        bodies = [encode(body, f"line {at}") for at, body in enumerate(bodies, before + 1)]
    return Batch([(channel, key, body) for body in bodies], reliable, size)


_Make = Callable[[list[bytes], int, int], Batch]


async def _batches(source: bytes | Path | None, make: _Make) -> AsyncGenerator[Batch, None]:
    """Batches of a single body, or of lines as they become available."""
    if isinstance(source, bytes):
        yield make([source], 0, len(source))
        return
    count = 0
    async for lines, size in _lines(standard.standard_input() if source is None else _opened(source)):
        yield make(lines, count, size)
        count += len(lines)


def _opened(path: Path) -> io.FileIO:
    """A regular file, or a named pipe, whose writer may open it later."""
    return io.FileIO(path, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))


async def _lines(file: io.RawIOBase) -> AsyncGenerator[tuple[list[bytes], int], None]:
    """All complete lines that are available now, and their size in bytes. The last line may be without newline."""
    parts: list[bytes] = []  # of an incomplete line
    with file:
        async for piece in standard.pieces(file):
            parts.append(piece)
            if b"\n" in piece:
                *lines, rest = b"".join(parts).split(b"\n")
                parts = [rest] if rest else []
                yield lines, sum(map(len, lines)) + len(lines)
    if parts:
        yield [b"".join(parts)], sum(map(len, parts))


@define
class Tally:
    """Counts of a run so far, in messages except where noted.

    `reliable` of those read are to be stored; `stored` and (unreliably) `sent` are those with recipients; `recipients`
    is their smallest and largest number. `connected` is the number of peers when the first is sent, `waiting` the peers
    with unacknowledged messages at the end. Times are from `begun` to `ended`, without connecting and closing.
    """

    read: int = 0
    read_bytes: int = 0
    reliable: int = 0
    stored: int = 0
    sent: int = 0
    unwanted: int = 0
    acknowledged: int = 0
    deliveries: int = 0
    recipients: tuple[int, int] = (0, 0)
    connected: int = 0
    waiting: list[PeerInfo] = field(factory=list)
    begun: float = field(factory=time.monotonic)
    ended: float | None = None

    @property
    def seconds(self) -> float:
        """Duration of the sending in seconds, so far or in all."""
        return (time.monotonic() if self.ended is None else self.ended) - self.begun

    def begin(self, batch: Batch) -> None:
        self.read += len(batch.items)
        self.read_bytes += batch.size
        if batch.reliable:
            self.reliable += len(batch.items)

    def add(self, counts: list[int], reliable: bool) -> None:
        """Count messages that were stored (`reliable`) or sent, each with its number of recipients."""
        wanted = [count for count in counts if count]
        self.unwanted += len(counts) - len(wanted)
        if reliable:
            self.stored += len(wanted)
        else:
            self.sent += len(wanted)
        self.deliveries += sum(wanted)
        if wanted:
            low, high = self.recipients
            self.recipients = min(min(wanted), low or wanted[0]), max(max(wanted), high)

    def settle(self, receipt: Receipt) -> None:
        """Count a receipt that is not waited for any more. A message without recipients may have got one since
        (T-62)."""
        nobody = sum(one.count for one in receipt.undelivered if one.peer is None)
        self.acknowledged += len(receipt.counts) - nobody - receipt.unacked
        late = 0 if receipt.unacked else receipt.counts.count(0) - nobody
        self.unwanted -= late
        self.add([1] * late, True)

    def summary(self, job: Job) -> str:
        """Summary in one line of text."""
        low, high = self.recipients
        recipients = words.count(high, "recipient") if low == high else f"{low:,} to {high:,} recipients"
        done = self.stored + self.sent
        said = [f"{job.verb} {done:,} of {words.count(self.read, 'message')} for {recipients}"]
        if self.deliveries > done:
            said.append(f"{self.deliveries:,} deliveries")
        if job.waits:
            said.append(f"{self.acknowledged:,} acknowledged")
        return f"{', '.join(said)}, in {self.seconds:.2f} s ({done / max(self.seconds, 1e-6):,.0f}/s)"

    def facts(self, job: Job) -> dict[str, object]:
        """Summary in JSON types."""
        low, high = self.recipients
        return {
            "messages": self.read,
            "connected": self.connected,
            "stored": self.stored,
            "sent_unreliably": self.sent,
            "nobody_wants": self.unwanted,
            "deliveries": self.deliveries,
            "recipients": {"least": low, "most": high},
            "acknowledged": self.acknowledged if job.waits else None,
            "unacknowledged": {str(peer.uuid): peer.pending for peer in self.waiting} if job.waits else None,
            "seconds": round(self.seconds, 3),
        }

    def waiting_words(self) -> Iterator[str]:
        """One line about each peer that has not acknowledged everything."""
        for peer in self.waiting:
            where = f"connected from {words.line(peer.address)}" if peer.connected else "not connected"
            yield f"{peer.uuid}, {where}, has not acknowledged {words.count(peer.pending, 'message')}"

    def unwanted_words(self, job: Job) -> str:
        """One line about messages without recipients."""
        some = f"{self.unwanted:,} of {words.count(self.read, 'message')} not"
        kept = "nothing" if self.unwanted == self.read else some
        return f"{words.count(self.connected, 'peer')} connected, {kept} {job.verb}: {job.unwanted}"

    def is_complete(self, job: Job) -> bool:
        """True if all reliable messages were stored and, if asked for, acknowledged."""
        return self.stored == self.reliable and (not job.waits or self.acknowledged == self.stored)


async def send(options: InstanceOptions, job: Job, tally: Tally, show: Callable[[], None]) -> None:
    """Send everything, counting in `tally`; `show` is called after each change. Raises TimeoutError if acks are
    missing.

    A signal ends reading: messages read so far are stored, and Interrupted is raised.
    """
    sender = _Sender(job, tally, show)
    with signals() as told:
        await alongside(partial(sender.send, options), [partial(sender.watch, told)])


async def _meet(instance: Instance, options: InstanceOptions, job: Job) -> None:
    """Wait for recipients to connect, as messages go only to those that have subscribed by then (T-53)."""
    remotes = options.remotes
    with anyio.move_on_after(job.timeout):
        for remote in remotes:
            await instance.new_connection(remote)
        with anyio.move_on_after(_GRACE if options.listen is None else None):
            async with instance.events() as events:
                while not any(peer.connected and _wants(peer, job) for peer in instance.peers()):
                    await anext(events)
            return
    connected = sum(peer.connected for peer in instance.peers())
    if connected < max(1, len(remotes)):
        said = f"{words.count(connected, 'peer')} connected within {job.timeout:g} s; sending all the same"
        words.say("; ".join((said, *missing(instance))))


def missing(instance: Instance) -> list[str]:
    """Text about each unconnected remote, with the reason."""
    return [words.line(f"{one.remote}: {one.error}") for one in instance.remotes() if one.error]


def _wants(peer: PeerInfo, job: Job) -> bool:
    sought = job.wanted
    return (job.to is None or peer.uuid in job.to) and any(
        sought is None or (wanted.channel in ("", sought.channel) and wanted.key in ("", sought.key))  # T-24
        for wanted in peer.subscriptions
    )


class _Sender:
    """Sends batches. `_under_way` has the receipts of stored batches without acknowledgement, oldest first.

    A signal ends waiting for input, for the rate and for acknowledgements; messages read so far are stored.
    """

    _instance: Instance

    def __init__(self, job: Job, tally: Tally, show: Callable[[], None]) -> None:
        self._job = job
        self._tally = tally
        self._show = show
        self._under_way: deque[Receipt] = deque()
        self._reading: anyio.CancelScope | None = None
        self._interrupted: Interrupted | None = None

    async def watch(self, told: Callable[[], Awaitable[None]]) -> None:
        """Wait for a signal, at which `told` raises Interrupted; then end reading. Raises Interrupted if nothing has
        been read yet."""
        try:
            await told()
        except Interrupted as signalled:
            if self._reading is None:
                raise
            self._interrupted = signalled
            self._reading.cancel()

    async def send(self, options: InstanceOptions) -> None:
        async with create_instance(options) as self._instance:
            await _meet(self._instance, options, self._job)
            self._tally.begun = time.monotonic()
            self._tally.connected = sum(peer.connected for peer in self._instance.peers())
            try:
                with anyio.CancelScope() as self._reading:
                    await self._send_batches()
                    if self._job.keeps:
                        await self._settle_to(0)
                if not self._job.keeps:
                    await self._settle_to(0)
            finally:
                for receipt in self._under_way:
                    self._tally.settle(receipt)
                if self._under_way:
                    self._tally.waiting = [peer for peer in self._instance.peers() if peer.pending]
                self._tally.ended = time.monotonic()
        if self._interrupted is not None:
            raise self._interrupted

    async def _send_batches(self) -> None:
        async with aclosing(self._job.batches()) as batches:
            async for batch in batches:
                try:
                    await self._keep_pace()
                finally:  # at a signal, too
                    with anyio.CancelScope(shield=True):
                        self._tally.begin(batch)
                        for at in range(0, len(batch.items), BATCH):
                            await self._send_some(batch.items[at : at + BATCH], batch.reliable)
                self._show()
                await self._settle_to(_UNDER_WAY)

    async def _send_some(self, items: list[Item], reliable: bool) -> None:
        if not reliable:
            await self._send_unreliably(items)
            return
        receipt = await self._store(items)
        self._tally.add(receipt.counts, True)
        if self._job.waits:
            self._under_way.append(receipt)

    async def _keep_pace(self) -> None:
        if self._job.rate is not None:
            due = self._tally.begun + self._tally.read / self._job.rate
            await anyio.sleep(max(0.0, due - time.monotonic()))

    async def _store(self, items: list[Item]) -> Receipt:
        """Store items, waiting for space in the outbox up to the time limit."""
        deadline = time.monotonic() + self._job.timeout
        while True:
            try:
                return await self._instance.send_many(items, to=self._job.to)
            except OutboxFull:
                if time.monotonic() > deadline or self._interrupted is not None:
                    raise
            await anyio.sleep(_POLL)

    async def _send_unreliably(self, items: list[Item]) -> None:
        for number, item in enumerate(items):
            self._tally.add([self._instance.unreliable_send(*item, to=self._job.to)], False)
            if number % _UNRELIABLE_RUN == 0:
                await anyio.lowlevel.checkpoint()

    async def _settle_to(self, most: int) -> None:
        """Wait until at most `most` batches are unacknowledged; the job's time limit applies to the oldest one."""
        while len(self._under_way) > most:
            try:
                await self._instance.wait_acked(self._under_way[0], timeout=self._job.timeout)
            except TimeoutError as error:
                self._under_way = deque(receipt for receipt in self._under_way if receipt.recipients)
                if not self._under_way:
                    return  # nothing is stored for any peer: the expected one has not connected
                late = (
                    f"no acknowledgement within {self._job.timeout:g} s: what is stored goes out with the next run on "
                    "this database, if it was given one"
                )
                raise TimeoutError("; ".join((late, *missing(self._instance)))) from error
            except Undelivered as error:
                if error.peer is not None:  # None: no recipients, as the summary reports
                    raise
            self._tally.settle(self._under_way.popleft())
            self._show()


def send_and_report(
    job: Job, run: Callable[[Callable[[], Awaitable[None]]], None], options: InstanceOptions, as_json: bool = False
) -> bool:
    """Send, and print the summary in any case, with `as_json` as JSON. `run` runs a coroutine function on a loop.
    Returns True if all reliable messages were stored and acknowledged.
    """
    tally = Tally()
    bar, move = _progress(job, tally)
    try:
        with bar:
            run(partial(send, options, job, tally, move))
    finally:
        if tally.read:
            typer.echo(json.dumps(tally.facts(job)) if as_json else tally.summary(job))
        if job.waits:
            for line in tally.waiting_words():
                words.say(line)
        if tally.unwanted:
            words.say(tally.unwanted_words(job))
    return tally.is_complete(job)


def _progress(job: Job, tally: Tally) -> tuple[Progress, Callable[[], None]]:
    """Progress bar for a file, on a terminal, and the function that updates it."""
    bar = progress(BarColumn(), shown=job.shown)
    task = bar.add_task("connecting", total=job.total)

    def move() -> None:
        said = f"{job.verb} {tally.stored + tally.sent:,}"
        if job.waits:
            said += f", acknowledged {tally.acknowledged:,}"
        bar.update(task, completed=tally.read_bytes, description=said)

    return bar, move
