"""Encoder of rows: from Arrow columns to frames on the wire.

The heads of all messages of a batch are one numpy array with the fields of the wire layout, and Arrow joins head,
channel, key and body of each row. The buffer of the result is sent unchanged, so no Python code runs for each row. A
row that cannot be sent, or that its receiver would drop silently, is refused here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..._extras import needed

needed("spark", "numpy", "pyarrow")

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tolliver_proto import Limits, Message, Revision
from tolliver_proto.layouts import LAYOUTS
from tolliver_proto.node import PROBE_CHANNEL, RESERVED_CHANNEL

from ..read._columns import Booleans, good_text, head_type

Ids = npt.NDArray[np.uint32]
Flags = Booleans

LAST_ID = 2**31 - 2  # largest message id (T-40)
CHUNK_BYTES = 4 * 2**20  # most bytes of frames joined at once, except a larger single row
COLUMNS = ("channel", "key", "body")
_TEXT = ("channel", "key")
_LIMITS = Limits()
_MAXIMA = {"channel": _LIMITS.max_name, "key": _LIMITS.max_name, "body": _LIMITS.max_body}
_PRIVATE = pa.array([RESERVED_CHANNEL, PROBE_CHANNEL], pa.string()).cast(pa.binary())


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows to send, as validated columns of bytes, and the message ids, or None for unreliable messages."""

    channel: Any
    key: Any
    body: Any
    ids: Ids | None

    def __len__(self) -> int:
        return len(self.channel)

    def part(self, start: int, stop: int) -> Rows:
        """Rows from `start` to `stop`, without a copy."""
        ids = None if self.ids is None else self.ids[start:stop]
        return self._each(lambda column: column.slice(start, stop - start), ids)

    def only(self, wanted: Flags) -> Rows:
        """The flagged rows."""
        flags = pa.array(wanted)
        return self._each(lambda column: column.filter(flags), None if self.ids is None else self.ids[wanted])

    def sizes(self) -> npt.NDArray[np.int64]:
        """Bytes of channel, key and body of each row."""
        columns = (self.channel, self.key, self.body)
        sizes: npt.NDArray[np.int64] = sum(pc.binary_length(column).to_numpy().astype(np.int64) for column in columns)
        return sizes

    def _each(self, change: Callable[[Any], Any], ids: Ids | None) -> Rows:
        return Rows(change(self.channel), change(self.key), change(self.body), ids)


def encode_batches(
    batches: Iterable[Any], *, revision: Revision = Revision.DRAFT_2, first_id: int | None = 1
) -> Iterator[bytes]:
    """Frames of the rows of Arrow record batches, a few MiB at a time.

    The columns are those of `write.format("tolliver")`. Message ids count from `first_id`; None means unreliable.
    Raises ValueError for a row that cannot be sent.
    """
    if first_id is not None and not LAYOUTS[revision].has_acks:
        raise ValueError(f"{revision.name} has no acknowledgements, so no reliable messages: give first_id=None")
    number = 0
    for batch in batches:
        ids = None if first_id is None else ids_from(first_id + number, batch.num_rows)
        for rows in cut(take_rows(batch, ids, number, revision), batch.num_rows):
            yield wire_bytes(encode_rows(rows, revision))
        number += batch.num_rows


def take_rows(batch: Any, ids: Ids | None, number: int = 0, revision: Revision = Revision.DRAFT_2) -> Rows:
    """Validated rows of a record batch, with these ids (None: unreliable). `number` is the count of rows before it in
    the partition.

    Raises ValueError, which names the row, for nulls, text that is not UTF-8 (T-11), too long names and bodies (T-06,
    T-07, or the revision's own limits), and the protocol's own channels (T-27, T-80).
    """
    columns = {name: batch.column(name) for name in COLUMNS}
    for name, column in columns.items():
        _refuse(column.is_null(), number, f"{name} is null: give a value", some=column.null_count > 0)
        carried = LAYOUTS[revision].longest(name)
        most = min(carried, _MAXIMA[name])
        whose = "T-06, T-07" if most < carried else "all that this revision carries"
        too_long = pc.greater(pc.binary_length(column), most)
        _refuse(too_long, number, f"{name} has more than {most} bytes ({whose}): shorten or split it")
    columns = {name: _bytes(column, name, number) for name, column in columns.items()}
    own = pc.is_in(columns["channel"], value_set=_PRIVATE.cast(columns["channel"].type))
    _refuse(own, number, "its channel is the protocol's own: choose another (T-27, T-80)")
    return Rows(**columns, ids=ids)


def ids_from(first: int, count: int) -> Ids:
    """`count` consecutive ids, the first of them `first`. Raises ValueError if there are not so many left (T-40)."""
    if first + count - 1 > LAST_ID:
        raise ValueError(f"a partition of more than {LAST_ID} rows: there are no more ids, use more partitions (T-40)")
    return np.arange(first, first + count, dtype=np.uint32)


def ids_of(column: Any, number: int = 0) -> Ids:
    """Ids from a column of whole numbers; `number` is the count of rows before it. Raises ValueError for nulls and
    numbers out of range (T-40).
    """
    _refuse(column.is_null(), number, "its id is null: give every row an id")
    outside = pc.or_(pc.less(column, 1), pc.greater(column, LAST_ID))
    _refuse(outside, number, f"its id is not from 1 to {LAST_ID} (T-40): number the rows of each partition")
    ids: Ids = column.to_numpy(zero_copy_only=False).astype(np.uint32)
    return ids


def cut(rows: Rows, most: int) -> Iterator[Rows]:
    """The rows in pieces of at most `most` rows and at most CHUNK_BYTES, except a larger single row."""
    ends = np.cumsum(rows.sizes())
    start = 0
    while start < len(rows):
        before = ends[start - 1] if start else 0
        fit = int(np.searchsorted(ends, before + CHUNK_BYTES, "right"))
        stop = min(max(fit, start + 1), start + most)
        yield rows.part(start, stop)
        start = stop


def encode_rows(rows: Rows, revision: Revision) -> Any:
    """Arrow array of frames, one for each row, whose bytes are adjacent as on the wire."""
    layout, count = LAYOUTS[revision], len(rows)
    values = {name: pc.binary_length(getattr(rows, name)).to_numpy() for name in COLUMNS}
    values["code"] = layout.codes[Message]
    values["message_id"] = layout.unreliable_id if rows.ids is None else rows.ids
    columns: list[Any] = []
    for fields, parts in layout.message.pieces:
        heads = np.empty(count, head_type(fields))
        for name in fields.names:
            heads[name] = values[name]
        offsets = np.arange(count + 1, dtype=np.int32) * np.int32(heads.itemsize)
        columns.append(pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(heads)]))
        columns += [getattr(rows, name).cast(pa.binary()) for name in parts]
    return pc.binary_join_element_wise(*columns, b"")


def wire_bytes(frames: Any) -> bytes:
    """All bytes of an array from `encode_rows`."""
    if not len(frames):
        return b""
    _, offsets, values = frames.buffers()
    places = np.frombuffer(offsets, np.int32)
    start, stop = places[frames.offset], places[frames.offset + len(frames)]
    piece: bytes = values.slice(start, stop - start).to_pybytes()
    return piece


def _bytes(column: Any, name: str, number: int) -> Any:
    """The column `name` as bytes; `number` is the count of rows before it. Strings are checked for UTF-8, which Spark
    does not do, but receivers do (T-10).
    """
    raw = column.cast(pa.large_binary() if pa.types.is_large_string(column.type) else _binary(column.type))
    if name in _TEXT:
        try:
            raw.cast(column.type)
        except pa.ArrowInvalid:
            _refuse(pa.array(~good_text(raw)), number, f"{name} is not UTF-8 (T-11): mend it before")
    return raw


def _binary(kind: Any) -> Any:
    return kind if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) else pa.binary()


def _refuse(flags: Any, number: int, why: str, *, some: bool | None = None) -> None:
    """Raises ValueError for the first flagged row, with the reason `why`; `number` is the count of rows before these.
    `some`: whether a row is flagged, None if that is to be found out.
    """
    if some is None:
        some = pc.any(flags).as_py()
    if some:
        row = number + int(flags.to_numpy(zero_copy_only=False).argmax()) + 1
        raise ValueError(f"row {row} of this partition cannot be sent: {why}")
