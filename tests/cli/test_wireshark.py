"""`tolliver wireshark` and `tolliver recordings export`."""

from __future__ import annotations

import re
import stat
import subprocess
from contextlib import closing
from pathlib import Path
from struct import unpack_from
from uuid import UUID

import pytest
from tolliver._cli import wireshark
from tolliver._cli.pcapng import PACKET
from tolliver._messages.recorder import Recorder

from scripts.draw import wireshark as drawn
from tests.cli.commands import COMMAND, run_process, tolliver
from tests.cli.test_recordings import spoil
from tests.wire.test_recording_groups import gathered
from tests.wire.vectors import D1, D2, GO, ONE, TWO
from tests.wireshark.captures import TSHARK, needs_tshark, read
from tolliver_proto import Ack, HandshakeRequest, HandshakeResponse, HandshakeStatus, Message, Subscription, encode
from tolliver_proto.layouts import LAYOUTS, Refusal
from tolliver_proto.recording import Codec, Direction, encode_group, frame_sizes

THREE = UUID("01890000-0000-7000-8000-000000000003")
LARGE = bytes(200_000)
NOON = 1_763_726_400_000_000_000


def record(folder: Path) -> Path:
    """Two runs of an instance that dials one peer and is dialled by another; both count their connections from one."""
    for _ in range(2):
        with closing(Recorder(folder, ONE, D2, pytest.fail)) as recorder:
            recorder.sent(1, [encode(HandshakeRequest(1, ONE, (Subscription("a", ""),)), D2)])
            recorder.received(2, encode(HandshakeRequest(1, THREE), D2))
            recorder.received(1, encode(HandshakeResponse(1, TWO, HandshakeStatus.SAME_VERSION), D2))
            recorder.sent(2, [encode(HandshakeResponse(1, ONE, HandshakeStatus.SAME_VERSION), D2)])
            recorder.received(1, encode(Message("a", "b", LARGE, 9), D2))
            recorder.sent(1, [encode(Ack(9), D2)])
    return folder


def blocks(data: bytes) -> list[int]:
    """Kinds of the blocks of a capture, whose lengths agree."""
    kinds, at = [], 0
    while at < len(data):
        kind, size = unpack_from("<II", data, at)
        assert size % 4 == 0
        assert unpack_from("<I", data, at + size - 4) == (size,)
        kinds.append(kind)
        at += size
    return kinds


def test_recordings_become_a_capture(tmp_path: Path) -> None:
    folder, target = record(tmp_path / "recordings"), tmp_path / "a.pcapng"
    result = tolliver("recordings", "export", folder, "--pcapng", target)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "tolliver: 4 connections, 12 blocks\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    data = target.read_bytes()
    openings, segments = 4 * 3, 2 * (5 + 4)  # a message of 200,000 bytes takes four
    assert blocks(data) == [0x0A0D0D0A, 1, 4] + [6] * (openings + segments)
    for one in (ONE, TWO, THREE):
        assert str(one).encode() in data
    again = tolliver("recordings", "export", folder, "--pcapng", target)
    assert (again.exit_code, again.stderr) == (1, f"tolliver: {target}: File exists\n")
    piped = subprocess.run([*COMMAND, "recordings", "export", folder, "--pcapng", "-"], capture_output=True, check=True)
    assert piped.stdout == data


def test_a_damaged_recording_is_told_and_the_rest_is_there(tmp_path: Path) -> None:
    folder, target = record(tmp_path / "recordings"), tmp_path / "a.pcapng"
    first, _ = sorted(folder.glob("*.rec"))
    spoil(first, 150_000)  # a byte of the large message
    result = tolliver("recordings", "export", folder, "--pcapng", target)
    assert result.exit_code == 1
    assert re.search(rf"tolliver: {re.escape(str(first))}: byte \d+: the block's checksum is wrong", result.stderr)
    assert "tolliver: 4 connections, 10 blocks\n" in result.stderr


def test_a_layout_that_must_be_said_is_named(tmp_path: Path) -> None:
    with closing(Recorder(tmp_path / "recordings", ONE, D1, pytest.fail)) as recorder:
        recorder.sent(1, [encode(HandshakeRequest(1, ONE), D1)])
    result = tolliver("recordings", "export", tmp_path / "recordings", "--pcapng", tmp_path / "a.pcapng")
    assert "wireshark -o tolliver.layout:DRAFT_1" in result.stderr


def packets(data: bytes) -> list[tuple[int, bytes]]:
    """Time in nanoseconds and bytes of each that carries some."""
    found, at = [], 0
    while at < len(data):
        kind, size = unpack_from("<II", data, at)
        if kind == PACKET:
            high, low, held = unpack_from("<III", data, at + 12)
            found.append((high << 32 | low, data[at + 28 : at + 28 + held][40:]))  # behind the heads of IP and TCP
        at += size
    return [(time_ns, carried) for time_ns, carried in found if carried]


def conversation() -> list[tuple[int, Direction, bytes, int]]:
    """Two connections in turn: connection, direction, bytes and time of each read and write."""
    found = []
    for cid, peer in ((1, TWO), (2, THREE)):
        found += [
            (cid, Direction.OUT, encode(HandshakeRequest(1, ONE, (Subscription("a", ""),)), GO)),
            (cid, Direction.IN, encode(HandshakeResponse(1, peer, HandshakeStatus.SAME_VERSION), GO)),
            (cid, Direction.IN, encode(Message("a", "b", b"%d" % cid, 2**40), GO) + encode(Message("a", "", b""), GO)),
            (cid, Direction.OUT, encode(Refusal(2**40), GO)),
            (cid, Direction.IN, encode(Message("a", "b", b"%d" % cid, 2**40), GO)),
            (cid, Direction.OUT, encode(Ack(2**40), GO)),
        ]
    calls = [call for pair in zip(found[:6], found[6:], strict=True) for call in pair]
    return [(*call, NOON + 10**6 * at) for at, call in enumerate(calls)]


@pytest.mark.parametrize("codec", Codec)
def test_frames_of_a_group_have_their_own_times_and_order(tmp_path: Path, codec: Codec) -> None:
    folder, target = tmp_path / "recordings", tmp_path / "a.pcapng"
    folder.mkdir()
    calls = conversation()
    for cut, name in enumerate(("a.rec", "b.rec")):  # a recording goes on in the next file
        some = calls[6 * cut : 6 * cut + 6]
        blocks = [
            one._replace(revision=GO, sizes=frame_sizes(one.payload, GO)[0]) for one in gathered(some, begin=cut << 20)
        ]
        (folder / name).write_bytes(encode_group(ONE, blocks, codec=codec))
    result = tolliver("recordings", "export", folder, "--pcapng", target)
    assert (result.exit_code, result.stderr.splitlines()[0]) == (0, "tolliver: 2 connections, 12 blocks")
    assert packets(target.read_bytes()) == [(time_ns, data) for _, _, data, time_ns in calls]
    if TSHARK is not None:
        said = read(target, "-o", "tolliver.layout:GO_2026")
        kinds = [[one.one("tolliver.type") for one in said if one.stream == stream] for stream in (0, 1)]
        assert kinds == [["request", "response", "message", "message", "ack", "message", "ack"]] * 2
        assert [one.experts for one in said if one.experts] == [{"not_delivered"}] * 2


@needs_tshark
def test_an_installed_dissector_reads_the_capture(tmp_path: Path) -> None:
    folder, target = record(tmp_path / "recordings"), tmp_path / "a.pcapng"
    assert tolliver("recordings", "export", folder, "--pcapng", target).exit_code == 0
    installed = run_process("wireshark", "--install", HOME=str(tmp_path))
    path = tmp_path / ".local" / "lib" / "wireshark" / "plugins" / "tolliver.lua"
    assert installed.stderr == f"tolliver: {path}: Wireshark and tshark load it when they start\n"
    said = read(target, script=None, home=tmp_path)
    assert [(one.stream, one.one("tolliver.type")) for one in said if one.stream < 2] == [
        (0, "request"),
        (1, "request"),
        (0, "response"),
        (1, "response"),
        (0, "message"),
        (0, "ack"),
    ]
    assert {one.stream for one in said} == {0, 1, 2, 3}
    ack = said[5]
    assert ack.one("tolliver.ack_of") == str(said[4].number)
    assert (ack.one("tolliver.sender"), ack.one("tolliver.receiver")) == (str(ONE), str(TWO))
    assert all(not one.experts for one in said)
    told = ["tolliver.lua: another copy of it is loaded already and stands; remove that to use this one"]
    assert read(target, home=tmp_path, told=told) == said


def test_the_dissector_is_printed_and_installed(tmp_path: Path) -> None:
    text = tolliver("wireshark").stdout
    assert text == wireshark.dissector()
    folder = tmp_path / "new" / "plugins"
    for _ in range(2):  # an earlier one of ours is replaced
        result = tolliver("wireshark", "--to", folder)
        assert (result.exit_code, [*folder.iterdir()]) == (0, [folder / "tolliver.lua"])
        assert (folder / "tolliver.lua").read_text() == text
        (folder / "tolliver.lua").write_text(text[:100])
    (folder / "tolliver.lua").write_text("-- somebody else's")
    result = tolliver("wireshark", "--install", "--to", folder)
    assert result.exit_code == 1
    assert "is no dissector of tolliver's" in result.stderr
    assert (folder / "tolliver.lua").read_text() == "-- somebody else's"


def test_a_layout_that_differs_is_drawn() -> None:
    text = drawn.SCRIPT.read_text()
    changed = text.replace("I key, I body", "I body, I key").replace('"newer_compatible"', '"other"')
    again = drawn.script(changed)
    assert changed not in (text, again)
    assert again == drawn.script(again)
    assert all(f"  {name.name} = {{" in again for name in LAYOUTS)
