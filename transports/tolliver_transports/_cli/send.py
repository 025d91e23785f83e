"""`tolliver send`: one message, or each line of a file as one.

The idea: lines go out in batches, one commit each, and a few batches may wait for their acknowledgements at once. What
is counted is what the instance says: stored, for how many recipients, acknowledged by all of them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import anyio
import anyio.lowlevel
import anyio.to_thread
import typer
from attrs import define, field
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tolliver_proto import OutboxFull, PeerInfo, Receipt

from .._options import InstanceOptions
from ..anyio import Instance, create_instance
from . import words

_BATCH = 1000  # messages in one commit
_UNDER_WAY = 20  # batches that may wait for their acknowledgements
_POLL = 0.02  # seconds
_GRACE = 1.0  # seconds for a connected peer that is still starting to say what it wants
_UNRELIABLE_RUN = 100  # messages before the connections have their turn


@define(frozen=True, kw_only=True)
class Job:
    """What to send and how. `source` is a body, or a path of which each line is one (None is standard input)."""

    channel: str
    key: str
    source: bytes | Path | None
    reliable: bool
    waits: bool
    timeout: float

    def batches(self) -> Iterator[list[bytes]]:
        """The bodies. Reads as it goes: call it off the loop."""
        if isinstance(self.source, bytes):
            yield [self.source]
        elif self.source is None:
            yield from _lines(sys.stdin.buffer)
        else:
            with self.source.open("rb") as file:
                yield from _lines(file)


def _lines(file: BinaryIO) -> Iterator[list[bytes]]:
    while batch := [line.removesuffix(b"\n") for line in islice(file, _BATCH)]:
        yield batch


@define
class Tally:
    """How it stands. All but the times and `recipients`, the smallest and largest number of them, count messages."""

    read: int = 0
    read_bytes: int = 0
    stored: int = 0
    unwanted: int = 0
    acknowledged: int = 0
    recipients: tuple[int, int] = (0, 0)
    begun: float = field(factory=time.monotonic)

    def add(self, counts: list[int]) -> None:
        """These are stored or sent, each for so many recipients; for none at all where nobody wants it."""
        wanted = [count for count in counts if count]
        self.unwanted += len(counts) - len(wanted)
        self.stored += len(wanted)
        if wanted:
            low, high = self.recipients
            self.recipients = min(min(wanted), low or wanted[0]), max(max(wanted), high)

    def summary(self, job: Job) -> str:
        """One line for people."""
        seconds = time.monotonic() - self.begun
        low, high = self.recipients
        recipients = words.count(high, "recipient") if low == high else f"{low:,} to {high:,} recipients"
        said = [
            f"{'stored' if job.reliable else 'sent'} {self.stored:,} of {words.count(self.read, 'message')} "
            f"for {recipients}"
        ]
        if job.waits:
            said.append(f"{self.acknowledged:,} acknowledged")
        return f"{', '.join(said)}, in {seconds:.2f} s ({self.stored / max(seconds, 1e-6):,.0f}/s)"

    def is_complete(self, job: Job) -> bool:
        """Whether nothing reliable was left unstored or, if that is asked for, unacknowledged."""
        if not job.reliable:
            return True
        return self.stored == self.read and (not job.waits or self.acknowledged == self.stored)


async def send(options: InstanceOptions, job: Job, tally: Tally, show: Callable[[], None]) -> None:
    """Send it all, counting in `tally`; `show` is called when that changed. Raises TimeoutError where acks stay out."""
    async with create_instance(options) as instance:
        await _meet(instance, job)
        tally.begun = time.monotonic()
        await _Sender(instance, job, tally, show).send()


async def _meet(instance: Instance, job: Job) -> None:
    """Give recipients time to connect: messages go to those who have subscribed by then (T-53)."""
    remotes = instance.options.remotes
    with anyio.move_on_after(job.timeout):
        for remote in remotes:
            await instance.new_connection(remote)
        with anyio.move_on_after(_GRACE if instance.options.listen is None else None):
            # A second of polling is simpler than an event for each thing that peers may do.
            while not any(peer.connected and _wants(peer, job) for peer in instance.peers()):  # noqa: ASYNC110
                await anyio.sleep(_POLL)
            return
    connected = sum(peer.connected for peer in instance.peers())
    if connected < max(1, len(remotes)):
        words.say(f"{words.count(connected, 'peer')} connected within {job.timeout:g} s; sending all the same")


def _wants(peer: PeerInfo, job: Job) -> bool:
    return any(
        wanted.channel in ("", job.channel) and wanted.key in ("", job.key)  # T-24
        for wanted in peer.subscriptions
    )


class _Sender:
    def __init__(self, instance: Instance, job: Job, tally: Tally, show: Callable[[], None]) -> None:
        self._instance = instance
        self._job = job
        self._tally = tally
        self._show = show
        self._under_way: set[Receipt] = set()
        self._acknowledged = anyio.Event()

    async def send(self) -> None:
        tally = self._tally
        batches = self._job.batches()
        failure: Exception | None = None
        async with anyio.create_task_group() as waiting:
            try:
                while (bodies := await anyio.to_thread.run_sync(next, batches, None)) is not None:
                    tally.read += len(bodies)
                    tally.read_bytes += sum(map(len, bodies)) + len(bodies)
                    if self._job.reliable:
                        receipt = await self._store(bodies)
                        tally.add(receipt.counts)
                        if self._job.waits:
                            self._under_way.add(receipt)
                            waiting.start_soon(self._wait, receipt)
                    else:
                        await self._send_unreliably(bodies)
                    self._show()
                    await self._settle_to(_UNDER_WAY)
                await self._settle_to(0)
            except Exception as error:  # carried out of the task group, which would wrap it
                failure = error
            waiting.cancel_scope.cancel()
        for receipt in self._under_way:
            tally.acknowledged += sum(map(bool, receipt.counts)) - receipt.unacked
        if failure is not None:
            raise failure

    async def _store(self, bodies: list[bytes]) -> Receipt:
        """Waits for room in the outbox, as long as the time limit says."""
        items = [(self._job.channel, self._job.key, body) for body in bodies]
        deadline = time.monotonic() + self._job.timeout
        while True:
            try:
                return await self._instance.send_many(items)
            except OutboxFull:
                if time.monotonic() > deadline:
                    raise
            await anyio.sleep(_POLL)

    async def _send_unreliably(self, bodies: list[bytes]) -> None:
        for number, body in enumerate(bodies):
            self._tally.add([self._instance.unreliable_send(self._job.channel, self._job.key, body)])
            if number % _UNRELIABLE_RUN == 0:
                await anyio.lowlevel.checkpoint()

    async def _wait(self, receipt: Receipt) -> None:
        await self._instance.wait_acked(receipt)
        self._under_way.discard(receipt)
        self._tally.acknowledged += sum(map(bool, receipt.counts))
        self._acknowledged.set()
        self._show()

    async def _settle_to(self, most: int) -> None:
        """Wait until no more than so many batches are under way; each has the whole time limit."""
        while len(self._under_way) > most:
            self._acknowledged = anyio.Event()
            with anyio.move_on_after(self._job.timeout) as waited:
                await self._acknowledged.wait()
            if waited.cancelled_caught:
                raise TimeoutError(
                    f"no acknowledgement within {self._job.timeout:g} s: what is stored goes out with the next run on "
                    "this database"
                )


def send_and_report(job: Job, run: Callable[[Callable[[], Awaitable[None]]], None], options: InstanceOptions) -> bool:
    """Send, and print the summary however it ends. Returns whether nothing reliable was left behind."""
    tally = Tally()
    bar, move = _progress(job, tally)
    try:
        with bar:
            run(partial(send, options, job, tally, move))
    finally:
        if tally.read:
            typer.echo(tally.summary(job))
        if tally.unwanted:
            nowhere = f"{words.count(tally.unwanted, 'message')} sent to 0 recipients"
            kept = "nothing was kept" if job.reliable else "or what is under way to them has no room for more"
            words.say(f"{nowhere}: no peer is subscribed to {words.name(job.channel)} {words.name(job.key)}, {kept}")
    return tally.is_complete(job)


def _progress(job: Job, tally: Tally) -> tuple[Progress, Callable[[], None]]:
    """A progress bar for a file, on a terminal; and the function that moves it."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal or isinstance(job.source, bytes),
    )
    task = bar.add_task("connecting", total=job.source.stat().st_size if isinstance(job.source, Path) else None)

    def move() -> None:
        said = (
            f"stored {tally.stored:,}, acknowledged {tally.acknowledged:,}" if job.waits else f"sent {tally.stored:,}"
        )
        bar.update(task, completed=tally.read_bytes, description=said)

    return bar, move
