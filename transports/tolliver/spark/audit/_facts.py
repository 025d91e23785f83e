"""Table of facts: one row for each frame in a recording.

The blocks of a piece of a file are walked together, so messages and acks, nearly everything there is, become columns
without a Python object for each. Handshakes, control messages and malformed frames are few and become rows one by one;
so do unreadable places ("damaged", "torn", "malformed"), as an audit must know its gaps.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tolliver_proto import (
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    Ignored,
    Message,
    RemoteProtocolError,
    Revision,
    Subscribe,
    Unsubscribe,
    decode,
)
from tolliver_proto.layouts import LAYOUTS, Refusal, SubscribeMany, UnsubscribeMany
from tolliver_proto.recording import Block, Damage

from ..read._columns import Columns, ack_ids, as_text, find_frames
from ..read._moments import Moments, Part
from ._files import items_of

_PAIR = pa.struct([("channel", pa.string()), ("key", pa.string())])
FACTS = pa.schema(
    [
        ("local", pa.string()),
        ("peer", pa.string()),
        ("cid", pa.int64()),
        ("direction", pa.string()),
        ("time", pa.timestamp("us", "UTC")),
        ("kind", pa.string()),
        ("message_id", pa.int64()),
        ("channel", pa.string()),
        ("key", pa.string()),
        ("size", pa.int64()),
        ("content", pa.int64()),
        ("version", pa.decimal128(20, 0)),
        ("status", pa.int32()),
        ("compatible", pa.bool_()),
        ("subscriptions", pa.list_(_PAIR)),
        ("detail", pa.string()),
        ("file", pa.int32()),
        ("offset", pa.int64()),
        ("ordinal", pa.int64()),
    ]
)
"""The columns of a fact. `content` is the CRC32 of channel, key and body: with the id it tells messages apart. Ordinals
are the order of a file's frames; they are not where the frames stand, as blocks of several connections are written
together."""

DDL = """local string, peer string, cid bigint, direction string, time timestamp, kind string, message_id bigint,
channel string, key string, size bigint, content bigint, version decimal(20,0), status int, compatible boolean,
subscriptions array<struct<channel: string, key: string>>, detail string, file int, offset bigint,
ordinal bigint"""
"""The same for Spark."""

KINDS: dict[type, str] = {
    HandshakeRequest: "handshake_request",
    HandshakeResponse: "handshake_response",
    HandshakeFinal: "handshake_final",
    Subscribe: "subscribe",
    Unsubscribe: "unsubscribe",
    Refusal: "refusal",
    SubscribeMany: "subscribe",
    UnsubscribeMany: "unsubscribe",
    Ignored: "ignored",
    Message: "message",
}
_BATCH_BYTES = 2**22  # payload bytes of a batch: limits memory
_MICROSECOND = 1000  # nanoseconds
_HALF = 2**63


def read_ranges(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Facts of these ranges of recordings, given as rows of `ranges_of`."""
    for batch in batches:
        for row in batch.to_pylist():
            yield from facts_of(items_of(row), row["number"])


def facts_of(items: Iterable[Block | Damage], file: int) -> Iterator[pa.RecordBatch]:
    """Facts of a recording's blocks, in no order (see `offset`). `file` is its number in the audit."""
    held: dict[Revision, list[Block]] = {}
    size = 0
    for item in items:
        if isinstance(item, Damage):
            kind = "torn" if item.torn else "damaged"
            yield _of_rows([{"kind": kind, "detail": item.detail, "file": file, "offset": item.offset}])
            continue
        held.setdefault(item.header.revision, []).append(item)
        size += len(item.payload)
        if size >= _BATCH_BYTES:
            yield from _of_all(held, file)
            held, size = {}, 0
    yield from _of_all(held, file)


def _of_all(held: dict[Revision, list[Block]], file: int) -> Iterator[pa.RecordBatch]:
    for revision, blocks in held.items():
        yield from _Facts(blocks, revision, file).batches()


class _Facts:
    """Blocks of one revision, whose payloads are read as one run of bytes and become rows of the table of facts."""

    def __init__(self, blocks: Sequence[Block], revision: Revision, file: int) -> None:
        self._blocks = blocks
        self._revision = revision
        self._file = file
        self._data = b"".join(block.payload for block in blocks)
        lengths = [len(block.payload) for block in blocks]
        self._bases = np.cumsum([0, *lengths[:-1]])
        self._offsets = np.array([block.payload_offset for block in blocks]) - self._bases
        self._heads = {
            "local": pa.array([str(block.header.local) for block in blocks]),
            "peer": pa.array([_text(block.header.peer) for block in blocks], pa.string()),
            "cid": pa.array([_signed(block.header.cid) for block in blocks], pa.int64()),
            "direction": pa.array([block.header.direction.name.lower() for block in blocks]),
        }

    @cached_property
    def _moments(self) -> Moments:
        return Moments(
            [
                Part(base, base + len(block.payload), block.payload_offset, block.header.time_ns, block.columns)
                for base, block in zip(map(int, self._bases), self._blocks, strict=True)
                if block.payload
            ]
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        messages: list[Any] = []
        acks: list[Any] = []
        rows: list[tuple[int, dict[str, Any]]] = []
        for base, block in zip(map(int, self._bases), self._blocks, strict=True):
            found = find_frames(block.payload, self._revision, block.columns)
            messages.append(np.asarray(found.messages, np.int64) + base)
            acks.append(np.asarray(found.acks, np.int64) + base)
            rows += [(base + start, _fields(frame)) for start, frame in found.handshakes]
            if found.error is not None:
                rows.append((base + (found.error.offset or 0), {"kind": "malformed", "detail": found.error.detail}))
        columns = Columns(self._data, np.concatenate(messages), self._revision)
        regular = np.flatnonzero(columns.regular)
        rows += [self._irregular(columns, int(row)) for row in np.flatnonzero(~columns.regular)]
        if len(regular):
            yield self._of_messages(columns, regular)
        starts = np.concatenate(acks)
        if len(starts):
            yield self._batch(starts, {"kind": _all("ack", len(starts)), "message_id": self._ack_ids(starts)})
        if rows:
            starts = np.array([start for start, _ in rows], np.int64)
            own = _of_rows([row for _, row in rows])
            yield self._batch(starts, {name: own.column(name) for name in _OWN})

    def _of_messages(self, columns: Columns, rows: Any) -> pa.RecordBatch:
        starts, ends = columns.offsets[rows], columns.ends[rows]
        bodies, keys, channels = columns.part("body", rows), columns.part("key", rows), columns.part("channel", rows)
        return self._batch(
            starts,
            {
                "kind": _all("message", len(rows)),
                "message_id": columns.message_ids(rows),
                "channel": as_text(channels),
                "key": as_text(keys),
                "size": pc.binary_length(bodies).cast(pa.int64()),
                "content": self._contents(starts, ends, (channels, keys, bodies)),
            },
        )

    def _contents(self, starts: Any, ends: Any, parts: Sequence[pa.Array]) -> pa.Array:
        shape = LAYOUTS[self._revision].message
        crc32 = zlib.crc32
        if not shape.is_flat:  # lengths are between the parts
            rows = zip(*(part.to_pylist() for part in parts), strict=True)
            return pa.array([crc32(body, crc32(key, crc32(channel))) for channel, key, body in rows], pa.int64())
        view = memoryview(self._data)
        places = zip((starts + shape.size).tolist(), ends.tolist(), strict=True)
        return pa.array([crc32(view[start:end]) for start, end in places], pa.int64())

    def _ack_ids(self, starts: Any) -> pa.Array:
        return pa.array(ack_ids(self._data, starts, self._revision).view(np.int64))  # no instance uses ids above 2^63

    def _irregular(self, columns: Columns, row: int) -> tuple[int, dict[str, Any]]:
        """Kind and values by column of the control message in this row, or of an invalid one (T-10, T-20, T-27)."""
        start, end = int(columns.offsets[row]), int(columns.ends[row])
        try:
            (frame,) = decode(self._data[start:end], self._revision)
        except RemoteProtocolError as error:
            return start, {"kind": "malformed", "detail": error.detail}
        return start, _fields(frame)

    def _batch(self, starts: Any, own: dict[str, Any]) -> pa.RecordBatch:
        """Record batch of the frames that begin at the offsets `starts`, with the columns `own`, and those of their
        blocks and places.
        """
        blocks = np.searchsorted(self._bases, starts, "right") - 1
        chosen = pa.array(blocks)
        made = {name: column.take(chosen) for name, column in self._heads.items()} | own
        made["file"] = pa.array(np.full(len(starts), self._file, np.int32))
        made["offset"] = pa.array(starts + self._offsets[blocks])
        times, places = self._moments.of(starts)
        made["time"] = pa.array((times // _MICROSECOND).astype(np.int64)).cast(pa.timestamp("us", "UTC"))
        made["ordinal"] = pa.array(places)
        empty = {field.name: pa.nulls(len(starts), field.type) for field in FACTS if field.name not in made}
        return pa.RecordBatch.from_arrays([(made | empty)[name] for name in FACTS.names], schema=FACTS)


_OWN = (
    "kind", "message_id", "channel", "key", "version", "status", "compatible", "subscriptions", "detail",
)  # fmt: skip
"""The columns of a row that is made one by one."""


def _of_rows(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=FACTS)


def _fields(frame: Any) -> dict[str, Any]:
    """Values by column of a frame that is no plain message."""
    row: dict[str, Any] = {"kind": KINDS[type(frame)]}
    if isinstance(frame, HandshakeRequest | HandshakeResponse):
        row["version"] = Decimal(frame.version)
        row["subscriptions"] = [pair._asdict() for pair in frame.subscriptions]
    if isinstance(frame, HandshakeResponse):
        row["status"] = int(frame.status)
    elif isinstance(frame, HandshakeFinal):
        row["compatible"] = frame.compatible
    elif isinstance(frame, Subscribe | Unsubscribe):
        row |= {"message_id": frame.message_id, "channel": frame.channel, "key": frame.key}
    elif isinstance(frame, SubscribeMany | UnsubscribeMany):
        row["message_id"] = frame.message_id
        row["subscriptions"] = [pair._asdict() for pair in frame.subscriptions]
    elif isinstance(frame, Refusal):
        row["message_id"] = _signed(frame.message_id)
    elif isinstance(frame, Ignored):
        row |= {"message_id": frame.message_id, "detail": frame.reason.value}
    return row


def _all(value: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value), count)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _signed(value: int) -> int:
    """The number of 64 bits with the same bits as `value`, signed for Spark. This changes only cids that no instance
    uses.
    """
    return value - 2 * _HALF if value >= _HALF else value
