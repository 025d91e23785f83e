"""`tolliver decode`: every frame, up to the first wrong byte."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tolliver._cli.decode import Placed, json_of, placed_frames

from tests.cases import Case, number
from tests.cli.commands import COMMAND, SECONDS, run_process, tolliver
from tests.wire.strategies import frames
from tests.wire.vectors import BOTH, D2, ONE, VECTORS, Vector
from tolliver_proto import Ack, HandshakeRequest, HandshakeStatus, Ignored, Message, Revision, Subscription, encode
from tolliver_proto.layouts import IgnoreReason

BAD_TEXT = bytes.fromhex("03 00000001 00000000 00000000 00000007 ff")
HOSTILE = ("\x1b[31mred", "a\r\nb", "\u202egnp.exe", "[bold]loud[/bold]", "\x07\x00\x9b2J", "x" * 500)


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


_SHOWN: dict[str, Callable[[Any], Any]] = {
    "version": number,
    "message_id": number,
    "body": lambda text: base64.b64encode(bytes.fromhex(text)).decode(),
    "status": lambda name: HandshakeStatus[name.upper()].value,
    "subscriptions": lambda pairs: [dict(zip(("channel", "key"), pair, strict=True)) for pair in pairs],
}


def shown(vector: Vector) -> Case:
    """The object that the command shows of a vector's frame."""
    return {name: _SHOWN.get(name, lambda same: same)(value) for name, value in vector.value.items()}


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("revision", set(Revision) - set(BOTH), ids=lambda one: one.name)
def test_vectors_of_other_programs(tmp_path: Path, revision: Revision) -> None:
    vectors = [vector for vector in VECTORS if vector.revision is revision]
    path = written(tmp_path / "all", b"".join(vector.data for vector in vectors))
    name = revision.name.removeprefix("DRAFT_").lower().replace("_", "-")
    result = tolliver("decode", path, "--json", "--revision", name)
    assert result.exit_code == 0
    assert objects(result.stdout) == [json_of(vector.frame) for vector in vectors]
    result = tolliver("decode", path, "--revision", name)
    assert result.exit_code == 0
    assert f"{len(vectors)} frames" in result.stdout


@pytest.mark.parametrize("vector", [one for one in VECTORS if one.revision in BOTH], ids=lambda vector: vector.name)
def test_golden_vectors_as_json(tmp_path: Path, vector: Vector) -> None:
    path = written(tmp_path / "one", vector.data)
    result = tolliver("decode", path, "--json", "--revision", int(vector.revision))
    assert result.exit_code == 0
    assert objects(result.stdout) == [shown(vector)]


@pytest.mark.parametrize("revision", BOTH)
def test_golden_vectors_as_a_table(tmp_path: Path, revision: Revision) -> None:
    vectors = [vector for vector in VECTORS if vector.revision is revision]
    path = written(tmp_path / "all", b"".join(vector.data for vector in vectors))
    result = tolliver("decode", path, "--revision", int(revision))
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines()[2:-1] if line[:12].strip()]
    offset = 0
    for row, vector in zip(rows, vectors, strict=True):
        assert row[:3] == [str(offset), str(len(vector.data)), vector.value["frame"]]
        offset += len(vector.data)
    assert result.stdout.endswith(f"{len(vectors)} frames\n")


def test_unreliable_and_misunderstood_frames_as_json(tmp_path: Path) -> None:
    path = written(tmp_path / "some", encode(Message("c", "", b"\xff", None), D2) + BAD_TEXT)
    assert objects(tolliver("decode", "--json", path).stdout) == [
        {"frame": "message", "channel": "c", "key": "", "message_id": None, "body": "/w=="},
        {"frame": "ignored", "message_id": 7, "reason": "bad_text"},
    ]


class Trickle:
    """A source that brings only a few bytes at a time."""

    def __init__(self, data: bytes, step: int) -> None:
        self._pieces = iter([data[at : at + step] for at in range(0, len(data), step)])

    def read1(self, _size: int, /) -> bytes:
        return next(self._pieces, b"")


@given(st.data(), st.sampled_from(BOTH), st.integers(1, 200))
def test_every_frame_is_where_it_is_said_to_be(data: st.DataObject, revision: Revision, step: int) -> None:
    drawn = data.draw(st.lists(frames(revision) | st.just(Ignored(7, IgnoreReason.BAD_TEXT)), max_size=20))
    expected, stream = [], b""
    for frame in drawn:
        encoded = BAD_TEXT if isinstance(frame, Ignored) else encode(frame, revision)
        expected.append(Placed(len(stream), len(encoded), frame))
        stream += encoded
    assert list(placed_frames(Trickle(stream, step), revision)) == expected


def test_more_than_a_chunk_and_a_page(tmp_path: Path) -> None:
    count, body = 600, bytes(2000)
    path = written(tmp_path / "large", b"".join(encode(Message("c", "k", body, number), D2) for number in range(count)))
    result = tolliver("decode", path)
    assert result.exit_code == 0
    assert result.stdout.endswith("600 frames\n")
    assert result.stdout.count("offset") == 1
    ids = [one["message_id"] for one in objects(tolliver("decode", path, "--json").stdout)]
    assert ids == list(range(count))


@pytest.mark.parametrize(
    ("tail", "words"),
    [
        (encode(Message("c", "k", b"body", 3), D2)[:-1], "the stream ended inside a frame"),
        (b"\x07", "no frame begins with the byte 7"),
        (bytes.fromhex("03 ffffffff 00000000 ffffffff 00000001"), "the limit is"),
        (b"\x00" * 24, "ended inside a frame"),
    ],
    ids=["cut", "garbage", "too long", "cut handshake"],
)
@pytest.mark.parametrize("flags", [(), ("--json",)], ids=["table", "json"])
def test_what_precedes_an_error_is_shown(tmp_path: Path, tail: bytes, words: str, flags: tuple[str, ...]) -> None:
    good = encode(Ack(1), D2) + encode(Ack(2), D2)
    path = written(tmp_path / "bad", good + tail)
    result = tolliver("decode", path, *flags)
    assert result.exit_code == 1
    assert result.stdout.count("ack") == 2
    assert result.stderr.startswith(f"tolliver: {path}: byte {len(good)}: ")
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_bad_file_does_not_hide_the_next(tmp_path: Path) -> None:
    bad, good = written(tmp_path / "bad", b"\x63"), written(tmp_path / "good", encode(Ack(9), D2))
    result = tolliver("decode", "--json", bad, good)
    assert result.exit_code == 1
    assert objects(result.stdout) == [{"frame": "ack", "message_id": 9}]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_cannot_write_to_the_terminal(tmp_path: Path, name: str) -> None:
    body = name.encode() * 3
    hello = HandshakeRequest(1, ONE, (Subscription(name, name),))
    path = written(tmp_path / "hostile", encode(hello, D2) + encode(Message(name, name, body, 1), D2))
    result = tolliver("decode", path)
    assert result.exit_code == 0
    assert all(character.isprintable() for character in result.stdout.replace("\n", "").replace("\t", ""))
    flat = "".join(result.stdout.split())
    assert flat.count("x") <= 500 or len(name) < 500
    if len(name) < 20:
        assert repr(name)[1:-1].replace(" ", "") in flat
    message = objects(tolliver("decode", "--json", path).stdout)[1]
    assert (message["channel"], base64.b64decode(message["body"])) == (name, body)


def test_standard_input() -> None:
    result = run_process("decode", "-", "--json", stdin=encode(Ack(5), D2))
    assert result.exit_code == 0
    assert objects(result.stdout) == [{"frame": "ack", "message_id": 5}]


def test_a_reader_that_has_seen_enough(tmp_path: Path) -> None:
    """As with `head`: no traceback, and no complaint at exit."""
    path = written(tmp_path / "large", encode(Message("c", "k", bytes(20_000), 1), D2) * 50)
    with subprocess.Popen(
        [*COMMAND, "decode", "--json", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(SECONDS) == 1
