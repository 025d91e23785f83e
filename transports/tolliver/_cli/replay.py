"""`tolliver replay`: sends the messages of recordings again.

A recording has a message once for each recipient, and again for each resend. Copies are recognized by id and checksum,
so each message is sent once. Other frames are left out: the new connections have handshakes, subscriptions and acks of
their own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from uuid import UUID

import anyio.to_thread
from attrs import evolve

from tolliver_proto import Message, Revision
from tolliver_proto.layouts import checksum_of
from tolliver_proto.recording import BlockHeader, Direction

from .decode import Placed, frames_in
from .recordings import Filter
from .send import BATCH, Batch, Job

_REMEMBERED = 100_000  # most messages remembered to recognize copies
_PACES = 10  # batches per second if a rate is given

_Name = tuple[UUID | None, int]


def job_of_recordings(
    files: list[Path],
    wanted: Filter,
    failures: list[str],
    *,
    rate: float | None,
    waits: bool,
    timeout: float,
    keeps: bool,
) -> Job:
    """Job that sends all wanted messages of the files, in order, at most `rate` a second. `timeout` is in seconds;
    `waits` and `keeps` are those of Job. Texts about damage are appended to `failures` as it is found. Raises OSError.
    """
    if wanted.direction is None:
        wanted = evolve(wanted, direction=Direction.OUT)
    most = BATCH if rate is None else max(1, min(BATCH, int(rate / _PACES)))
    return Job(
        batches=partial(_off_loop, partial(_batches, files, wanted, most, failures)),
        wanted=None,
        waits=waits,
        timeout=timeout,
        rate=rate,
        verb="replayed",
        unwanted="no peer is subscribed to them, or what is in flight to them has no room for more",
        total=sum(path.stat().st_size for path in files),
        keeps=keeps,
    )


async def _off_loop(batches: Callable[[], Iterator[Batch]]) -> AsyncGenerator[Batch, None]:
    """Iterate over batches, read in a thread."""
    reading = batches()
    while (batch := await anyio.to_thread.run_sync(next, reading, None)) is not None:
        yield batch


def _batches(files: list[Path], wanted: Filter, most: int, failures: list[str]) -> Iterator[Batch]:
    rows = once(row for path in files for row in _messages(path, wanted, failures))
    for reliable, run in groupby(rows, lambda row: row[1].message_id is not None):
        while batch := list(islice(run, most)):
            items = [(message.channel, message.key, message.body) for _, message in batch]
            yield Batch(items, reliable, sum(size for size, _ in batch))


def _messages(path: Path, wanted: Filter, failures: list[str]) -> Iterator[Placed]:
    found: list[str] = []
    with path.open("rb") as file:
        yield from frames_in(file, path, Revision.DRAFT_2, wanted, found)
    failures += [f"{path}: {failure}" for failure in found]


def once(rows: Iterable[Placed]) -> Iterator[tuple[int, Message]]:
    """Each message among the frames, after its frame's size in bytes. A reliable message that was sent again, known by
    sender, id and checksum, comes only once.
    """
    seen: dict[tuple[_Name, int], None] = {}
    for row in rows:
        if not isinstance(row.frame, Message):
            continue
        name = _name(row.header, row.frame)
        if name is not None:
            one = name, checksum_of(row.frame)
            if one in seen:
                continue
            if len(seen) >= _REMEMBERED:
                del seen[next(iter(seen))]
            seen[one] = None
        yield row.size, row.frame


def _name(header: BlockHeader | None, message: Message) -> _Name | None:
    """Sender and message id, which name a message; None for an unreliable one (T-42), or one from a stream without
    headers.
    """
    if header is None or message.message_id is None:
        return None
    return (header.local if header.direction is Direction.OUT else header.peer, message.message_id)
