"""`tolliver decode`: shows the frames of a recording, or of raw bytes.

A stream is decoded in chunks and printed immediately, so a file may be larger than memory, and all frames before an
error are shown. A recording's blocks are such streams, one after the other; each frame is shown with its block's
header. The fields of a frame's class are the fields of its JSON object.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from enum import IntEnum
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from tolliver_proto import (
    Ack,
    Decoder,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    Ignored,
    Limits,
    Message,
    RemoteProtocolError,
    Revision,
    Subscribe,
    Subscription,
    Unsubscribe,
    encode,
)
from tolliver_proto import reactive as rs
from tolliver_proto.layouts import Refusal, SubscribeMany, UnsubscribeMany
from tolliver_proto.recording import Block, BlockHeader, Damage, Direction, in_order

from . import words
from .recordings import Filter, blocks_in, in_words, is_recording
from .standard import standard_input

KINDS: dict[type, str] = {
    HandshakeRequest: "handshake_request",
    HandshakeResponse: "handshake_response",
    HandshakeFinal: "handshake_final",
    Message: "message",
    Ack: "ack",
    Refusal: "refusal",
    Subscribe: "subscribe",
    Unsubscribe: "unsubscribe",
    SubscribeMany: "subscribe",
    UnsubscribeMany: "unsubscribe",
    Ignored: "ignored",
    rs.ClientHello: "client_hello",
    rs.ServerHello: "server_hello",
    rs.Subscribe: "subscribe",
    rs.Request: "request",
    rs.Cancel: "cancel",
    rs.Subscribed: "subscribed",
    rs.OnNext: "on_next",
    rs.OnComplete: "on_complete",
    rs.OnError: "on_error",
    rs.OnNextPacked: "on_next_packed",
    rs.Goodbye: "goodbye",
    **{form.frame: form.frame.__name__.lower() for form in rs.SIGN_OF_LIFE.forms},
}
_STREAMS = rs.DRAFT.extended(rs.SIGN_OF_LIFE.forms)
_IN_CELLS = {"channel", "key", "name", "message_id", "subscriber_id"}
_CHUNK = 2**20  # bytes read at once
_BODY = 60  # most characters of a body in the table
_LISTED = 5  # most subscriptions of a handshake in the table
_COLUMNS = {
    "time": "12",
    "way": "3",
    "peer": "8",
    "offset": ">12",
    "size": ">10",
    "frame": "18",
    "channel": "16",
    "key": "16",
    "id": ">10",
    "content": "",
}
"""Forms of the cells on a terminal; the first three are of a recording."""


class Source(Protocol):
    """A file that is read chunk by chunk."""

    def read1(self, size: int, /) -> bytes: ...


class Placed(NamedTuple):
    """A decoded frame, and its offset and size in bytes; in a recording also its block's header."""

    offset: int
    size: int
    frame: Any  # Decoded, or a frame of streams
    header: BlockHeader | None = None


def placed_frames(source: Source, revision: Revision) -> Iterator[Placed]:
    """Frames of a stream. Raises RemoteProtocolError if it is malformed or cut short."""
    decoder = Decoder(revision, Limits.format())
    fed = offset = 0
    while data := source.read1(_CHUNK):
        decoder.feed(data)
        fed += len(data)
        while (frame := decoder.next_frame()) is not None:
            # An ignored frame cannot be encoded to find its size, but nothing is parsed beyond it.
            end = fed - decoder.buffered if isinstance(frame, Ignored) else offset + _size(frame, revision)
            yield Placed(offset, end - offset, frame)
            offset = end
    decoder.finish()


def _size(frame: Any, revision: Revision) -> int:
    if isinstance(frame, Message):
        return len(encode(dataclasses.replace(frame, body=b""), revision)) + len(frame.body)
    return len(encode(frame, revision))


def frames_in(
    file: BufferedReader, path: Path, revision: Revision, wanted: Filter, failures: list[str]
) -> Iterator[Placed]:
    """Wanted frames of a recording, or of a stream in this revision. Texts about damage are appended to `failures`.

    Raises ValueError if the filter needs a recording, and the file is a stream.
    """
    if is_recording(file, path):
        rows = _recorded_frames(in_order(blocks_in(file, path, streams=True)), wanted, failures)
    elif wanted.asks_headers:
        raise ValueError(f"{path} is no recording: times, peers and directions are not in it")
    else:
        rows = _until_error(placed_frames(file, revision), 0, failures)
    return (row for row in rows if wanted.takes_frame(row.frame))


def _recorded_frames(blocks: Iterator[Block | Damage], wanted: Filter, failures: list[str]) -> Iterator[Placed]:
    decoders: dict[tuple[int, Direction], rs.Decoder] = {}
    for block in blocks:
        if isinstance(block, Damage):
            failures.append(in_words(block))
        elif block.header.streams:
            yield from _frames_of_streams(block, decoders, wanted, failures)
        elif wanted.takes_block(block.header):
            start = block.payload_offset
            frames = placed_frames(BytesIO(block.payload), block.header.revision)
            for row in _until_error(frames, start, failures):
                yield Placed(start + row.offset, row.size, row.frame, block.header)


def _frames_of_streams(
    block: Block, decoders: dict[tuple[int, Direction], rs.Decoder], wanted: Filter, failures: list[str]
) -> Iterator[Placed]:
    """Frames that a run of bytes completes. Their offsets count the bytes of their direction of the connection."""
    way = block.header.cid, block.header.direction
    decoder = decoders.setdefault(way, rs.Decoder({}, layout=_STREAMS))
    decoder.feed(block.payload)
    try:
        while True:
            offset = decoder.offset
            if (frame := decoder.next_frame()) is None:
                return
            if wanted.takes_block(block.header):
                yield Placed(offset, decoder.offset - offset, frame, block.header)
    except RemoteProtocolError as error:
        text = f"connection {way[0]}, {way[1].name.lower()}: {error.detail} [{error.code}]"
        if text not in failures:
            failures.append(text)


def _until_error(rows: Iterator[Placed], start: int, failures: list[str]) -> Iterator[Placed]:
    try:
        yield from rows
    except RemoteProtocolError as error:
        failures.append(f"byte {start + (error.offset or 0)}: {error.detail} [{error.code}]")


def open_file(path: Path) -> tuple[BufferedReader, str]:
    """The open file, and its name for texts; "-" is standard input."""
    if str(path) == "-":
        return BufferedReader(standard_input()), "standard input"
    return path.open("rb"), str(path)


def print_file(path: Path, revision: Revision, as_json: bool, wanted: Filter) -> bool:
    """Print the wanted frames, with `as_json` as JSON lines, and errors to standard error. Returns True if there were
    no errors.
    """
    with ExitStack() as stack:
        file, title = open_file(path)
        stack.enter_context(file)
        failures: list[str] = []
        rows = frames_in(file, path, revision, wanted, failures)
        (_print_json if as_json else _print_table)(rows, title)
        sys.stdout.flush()
    for failure in failures:
        words.say(f"{title}: {failure}")
    return not failures


def _print_json(rows: Iterator[Placed], _title: str) -> None:
    for row in rows:
        sys.stdout.write(json.dumps(_json_of_header(row.header) | json_of(row.frame)) + "\n")


def _json_of_header(header: BlockHeader | None) -> dict[str, Any]:
    if header is None:
        return {}
    return {
        "time": _when(header).isoformat(timespec="microseconds"),
        "direction": header.direction.name.lower(),
        "peer": None if header.peer is None else str(header.peer),
        "connection": header.cid,
    }


def _when(header: BlockHeader) -> datetime:
    return datetime.fromtimestamp(header.time_ns / 10**9).astimezone()


def json_of(frame: Any) -> dict[str, Any]:
    """A frame in JSON types."""
    values = {field.name: _json_value(getattr(frame, field.name)) for field in dataclasses.fields(frame)}
    return {"frame": KINDS[type(frame)], **values}


def _json_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, IntEnum):
        return int(value)
    if isinstance(value, Subscription):
        return value._asdict()
    if isinstance(value, tuple):
        return [*map(_json_value, value)]
    return value


def _print_table(rows: Iterator[Placed], title: str) -> None:
    """Print one line for each frame immediately: aligned on a terminal, else with tabs between cells."""
    forms = [*_COLUMNS.values()] if sys.stdout.isatty() else None
    sys.stdout.write(f"{title}\n")
    shown = 0
    for shown, row in enumerate(rows, 1):
        cells = _cells(row)
        for line in ([[*_COLUMNS][-len(cells) :]] if shown == 1 else []) + [cells]:
            padded = line if forms is None else map(format, line, forms[-len(cells) :])
            sys.stdout.write(("\t" if forms is None else "  ").join(padded).rstrip(" ") + "\n")
    sys.stdout.write(f"{words.count(shown, 'frame')}\n")


def _cells(row: Placed) -> list[str]:
    frame = row.frame
    names = [words.name(getattr(frame, part)) if hasattr(frame, part) else "" for part in ("channel", "key")]
    if hasattr(frame, "name"):
        names[0] = words.name(frame.name)
    message_id = getattr(frame, "message_id", getattr(frame, "subscriber_id", ""))
    return [
        *_cells_of_header(row.header),
        str(row.offset),
        str(row.size),
        KINDS[type(frame)],
        *names,
        "none" if message_id is None else str(message_id),
        _content(frame),
    ]


def _cells_of_header(header: BlockHeader | None) -> list[str]:
    if header is None:
        return []
    peer = "" if header.peer is None else words.peer(header.peer)
    return [_when(header).strftime("%H:%M:%S.%f")[:-3], header.direction.name.lower(), peer]


def _listed(subscriptions: tuple[Subscription, ...]) -> str:
    listed = words.listed(subscriptions[:_LISTED])
    more = ", ..." if len(subscriptions) > _LISTED else ""
    return f"{words.count(len(subscriptions), 'subscription')}{': ' if listed else ''}{listed}{more}"


def _content(frame: Any) -> str:
    match frame:
        case Message():
            return words.body(frame.body, _BODY)
        case HandshakeRequest() | HandshakeResponse():
            status = f"status {int(frame.status)}, " if isinstance(frame, HandshakeResponse) else ""
            return f"version {frame.version}, {status}{frame.instance_id}, {_listed(frame.subscriptions)}"
        case SubscribeMany() | UnsubscribeMany():
            return _listed(frame.subscriptions)
        case HandshakeFinal():
            return "compatible" if frame.compatible else "not compatible"
        case Ignored():
            return f"not understood: {frame.reason}"
        case rs.OnNext():
            return words.body(frame.element, _BODY)
        case rs.OnNextPacked():
            return words.count(len(frame.elements), "element")
        case _ if type(frame) in _STREAMS.by_frame:
            shown = (one.name for one in dataclasses.fields(frame) if one.name not in _IN_CELLS)
            return ", ".join(f"{name} {words.line(str(getattr(frame, name)))}" for name in shown)
        case _:
            return ""
