"""Encoder of rows: Arrow columns in, the wire's bytes out.

The heads of all messages of a batch are one numpy block, whose fields are those of the wire layout, and Arrow joins
head, channel, key and body of each row. The buffer of the result *is* what goes over the wire, so nothing is done once
per row. A row that could not be sent, or would be dropped in silence by its receiver, is refused here.
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

LAST_ID = 2**31 - 2  # T-40
CHUNK_BYTES = 4 * 2**20  # of frames that are joined at once, or one row
COLUMNS = ("channel", "key", "body")
_TEXT = ("channel", "key")
_LIMITS = Limits()
_MAXIMA = {"channel": _LIMITS.max_name, "key": _LIMITS.max_name, "body": _LIMITS.max_body}
_PRIVATE = pa.array([RESERVED_CHANNEL, PROBE_CHANNEL], pa.string()).cast(pa.binary())


@dataclass(frozen=True, slots=True)
class Rows:
    """Columns of bytes that may be sent, and the message ids, or None where they are unreliable."""

    channel: Any
    key: Any
    body: Any
    ids: Ids | None

    def __len__(self) -> int:
        return len(self.channel)

    def part(self, start: int, stop: int) -> Rows:
        """Some of them, without a copy."""
        ids = None if self.ids is None else self.ids[start:stop]
        return self._each(lambda column: column.slice(start, stop - start), ids)

    def only(self, wanted: Flags) -> Rows:
        """Those that are flagged."""
        flags = pa.array(wanted)
        return self._each(lambda column: column.filter(flags), None if self.ids is None else self.ids[wanted])

    def sizes(self) -> npt.NDArray[np.int64]:
        """Bytes of names and body, of each row."""
        columns = (self.channel, self.key, self.body)
        sizes: npt.NDArray[np.int64] = sum(pc.binary_length(column).to_numpy().astype(np.int64) for column in columns)
        return sizes

    def _each(self, change: Callable[[Any], Any], ids: Ids | None) -> Rows:
        return Rows(change(self.channel), change(self.key), change(self.body), ids)


def encode_batches(
    batches: Iterable[Any], *, revision: Revision = Revision.DRAFT_2, first_id: int | None = 1
) -> Iterator[bytes]:
    """The frames of the rows of Arrow record batches, some MiB at a time.

    The columns are those of `write.format("tolliver")`. The message ids count from `first_id`; None is unreliable.
    Raises ValueError for what cannot be sent.
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
    """The rows of a record batch; the partition had `number` before it.

    Raises ValueError, naming the row, for nulls, text that is not UTF-8 (T-11), names and bodies that are too long
    (T-06, T-07, or for the revision), and the protocol's own channels (T-27, T-80).
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
    """The ids of so many rows. Raises ValueError where there are no more (T-40)."""
    if first + count - 1 > LAST_ID:
        raise ValueError(f"a partition of more than {LAST_ID} rows: there are no more ids, use more partitions (T-40)")
    return np.arange(first, first + count, dtype=np.uint32)


def ids_of(column: Any, number: int = 0) -> Ids:
    """The ids in a column of whole numbers. Raises ValueError where one is null or out of range (T-40)."""
    _refuse(column.is_null(), number, "its id is null: give every row an id")
    outside = pc.or_(pc.less(column, 1), pc.greater(column, LAST_ID))
    _refuse(outside, number, f"its id is not from 1 to {LAST_ID} (T-40): number the rows of each partition")
    ids: Ids = column.to_numpy(zero_copy_only=False).astype(np.uint32)
    return ids


def cut(rows: Rows, most: int) -> Iterator[Rows]:
    """Runs of at most so many rows and, but for one row, of at most CHUNK_BYTES."""
    ends = np.cumsum(rows.sizes())
    start = 0
    while start < len(rows):
        before = ends[start - 1] if start else 0
        fit = int(np.searchsorted(ends, before + CHUNK_BYTES, "right"))
        stop = min(max(fit, start + 1), start + most)
        yield rows.part(start, stop)
        start = stop


def encode_rows(rows: Rows, revision: Revision) -> Any:
    """An Arrow array of the frames, one a row; its values lie back to back, as on the wire."""
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
    """All bytes of such an array, in one piece."""
    if not len(frames):
        return b""
    _, offsets, values = frames.buffers()
    places = np.frombuffer(offsets, np.int32)
    start, stop = places[frames.offset], places[frames.offset + len(frames)]
    piece: bytes = values.slice(start, stop - start).to_pybytes()
    return piece


def _bytes(column: Any, name: str, number: int) -> Any:
    """The column as bytes. Spark promises that a string is UTF-8 and does not look; whoever receives it does (T-10)."""
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
    """Raises ValueError for the first row that is flagged."""
    if some is None:
        some = pc.any(flags).as_py()
    if some:
        row = number + int(flags.to_numpy(zero_copy_only=False).argmax()) + 1
        raise ValueError(f"row {row} of this partition cannot be sent: {why}")
