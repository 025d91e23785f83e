"""`tolliver decode`: the frames in a file with the raw bytes of one direction.

The idea: a stream goes through the decoder in chunks and comes out as rows at once, so a file may be larger than memory
and what precedes an error is always shown. The fields of a frame's class are the fields of its JSON object.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import sys
from collections.abc import Iterable, Iterator
from enum import IntEnum
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tolliver_proto import (
    Ack,
    Decoded,
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
    Unsubscribe,
    encode,
)

from . import words

KINDS: dict[type, str] = {
    HandshakeRequest: "handshake_request",
    HandshakeResponse: "handshake_response",
    HandshakeFinal: "handshake_final",
    Message: "message",
    Ack: "ack",
    Subscribe: "subscribe",
    Unsubscribe: "unsubscribe",
    Ignored: "ignored",
}
_CHUNK = 2**20  # bytes
_PAGE = 256  # rows that a table lays out at once
_BODY = 60  # characters of a body in the table
_LISTED = 5  # subscriptions of a handshake in the table


class Source(Protocol):
    """A file that is read as far as it has come."""

    def read1(self, size: int, /) -> bytes: ...


class Placed(NamedTuple):
    """A frame and where it stands, in bytes."""

    offset: int
    size: int
    frame: Decoded


def placed_frames(source: Source, revision: Revision) -> Iterator[Placed]:
    """The frames of a stream. Raises RemoteProtocolError where it is malformed or cut short."""
    decoder = Decoder(revision, Limits.format())
    fed = offset = 0
    while data := source.read1(_CHUNK):
        decoder.feed(data)
        fed += len(data)
        while (frame := decoder.next_frame()) is not None:
            # A frame that was not understood has no encoding; but nothing is ever parsed ahead of it.
            end = fed - decoder.buffered if isinstance(frame, Ignored) else offset + _size(frame, revision)
            yield Placed(offset, end - offset, frame)
            offset = end
    decoder.finish()


def _size(frame: Any, revision: Revision) -> int:
    if isinstance(frame, Message):
        return len(encode(dataclasses.replace(frame, body=b""), revision)) + len(frame.body)
    return len(encode(frame, revision))


def print_file(path: Path, revision: Revision, as_json: bool) -> bool:
    """Print the frames; an error goes to standard error. Returns whether there was none."""
    if str(path) == "-":
        return _print_frames(open(0, "rb", closefd=False), "standard input", revision, as_json)
    with path.open("rb") as file:
        return _print_frames(file, str(path), revision, as_json)


def _print_frames(source: Source, title: str, revision: Revision, as_json: bool) -> bool:
    failure: list[RemoteProtocolError] = []
    rows = _until_error(placed_frames(source, revision), failure)
    (_print_json if as_json else _print_table)(rows, title)
    sys.stdout.flush()
    for error in failure:
        words.say(f"{title}: byte {error.offset}: {error.detail} [{error.code}]")
    return not failure


def _until_error(rows: Iterator[Placed], failure: list[RemoteProtocolError]) -> Iterator[Placed]:
    try:
        yield from rows
    except RemoteProtocolError as error:
        failure.append(error)


def _print_json(rows: Iterable[Placed], _title: str) -> None:
    for row in rows:
        sys.stdout.write(json.dumps(json_of(row.frame)) + "\n")


def json_of(frame: Decoded) -> dict[str, Any]:
    """A frame as JSON can say it."""
    values = {field.name: _json_value(getattr(frame, field.name)) for field in dataclasses.fields(frame)}
    return {"frame": KINDS[type(frame)], **values}


def _json_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, IntEnum):
        return int(value)
    if isinstance(value, tuple):
        return [subscription._asdict() for subscription in value]
    return value


def _print_table(rows: Iterator[Placed], title: str) -> None:
    """Page by page, with widths that do not depend on what the page holds."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=max(console.width, 120))
    page = list(islice(rows, _PAGE))
    shown = 0
    console.print(Text(title, style="bold"))
    while page:
        table = Table(box=None, expand=True, pad_edge=False, show_header=not shown)
        for heading, width, justify in (("offset", 12, "right"), ("size", 10, "right"), ("frame", 18, "left")):
            table.add_column(heading, width=width, justify=justify)  # type: ignore[arg-type]  # rich's Literals
        table.add_column("channel", ratio=2, overflow="fold")
        table.add_column("key", ratio=2, overflow="fold")
        table.add_column("id", width=10, justify="right")
        table.add_column("content", ratio=4, overflow="fold")
        for row in page:
            table.add_row(*(Text(cell) for cell in _cells(row)))
        console.print(table)
        shown += len(page)
        page = list(islice(rows, _PAGE))
    console.print(words.count(shown, "frame"), highlight=False)


def _cells(row: Placed) -> list[str]:
    frame = row.frame
    names = [words.name(getattr(frame, part)) if hasattr(frame, part) else "" for part in ("channel", "key")]
    message_id = getattr(frame, "message_id", "")
    return [
        str(row.offset),
        str(row.size),
        KINDS[type(frame)],
        *names,
        "none" if message_id is None else str(message_id),
        _content(frame),
    ]


def _content(frame: Decoded) -> str:
    match frame:
        case Message():
            return words.body(frame.body, _BODY)
        case HandshakeRequest() | HandshakeResponse():
            status = f"status {int(frame.status)}, " if isinstance(frame, HandshakeResponse) else ""
            listed = ", ".join(" ".join(map(words.name, one)) for one in frame.subscriptions[:_LISTED])
            more = ", ..." if len(frame.subscriptions) > _LISTED else ""
            subscriptions = words.count(len(frame.subscriptions), "subscription")
            colon = ": " if listed else ""
            return f"version {frame.version}, {status}{frame.instance_id}, {subscriptions}{colon}{listed}{more}"
        case HandshakeFinal():
            return "compatible" if frame.compatible else "not compatible"
        case Ignored():
            return f"not understood: {frame.reason}"
        case _:
            return ""
