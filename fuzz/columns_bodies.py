"""Checks for the fuzzer of Arrow columns, on any bytes.

Two readers of the same bytes, the machine frame by frame and Spark's by columns, say the same of any of them, good or
bad. The tests call `same` with streams of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tolliver.spark.read._columns import Columns, ack_ids, as_text, find_frames

from tolliver_proto import (
    Ack,
    Decoder,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    Ignored,
    Message,
    RemoteProtocolError,
    Revision,
)
from tolliver_proto.layouts import Decoded, IgnoreReason, Refusal

from .bodies import bounded, revision_at
from .recording_bodies import frames_seeds

HANDSHAKES = (HandshakeRequest, HandshakeResponse, HandshakeFinal, Refusal)


def by_the_machine(data: bytes, revision: Revision) -> tuple[list[Decoded], RemoteProtocolError | None]:
    decoder, found = Decoder(revision), []
    decoder.gives_unacked_ids = False
    decoder.feed(data)
    try:
        while (frame := decoder.next_frame()) is not None:
            found.append(frame)
        decoder.finish()
    except RemoteProtocolError as error:
        return found, error
    return found, None


def messages_of(columns: Columns) -> list[Message]:
    rows = np.flatnonzero(columns.regular)
    channel, key, body = (columns.part(name, rows) for name in ("channel", "key", "body"))
    ids = columns.message_ids(rows)
    assert [one is not None for one in ids.to_pylist()] == columns.reliable[rows].tolist()
    table = (as_text(channel), as_text(key), body, ids)
    return [Message(*values) for values in zip(*(column.to_pylist() for column in table), strict=True)]


def told(error: RemoteProtocolError | None) -> tuple[Any, ...] | None:
    return None if error is None else (type(error), error.code, error.frame, error.offset)


def same(data: bytes, revision: Revision) -> None:
    """Check that both say the same of these bytes: frames, their order, and what is wrong where."""
    expected, error = by_the_machine(data, revision)
    found = find_frames(data, revision)
    assert told(found.error) == told(error)
    assert [frame for _, frame in found.handshakes] == [one for one in expected if isinstance(one, HANDSHAKES)]
    acks = np.array(found.acks, np.int64)
    assert [Ack(one) for one in ack_ids(data, acks, revision).tolist()] == [
        one for one in expected if isinstance(one, Ack)
    ]
    columns = Columns(data, found.messages, revision)
    assert messages_of(columns) == [one for one in expected if isinstance(one, Message)]

    # A frame that is no application's is found again at its place, by whoever wants it.
    others = np.flatnonzero(~columns.regular)
    spans = zip(columns.offsets[others].tolist(), columns.ends[others].tolist(), strict=True)
    decoded = [by_the_machine(data[start:end], revision) for start, end in spans]
    rest = [one for one in expected if not isinstance(one, (Message, Ack, *HANDSHAKES))]
    assert decoded == [([one], None) for one in rest]
    bad_text = [isinstance(one, Ignored) and one.reason is IgnoreReason.BAD_TEXT for one in rest]
    assert columns.control[others].tolist() == [not bad for bad in bad_text]

    # Every byte before the error belongs to one frame, and they stand in order.
    starts = sorted([*found.messages, *found.acks, *(offset for offset, _ in found.handshakes)])
    assert len(starts) == len(expected)
    assert starts[:1] == ([0] if expected else [])


def columns(data: bytes, *, watch_memory: bool = False) -> None:
    """Any bytes, in any revision."""
    with bounded(32 * len(data), watch_memory):
        same(data[1:], revision_at(data[0] if data else 0))


columns_seeds = frames_seeds
