"""Record batches with the schema that Spark expects, from blocks of recordings.

A block's header decides if the block is wanted, so others are not parsed. Wanted blocks are collected until a batch is
full; values of a header are repeated for each row. A batch has exactly the expected schema; columns that are not asked
for are not computed, and rows dropped by a filter are not copied.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tolliver_proto import Revision
from tolliver_proto.recording import Block, BlockHeader, Damage, Direction, FrameColumns

from ._columns import Booleans, Columns, Integers, Word, as_text, find_frames, likely, word_of
from ._moments import Moments, Part
from ._options import Mode, ReadOptions, TruncatedTail
from ._ranges import DamagedRecording, Range, blocks_in

_RUN_BYTES = 8 * 2**20  # most bytes of payloads in one batch, except a larger single one
_WORDS = 16  # most names of a filter for which messages are pre-selected
_TOLD = 10  # places of damage named in a task's log
_log = logging.getLogger("tolliver.spark")

_ARROW = {
    "string": pa.string(),
    "binary": pa.binary(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"),
}


def arrow_schema(columns: Mapping[str, str]) -> Any:
    """Arrow schema for columns given with Spark's types."""
    return pa.schema([(name, _ARROW[kind]) for name, kind in columns.items()])


class Match(NamedTuple):
    """A test of channels or keys: equal to one of `names`, beginning with one of `prefixes`, or as a whole as the
    regular expression `pattern` says."""

    names: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    pattern: str | None = None

    @property
    def words(self) -> list[Word]:
        """Tests of the first bytes of the names that it matches."""
        if self.pattern is not None:
            return [word_of(b"", whole=False)]
        exact = [word_of(name.encode(), whole=True) for name in self.names]
        return exact + [word_of(prefix.encode(), whole=False) for prefix in self.prefixes]

    def among(self, column: Any) -> Booleans:
        """Mask of the matching values of a binary column."""
        if self.pattern is not None:
            taken = pc.match_substring_regex(as_text(column), rf"\A(?:{self.pattern})\z")
            return np.asarray(taken.to_numpy(zero_copy_only=False))
        taken = pc.is_in(column, pa.array([name.encode() for name in sorted(self.names)], column.type))
        for prefix in self.prefixes:
            taken = pc.or_(taken, pc.starts_with(column, prefix.encode()))
        return np.asarray(taken.to_numpy(zero_copy_only=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Filter of blocks and their messages. All given conditions must hold; times are in nanoseconds since 1970."""

    direction: Direction | None = None
    peers: frozenset[UUID] = frozenset()
    senders: tuple[frozenset[str], ...] = ()
    since: int = 0
    until: int = 2**64
    channels: tuple[Match, ...] = ()
    keys: tuple[Match, ...] = ()

    @classmethod
    def of(cls, options: ReadOptions) -> Wanted:
        """The filter for these options."""
        exact = frozenset(key for key in options.keys if not key.endswith("*"))
        prefixes = tuple(key[:-1] for key in options.keys if key.endswith("*"))
        return cls(
            direction=options.direction,
            peers=frozenset(options.peers),
            since=0 if options.time_from is None else options.time_from,
            until=2**64 if options.time_to is None else options.time_to,
            channels=_channels(options),
            keys=(Match(exact, prefixes),) if options.keys else (),
        )

    def takes_block(self, header: BlockHeader) -> bool:
        return (
            self.direction in (None, header.direction)
            and (not self.peers or header.peer in self.peers)
            and self.since <= header.time_ns
            and header.first_time_ns < self.until
            and all(sender(header) in senders for senders in self.senders)
        )

    @property
    def timed(self) -> bool:
        """True if a block may have messages both inside and outside the time range."""
        return self.since > 0 or self.until < 2**64

    def of_time(self, times: Any) -> Booleans:
        """Mask of times inside the range."""
        last = min(self.until, 2**64) - 1
        return np.asarray((times >= np.uint64(max(self.since, 0))) & (times <= np.uint64(last)))

    def likely(self, piece: Piece, starts: Integers) -> Integers:
        """The offsets among `starts` of messages that may be wanted, found without making columns."""
        for part, matches in (("channel", self.channels), ("key", self.keys)):
            for match in matches:
                if len(match.words) <= _WORDS:
                    starts = starts[likely(piece.payload, starts, part, match.words, piece.header.revision)]
        return starts

    def rows(self, columns: Columns) -> Integers:
        """Row numbers of wanted messages."""
        taken = columns.regular
        for matches, column in ((self.channels, columns.channel), (self.keys, columns.key)):
            for match in matches:
                taken = taken & match.among(column)
        return np.flatnonzero(taken)


def _channels(options: ReadOptions) -> tuple[Match, ...]:
    exact, pattern = options.channels, options.channel_pattern
    return ((Match(frozenset(exact)),) if exact else ()) + ((Match(pattern=pattern),) if pattern else ())


def sender(header: BlockHeader) -> str | None:
    """UUID of the sender of a block's frames; None if the peer was not known yet."""
    who = header.local if header.direction is Direction.OUT else header.peer
    return None if who is None else str(who)


class Piece(NamedTuple):
    """A payload that is read at once: whole frames of one direction, from a block that begins at byte `offset` of the
    file.
    """

    file: str | None
    offset: int
    header: BlockHeader
    payload: bytes
    columns: FrameColumns | None = None


def piece_of(file: str | None, block: Block) -> Piece:
    return Piece(file, block.payload_offset, block.header, block.payload, block.columns)


@dataclass(slots=True)
class _Run:
    """Payloads that are converted together, one after the other, as one run of bytes."""

    pieces: list[Piece] = field(default_factory=list)
    bases: list[int] = field(default_factory=list)  # of each piece: its offset in the concatenated bytes
    counts: list[int] = field(default_factory=list)  # of each piece: number of messages
    starts: list[Integers] = field(default_factory=list)  # of each piece: starts of its messages in these
    size: int = 0
    messages: int = 0

    def add(self, piece: Piece, starts: Sequence[int] | Integers) -> None:
        self.pieces.append(piece)
        self.bases.append(self.size)
        self.counts.append(len(starts))
        self.starts.append(np.asarray(starts, np.int64) + self.size)
        self.size += len(piece.payload)
        self.messages += len(starts)

    def data(self) -> bytes:
        payloads = [piece.payload for piece in self.pieces]
        return payloads[0] if len(payloads) == 1 else b"".join(payloads)

    def moments(self) -> Moments:
        """Times of all frames of the run, and their offsets in the file."""
        return Moments(
            [
                Part(base, base + len(piece.payload), piece.offset, piece.header.time_ns, piece.columns)
                for base, piece in zip(self.bases, self.pieces, strict=True)
            ]
        )


@dataclass
class _Batch:
    """The wanted messages of a run: their row numbers in it, and the number of each one's payload."""

    columns: Columns
    rows: Integers
    piece_of: Integers
    run: _Run

    @cached_property
    def moments(self) -> tuple[Any, Integers]:
        """Times of the wanted rows in nanoseconds since 1970, and the offsets of their frames in the file."""
        return self.run.moments().of(self.columns.offsets[self.rows])

    def text(self, column: Any) -> Any:
        """Values of the wanted rows, from a column of all channels or keys."""
        return as_text(column if len(self.rows) == len(self.columns) else column.take(pa.array(self.rows)))

    def spread(self, value: Callable[[Piece], Any], kind: Any) -> Any:
        """Arrow array of the type `kind`: the value of each payload, repeated for each of its rows."""
        return pa.array([value(piece) for piece in self.run.pieces], kind).take(pa.array(self.piece_of))


def _frame_offset(batch: _Batch) -> Any:
    shifts = [piece.offset - base for piece, base in zip(batch.run.pieces, batch.run.bases, strict=True)]
    return pa.array(batch.columns.offsets[batch.rows] + np.array(shifts, np.int64)[batch.piece_of])


_COLUMNS: dict[str, Callable[[_Batch], Any]] = {
    "channel": lambda batch: batch.text(batch.columns.channel),
    "key": lambda batch: batch.text(batch.columns.key),
    "body": lambda batch: batch.columns.part("body", batch.rows),
    "message_id": lambda batch: batch.columns.message_ids(batch.rows),
    "reliable": lambda batch: pa.array(batch.columns.reliable[batch.rows]),
    "sender": lambda batch: batch.spread(lambda piece: sender(piece.header), pa.string()),
    "received_at": lambda batch: pa.array((batch.moments[0] // 1000).astype(np.int64)).cast(_ARROW["timestamp"]),
    "file": lambda batch: batch.spread(lambda piece: piece.file, pa.string()),
    "frame_offset": _frame_offset,
    "direction": lambda batch: batch.spread(lambda piece: piece.header.direction.name.lower(), pa.string()),
    "place": lambda batch: pa.array(batch.moments[1]),
}
"""Makers of the columns."""


class BatchMaker:
    """Converts payloads of recordings to record batches of one schema."""

    def __init__(self, schema: Any, wanted: Wanted, rows_per_batch: int) -> None:
        """`schema` is an Arrow schema with some of `_COLUMNS`, in any order."""
        self._schema = schema
        self._wanted = wanted
        self._rows = rows_per_batch
        self._run = _Run()
        self._revision = Revision.DRAFT_2

    def add(self, piece: Piece, starts: Sequence[int] | Integers) -> Iterator[Any]:
        """Add a payload, with the offsets of its messages in it. Yields full batches."""
        starts = self._wanted.likely(piece, np.asarray(starts, np.int64))
        if not len(starts):
            return
        run, revision = self._run, piece.header.revision
        full = run.messages + len(starts) > self._rows or run.size + len(piece.payload) > _RUN_BYTES
        if full or revision is not self._revision:
            yield from self.finish()
        self._revision = revision
        self._run.add(piece, starts)

    def finish(self) -> Iterator[Any]:
        """Yield the remaining batches."""
        run, self._run = self._run, _Run()
        if not run.messages:
            return
        data, revision = run.data(), self._revision
        starts = np.concatenate(run.starts)
        piece_of = np.repeat(np.arange(len(run.pieces)), run.counts)
        for start in range(0, run.messages, self._rows):
            columns = Columns(data, starts[start : start + self._rows], revision)
            rows = self._wanted.rows(columns)
            if self._wanted.timed and len(rows):
                rows = rows[self._wanted.of_time(run.moments().of(columns.offsets[rows])[0])]
            if len(rows):
                batch = _Batch(columns, rows, piece_of[start + rows], run)
                arrays = [_COLUMNS[name](batch) for name in self._schema.names]
                yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)


class Policy:
    """Treatment of damage, as the options say: raise, or skip, count and log it."""

    def __init__(self, options: ReadOptions) -> None:
        self._mode = options.mode
        self._tail = options.truncated_tail
        self.dropped = 0

    def damaged(self, file: str, offset: int, detail: str) -> None:
        """Count damage at byte `offset` of the file, described by `detail`. Raises DamagedRecording in mode
        failfast.
        """
        if self._mode is Mode.FAILFAST:
            raise DamagedRecording(file, offset, f"{detail}; mode=dropmalformed reads what is good")
        self.dropped += 1
        if self.dropped <= _TOLD:
            _log.warning("%s: byte %d: %s; dropped", file, offset, detail)

    def torn(self, file: str, damage: Damage) -> None:
        """Count a file that ends inside a block. Raises DamagedRecording unless truncatedTail=ignore."""
        if self._tail is TruncatedTail.ERROR:
            raise DamagedRecording(file, damage.offset, f"{damage.detail}; truncatedTail=ignore reads what precedes it")

    def finish(self) -> None:
        """Log what was skipped, at the end of the task."""
        if self.dropped > _TOLD:
            _log.warning("%d places in all were damaged or malformed; what stood there was dropped", self.dropped)


def good_blocks(file: str, blocks: Iterable[Block | Damage], policy: Policy) -> Iterator[Block]:
    """Undamaged blocks of a file; damage is passed to the policy."""
    for block in blocks:
        if isinstance(block, Block):
            yield block
        elif block.torn:
            policy.torn(file, block)
        else:
            rest = (
                "nothing behind it was read" if block.resumes is None else f"byte {block.resumes} is the next good one"
            )
            policy.damaged(file, block.offset, f"{block.detail}; {rest}")


def _blocks_of(part: Range, wanted: Wanted, policy: Policy) -> Iterator[Block]:
    yield from good_blocks(part.file, blocks_in(part, wanted.takes_block), policy)
    if part.length is not None:
        policy.damaged(part.file, part.end, f"the file was cut: it had {part.length} bytes when it was closed")


def batches_of(pieces: Iterable[Piece], maker: BatchMaker, policy: Policy) -> Iterator[Any]:
    """Record batches of these payloads. A payload with a malformed frame is used up to that frame."""
    for piece in pieces:
        found = find_frames(piece.payload, piece.header.revision, piece.columns)
        if found.error is not None:
            offset = piece.offset + (found.error.offset or 0)
            policy.damaged(piece.file or "a value", offset, f"{found.error.detail} [{found.error.code}]")
        yield from maker.add(piece, found.messages)
    yield from maker.finish()
    policy.finish()


def read_ranges(ranges: Iterable[Range], schema: Any, options: ReadOptions, wanted: Wanted) -> Iterator[Any]:
    """Messages of these ranges as record batches of an Arrow schema. Raises DamagedRecording and StoreError."""
    policy = Policy(options)
    pieces = (piece_of(part.file, block) for part in ranges for block in _blocks_of(part, wanted, policy))
    return batches_of(pieces, BatchMaker(schema, wanted, options.rows_per_batch), policy)
