"""`tolliver decode` and `tolliver replay` on recordings, good and damaged."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tolliver._cli.decode import Placed
from tolliver._cli.recordings import nanoseconds
from tolliver._cli.replay import once
from tolliver._messages.recorder import Recorder

from tests.cli.commands import SECONDS, listener, run_process, tolliver
from tests.cli.conftest import Who
from tests.wire.vectors import D2, ONE, TWO
from tolliver_proto import (
    Ack,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Message,
    Subscribe,
    encode,
)
from tolliver_proto.recording import BLOCK, BlockHeader, Direction, Indexer, encode_block

IN, OUT = Direction.IN, Direction.OUT
THREE = UUID("01890000-0000-7000-8000-000000000003")
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
SECOND = 10**9


def never(text: str) -> None:
    raise AssertionError(text)


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def bodies(lines: Sequence[str]) -> list[bytes]:
    return [base64.b64decode(json.loads(line)["body"]) for line in lines]


def message(body: bytes, number: int | None, channel: str = "c", key: str = "k") -> bytes:
    return encode(Message(channel, key, body, number), D2)


def header(seconds: int = 0, direction: Direction = OUT, peer: UUID | None = TWO, cid: int = 1) -> BlockHeader:
    """Of a block so long after noon."""
    return BlockHeader(int(NOON.timestamp() + seconds) * SECOND, ONE, peer, cid, direction, D2, 1)


def write(path: Path, *blocks: tuple[BlockHeader, bytes]) -> tuple[Path, list[int]]:
    """A recording with its index; and where its blocks begin."""
    indexer, starts, data = Indexer(), [], b""
    for block in blocks:
        starts.append(len(data))
        encoded = encode_block(*block)
        indexer.add(encoded, len(encoded))
        data += encoded
    path.write_bytes(data)
    path.with_name(f"{path.name}.idx").write_bytes(indexer.index().encode())
    return path, starts


def spoil(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Recordings of two connections of one instance."""
    directory = tmp_path / "recordings"
    with closing(Recorder(directory, ONE, D2, never)) as recorder:
        recorder.sent(1, [encode(HandshakeRequest(1, ONE), D2)])
        recorder.received(1, encode(HandshakeResponse(1, TWO, HandshakeStatus.SAME_VERSION), D2))
        recorder.sent(1, [message(b"one", 1), message(b"two", None, "d")])
        recorder.received(1, encode(Ack(1), D2))
        recorder.received(2, encode(HandshakeRequest(1, THREE), D2) + encode(Subscribe("c", "", 9), D2))
        recorder.sent(2, [message(b"one", 1)])
    return directory


# decode.


def test_a_recording_as_json(recorded: Path) -> None:
    result = tolliver("decode", "--json", recorded)
    assert (result.exit_code, result.stderr) == (0, "")
    shown = objects(result.stdout)
    assert [(one["connection"], one["direction"], one["frame"], one["peer"]) for one in shown] == [
        (1, "out", "handshake_request", str(TWO)),
        (1, "in", "handshake_response", str(TWO)),
        (1, "out", "message", str(TWO)),
        (1, "out", "message", str(TWO)),
        (1, "in", "ack", str(TWO)),
        (2, "in", "handshake_request", str(THREE)),
        (2, "in", "subscribe", str(THREE)),
        (2, "out", "message", str(THREE)),
    ]
    assert all(abs(datetime.fromisoformat(one["time"]) - datetime.now(UTC)) < timedelta(minutes=5) for one in shown)
    assert base64.b64decode(shown[2]["body"]) == b"one"


def test_a_recording_as_a_table(tmp_path: Path) -> None:
    path, starts = write(tmp_path / "a.rec", (header(), message(b"hi", 1) * 2), (header(1, IN), encode(Ack(1), D2)))
    result = tolliver("decode", path)
    assert result.exit_code == 0
    title, heads, *rows, last = result.stdout.splitlines()
    assert (title, last) == (str(path), "3 frames")
    assert heads.split() == ["time", "way", "peer", "offset", "size", "frame", "channel", "key", "id", "content"]
    size = len(message(b"hi", 1))
    places = [BLOCK.size, BLOCK.size + size, starts[1] + BLOCK.size]
    noon = NOON.astimezone()
    assert [row.split() for row in rows if row.strip()] == [
        [f"{noon:%H:%M:%S}.000", "out", "00000002", str(places[0]), str(size), "message", "'c'", "'k'", "1", "hi"],
        [f"{noon:%H:%M:%S}.000", "out", "00000002", str(places[1]), str(size), "message", "'c'", "'k'", "1", "hi"],
        [f"{noon + timedelta(seconds=1):%H:%M:%S}.000", "in", "00000002", str(places[2]), "5", "ack", "1"],
    ]
    for place, part in zip(places, [message(b"hi", 1)] * 2 + [encode(Ack(1), D2)], strict=True):
        assert path.read_bytes()[place:].startswith(part)


def test_a_directory_is_its_recordings_in_order_of_time(tmp_path: Path) -> None:
    for number, name in enumerate(["20260102", "20260101", "20260103"]):
        write(tmp_path / f"{name}.rec", (header(), message(b"%d" % number, 1)))
    (tmp_path / "notes.txt").write_text("no recording")
    assert bodies(tolliver("decode", "--json", tmp_path).stdout.splitlines()) == [b"1", b"0", b"2"]


def test_a_recording_from_standard_input_or_under_another_name(tmp_path: Path) -> None:
    path, _ = write(tmp_path / "a.rec", (header(), message(b"hi", 1)))
    other = path.rename(tmp_path / "other")
    assert bodies(tolliver("decode", "--json", other).stdout.splitlines()) == [b"hi"]
    result = run_process("decode", "--json", "-", stdin=other.read_bytes() + b"torn")
    assert (bodies(result.stdout.splitlines()), result.exit_code) == ([b"hi"], 1)
    assert "standard input: byte " in result.stderr
    assert "the file ends inside a block" in result.stderr


ALL = [(header(second, way, peer), second) for second in range(3) for way in Direction for peer in (TWO, THREE, None)]


@pytest.mark.parametrize(
    ("options", "taken"),
    [
        (("--peer", THREE), lambda one: one.peer == THREE),
        (("--direction", "in"), lambda one: one.direction is IN),
        (("--direction", "out", "--peer", TWO), lambda one: (one.direction, one.peer) == (OUT, TWO)),
        (("--since", "2026-11-21T12:00:01+00:00"), lambda one: one.time_ns >= header(1).time_ns),
        (("--until", "2026-11-21T13:00:01+01:00"), lambda one: one.time_ns < header(1).time_ns),
        (
            ("--since", NOON.timestamp() + 0.5, "--until", NOON.timestamp() + 1.5),
            lambda one: one.time_ns == header(1).time_ns,
        ),
    ],
    ids=["peer", "in", "out to a peer", "since", "until", "between"],
)
def test_filters_of_headers(tmp_path: Path, options: tuple[object, ...], taken: Any) -> None:
    path, _ = write(tmp_path / "a.rec", *((one, message(b"%d" % number, 1)) for number, (one, _) in enumerate(ALL)))
    expected = [b"%d" % number for number, (one, _) in enumerate(ALL) if taken(one)]
    assert 0 < len(expected) < len(ALL)
    assert bodies(tolliver("decode", "--json", path, *options).stdout.splitlines()) == expected


def test_filters_of_frames(tmp_path: Path) -> None:
    stream = message(b"1", 1) + message(b"2", 2, "d") + message(b"3", 3, "c", "l") + encode(Ack(1), D2)
    path, _ = write(tmp_path / "a.rec", (header(), stream))
    raw = tmp_path / "raw"
    raw.write_bytes(stream)
    for file in (path, raw):
        for options, expected in (
            (("--channel", "c"), [b"1", b"3"]),
            (("--key", "k"), [b"1", b"2"]),
            (("--channel", "c", "--key", "l"), [b"3"]),
        ):
            result = tolliver("decode", "--json", file, *options)
            assert (bodies(result.stdout.splitlines()), result.exit_code) == (expected, 0)
        assert len(objects(tolliver("decode", "--json", file, "--channel", "").stdout)) == 4


def test_a_stream_has_no_times(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.write_bytes(encode(Ack(1), D2))
    result = tolliver("decode", raw, "--since", "0")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"tolliver: {raw} is no recording: times, peers and directions are not in it\n"


def test_damage_in_a_body_costs_its_block(tmp_path: Path) -> None:
    path, starts = write(tmp_path / "a.rec", *((header(), message(b"%d" % number, 1)) for number in range(4)))
    spoil(path, starts[1] + BLOCK.size + 3)
    result = tolliver("decode", "--json", path)
    assert (result.exit_code, bodies(result.stdout.splitlines())) == (1, [b"0", b"2", b"3"])
    assert result.stderr == (
        f"tolliver: {path}: byte {starts[1]}: the payload's checksum is wrong; reading went on at byte {starts[2]} "
        "[damaged]\n"
    )


def test_damage_in_a_header_costs_what_stands_before_the_next_entry(tmp_path: Path) -> None:
    large = bytes(500_000)
    blocks = [(header(), message(b"%d" % number + large, 1)) for number in range(6)]
    path, starts = write(tmp_path / "a.rec", *blocks)
    spoil(path, starts[1])
    result = tolliver("decode", "--json", path)
    assert result.exit_code == 1
    assert [body[:1] for body in bodies(result.stdout.splitlines())] == [b"0", b"3", b"4", b"5"]
    assert f"byte {starts[1]}: no block begins here; reading went on at byte {starts[3]} [damaged]" in result.stderr
    spoil(path, starts[5])
    assert f"byte {starts[5]}: no block begins here; reading went on" not in tolliver("decode", path).stderr

    index = path.with_name(f"{path.name}.idx")
    stale = index.read_bytes()
    write(tmp_path / "b.rec", *blocks[:5])
    for hint in (index.with_name("b.rec.idx").read_bytes(), stale[:-1], b"", None):
        index.unlink()
        if hint is not None:
            index.write_bytes(hint)
        else:
            index.mkdir()
        result = tolliver("decode", "--json", path)
        assert [body[:1] for body in bodies(result.stdout.splitlines())] == [b"0"]
        assert f"byte {starts[1]}: no block begins here; nothing behind it was read [damaged]" in result.stderr


def test_a_torn_file_is_shown_to_its_last_block(tmp_path: Path) -> None:
    path, starts = write(tmp_path / "a.rec", (header(), message(b"0", 1)), (header(), message(b"1", 1)))
    path.write_bytes(path.read_bytes()[:-1])
    result = tolliver("decode", "--json", path)
    assert (result.exit_code, bodies(result.stdout.splitlines())) == (1, [b"0"])
    assert f"byte {starts[1]}: the file ends inside a block, of which " in result.stderr
    assert result.stderr.endswith("[torn]\n")


def test_a_frame_that_a_peer_sent_wrong_does_not_hide_the_next_block(tmp_path: Path) -> None:
    bad = encode(HandshakeResponse(1, TWO, HandshakeStatus.SAME_VERSION), D2)
    bad = bad[:25] + b"\x09" + bad[26:]
    path, starts = write(
        tmp_path / "a.rec",
        (header(), encode(Ack(1), D2)),
        (header(), message(b"0", 1) + bad),
        (header(), message(b"1", 1)),
    )
    result = tolliver("decode", "--json", path)
    assert [one["frame"] for one in objects(result.stdout)] == ["ack", "message", "message"]
    place = starts[1] + BLOCK.size + len(message(b"0", 1))
    assert f"byte {place}: status 9 has no meaning" in result.stderr
    assert result.exit_code == 1


@given(st.datetimes(datetime(1980, 1, 1), datetime(2200, 1, 1)), st.integers(-840, 840))
def test_a_time_is_read_as_it_is_written(when: datetime, minutes: int) -> None:
    when = when.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    exact = (when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000
    assert nanoseconds(when.isoformat()) == exact
    assert nanoseconds(f"{exact // SECOND}.{exact % SECOND:09}") == exact


@pytest.mark.parametrize("text", ["yesterday", "", "nan", "inf", "1e99999999", "1e99", "2026-13-01"])
def test_what_is_no_time(text: str) -> None:
    result = tolliver("decode", "x", "--since", text)
    assert result.exit_code == 2
    assert "is no time" in result.stderr


# replay.


def test_a_copy_is_sent_once(tmp_path: Path) -> None:
    def rows(*found: tuple[BlockHeader | None, Message]) -> list[bytes]:
        return [one.body for _, one in once(Placed(0, 9, frame, at) for at, frame in found)]

    first, other = Message("c", "k", b"a", 1), Message("c", "k", b"b", 1)
    out, in_two, in_three = header(), header(direction=IN), header(direction=IN, peer=THREE)
    assert rows((out, first), (header(peer=THREE), first), (out, first)) == [b"a"]
    assert rows((out, first), (out, other), (out, other), (out, first)) == [b"a", b"b"]
    assert rows((in_two, first), (in_three, first), (in_two, first)) == [b"a", b"a"]
    assert rows(*[(out, Message("c", "k", b"u", None))] * 2) == [b"u", b"u"]


def test_what_went_out_is_sent_again(who: Who, recorded: Path, tmp_path: Path) -> None:
    with listener(tmp_path / "out", who("alice"), "--listen", "127.0.0.1:0", "--json") as alice:
        result = tolliver("replay", recorded, "--to", alice.address, *who("bob", own=True))
        assert result.exit_code == 0, result.stderr
        assert result.stdout.startswith("replayed 2 of 2 messages for 1 recipient, 1 acknowledged, in ")
        narrow = tolliver(
            "replay", recorded, "--to", alice.address, *who("bob", own=True), "--channel", "c", "--no-wait", "--trio"
        )
        assert narrow.stdout.startswith("replayed 1 of 1 message for 1 recipient, in ")
        nothing = tolliver("replay", recorded, "--to", alice.address, *who("bob", own=True), "--direction", "in")
        assert (nothing.exit_code, nothing.stdout) == (0, "")
        deadline = [tolliver("send", "x", "x", "last", "--to", alice.address, *who("bob", own=True)).exit_code]
        assert deadline == [0]
        got = [json.loads(line) for line in alice.lines()]
        assert alice.interrupt() == 0
    copies = Counter((one["channel"], one["key"], base64.b64decode(one["body"])) for one in got)
    assert set(copies) == {("c", "k", b"one"), ("d", "k", b"two"), ("x", "x", b"last")}
    assert copies["c", "k", b"one"] >= 2  # more where an acknowledgement came late
    assert [one["message_id"] for one in got if one["channel"] == "d"] == [None]


def test_what_came_in_at_a_rate_and_what_is_damaged(who: Who, tmp_path: Path) -> None:
    blocks = [(header(direction=IN), message(b"%d" % number, number)) for number in range(20)]
    path, starts = write(tmp_path / "a.rec", *blocks)
    spoil(path, starts[7] + BLOCK.size)
    with listener(tmp_path / "out", who("alice"), "--listen", "127.0.0.1:0", "--json", "--count", 19) as alice:
        result = tolliver(
            "replay",
            path,
            "--to",
            alice.address,
            *who("bob", own=True),
            "--direction",
            "in",
            "--rate",
            100,
            "--since",
            "0",
        )
        assert alice.process.wait(SECONDS) == 0
    assert result.exit_code == 1
    assert result.stdout.startswith("replayed 19 of 19 messages for 1 recipient, 19 acknowledged, in ")
    seconds = float(result.stdout.partition(" in ")[2].partition(" s ")[0])
    assert seconds >= 0.09  # the first batch goes at once, the second waits for its time
    assert f"{path}: byte {starts[7]}: the payload's checksum is wrong" in result.stderr
    assert bodies(alice.lines()) == [b"%d" % number for number in range(20) if number != 7]


def test_nobody_wants_it(who: Who, recorded: Path, tmp_path: Path) -> None:
    with listener(tmp_path / "out", who("alice"), "--listen", "127.0.0.1:0", "--channel", "other") as alice:
        result = tolliver("replay", recorded, "--to", alice.address, *who("bob", own=True))
    assert result.exit_code == 1
    assert "1 peer connected, nothing replayed: no peer is subscribed to them" in result.stderr


def test_a_stream_cannot_be_replayed(who: Who, tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(message(b"hi", 1))
    with listener(tmp_path / "out", who("alice"), "--listen", "127.0.0.1:0") as alice:
        result = tolliver("replay", tmp_path / "raw", "--to", alice.address, *who("bob", own=True))
    assert result.exit_code == 1
    assert "is no recording" in result.stderr
