"""Recorder alone: whole frames in its files, and losses told."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tolliver._messages.recorder import Recorder
from tolliver._options.instance import InstanceOptions

from tests.wire.strategies import cut, sizes, traffic
from tests.wire.vectors import D1, D2, ONE, TWO
from tolliver_proto import Ack, HandshakeRequest, HandshakeResponse, HandshakeStatus, Message, StoreError, encode
from tolliver_proto.recording import Block, Codec, Direction, Index, build_index, in_order, read_blocks

IN, OUT = Direction.IN, Direction.OUT
REQUEST = encode(HandshakeRequest(1, ONE), D2)
RESPONSE = encode(HandshakeResponse(1, TWO, HandshakeStatus.SAME_VERSION), D2)
MESSAGE = encode(Message("c", "k", bytes(100), 1), D2)
SECONDS = 60.0


def never(text: str) -> None:
    raise AssertionError(text)


def recorder(directory: Path, on_problem: Callable[[str], None] = never, **more: Any) -> closing[Recorder]:
    return closing(Recorder(directory, ONE, D2, on_problem, **more))


def files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.rec"))


def blocks(directory: Path) -> Iterator[Block]:
    """Of all files; none of them is damaged, and each has its index."""
    for path in files(directory):
        yield from blocks_of(path)


def blocks_of(path: Path) -> list[Block]:
    """As `blocks`, of one file."""
    data = path.read_bytes()
    index = Index.decode(path.with_name(f"{path.name}.idx").read_bytes())
    assert index == build_index(lambda offset, size: data[offset : offset + size], len(data))
    assert index.fits(len(data), data)
    found = list(read_blocks([data]))
    whole = [block for block in found if isinstance(block, Block)]
    assert whole == found
    return whole


def stream(directory: Path, cid: int, direction: Direction) -> bytes:
    return b"".join(
        block.payload for block in blocks(directory) if (block.header.cid, block.header.direction) == (cid, direction)
    )


def runs(directory: Path) -> list[Block]:
    """Frames that each call made whole, in the order of the calls."""
    found = [block for path in files(directory) for block in in_order(blocks_of(path))]
    return [block for block in found if isinstance(block, Block)]


@given(st.lists(traffic(D2), max_size=10), sizes)
def test_whole_frames_of_both_directions_however_they_are_cut(drawn: list[Any], steps: list[int]) -> None:
    frames = [encode(frame, D2) for frame in drawn]
    incoming, outgoing = RESPONSE + b"".join(frames), [REQUEST, *frames]
    with TemporaryDirectory() as name:
        directory, before = Path(name), time.time_ns()
        with recorder(directory) as recording:
            recording.sent(7, outgoing[:1])
            for piece in cut(incoming + MESSAGE[:-1], steps):
                recording.received(7, piece)
            recording.sent(7, outgoing[1:])
            recording.ended(7)
        found = list(blocks(directory))
        assert stream(directory, 7, IN) == incoming
        assert stream(directory, 7, OUT) == b"".join(outgoing)
        for direction in Direction:
            counts = [block.header.frames for block in found if block.header.direction is direction]
            assert sum(counts) == len(outgoing)
            assert all(counts)
        assert {(block.header.local, block.header.revision, block.header.peer) for block in found} == {(ONE, D2, TWO)}
        called = runs(directory)
        times = [block.header.time_ns for block in called]
        assert times == sorted(times)
        assert before <= times[0] <= times[-1] <= time.time_ns()
        assert all(before <= block.header.first_time_ns <= block.header.time_ns for block in found)
        ways = [block.header.direction for block in called]
        assert (
            ways == [OUT, *[IN] * (len(ways) - 2), *[OUT] * bool(frames)] if frames else [OUT, *[IN] * (len(ways) - 1)]
        )


def test_calls_of_all_connections_stay_in_order(tmp_path: Path) -> None:
    """Also over groups and files; what a call did not make whole stands where it became so."""
    made: list[tuple[int, Direction, bytes]] = []
    with recorder(tmp_path, file_bytes=3000, group_bytes=2000) as recording:
        recording.received(9, MESSAGE[:-1])
        for number in range(100):
            cid, frame = number % 3, encode(Ack(number), D2)
            recording.received(cid, MESSAGE + frame)
            recording.sent(cid, [frame, MESSAGE])
            made += [(cid, IN, MESSAGE + frame), (cid, OUT, frame + MESSAGE)]
        recording.received(9, MESSAGE[-1:])
        made.append((9, IN, MESSAGE))
    found = runs(tmp_path)
    assert [(block.header.cid, block.header.direction, block.payload) for block in found] == made
    for path in files(tmp_path):
        ordinals = [
            piece.ordinal
            for block in read_blocks([path.read_bytes()])
            if isinstance(block, Block) and block.columns
            for piece in block.columns.pieces()
        ]
        assert len(set(ordinals)) == len(ordinals)
        assert 0 < min(ordinals) <= max(ordinals) <= 100 * 2 * (len(MESSAGE) + 5)
    assert len(files(tmp_path)) > 3


def test_a_file_that_ends_anywhere_ends_at_one_moment_for_all_connections(tmp_path: Path) -> None:
    with recorder(tmp_path, group_bytes=300) as recording:
        for number in range(50):
            recording.received(number % 3, encode(Message("c", "k", b"", number), D2))
            recording.sent(number % 3, [encode(Ack(number), D2)])
    made = b"".join(block.payload for block in runs(tmp_path))
    data = files(tmp_path)[0].read_bytes()
    groups = set()
    for end in range(len(data)):
        whole = [block for block in in_order(read_blocks([data[:end]])) if isinstance(block, Block)]
        assert made.startswith(b"".join(block.payload for block in whole))
        groups.add(len(whole))
    assert 3 < len(groups) < 60


def test_compressed_blocks_have_the_same_frames(tmp_path: Path) -> None:
    for name in Codec:
        with recorder(tmp_path / name.name, codec=name) as recording:
            recording.sent(1, [MESSAGE] * 1000)
            recording.sent(2, [encode(Ack(1), D2)])
    plain, packed = ([block.payload for block in blocks(tmp_path / name.name)] for name in Codec)
    assert plain == packed
    sizes = [files(tmp_path / name.name)[0].stat().st_size for name in Codec]
    assert sizes[1] < sizes[0] / 10


def test_the_revision_decides_where_frames_end(tmp_path: Path) -> None:
    with closing(Recorder(tmp_path, ONE, D1, never)) as recording:
        recording.sent(1, [encode(Ack(1), D1)])
    assert [block.header.revision for block in blocks(tmp_path)] == [D1]


def test_files_end_and_the_next_begins(tmp_path: Path) -> None:
    with recorder(tmp_path, file_bytes=1000, group_bytes=300) as recording:
        for number in range(50):
            recording.sent(number % 3, [encode(Message("c", "k", bytes(number), number), D2)])
        recording.sent(1, [encode(Message("c", "k", bytes(5000), 50), D2)])
        recording.sent(1, [MESSAGE])
    found = files(tmp_path)
    assert len(found) > 5
    assert all(path.stat().st_size <= 1000 for path in found if path.stat().st_size < 5000)
    assert all(str(ONE) in path.name for path in found)
    assert sum(block.header.frames for block in blocks(tmp_path)) == 52
    times = [block.header.time_ns for block in runs(tmp_path)]
    assert times == sorted(times)


def test_nobody_else_may_read_them(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "recordings"
    with recorder(directory) as recording:
        recording.sent(1, [MESSAGE])
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}
    assert len(list(directory.iterdir())) == 2


def test_a_second_run_adds_files(tmp_path: Path) -> None:
    for _ in range(2):
        with recorder(tmp_path) as recording:
            recording.sent(1, [MESSAGE])
    assert len(files(tmp_path)) == 2
    assert stream(tmp_path, 1, OUT) == MESSAGE * 2


def test_a_direction_that_is_garbage_ends_there_and_the_other_goes_on(tmp_path: Path) -> None:
    with recorder(tmp_path, queue_bytes=3000) as recording:
        recording.received(1, MESSAGE + b"\xff" * 500)
        recording.received(1, MESSAGE)
        recording.sent(1, [MESSAGE])
    assert stream(tmp_path, 1, IN) == MESSAGE
    assert stream(tmp_path, 1, OUT) == MESSAGE


def test_a_full_queue_ends_the_recording_of_that_connection_alone(tmp_path: Path) -> None:
    problems: list[str] = []
    beginning = encode(Message("c", "k", bytes(10_000), 1), D2)[:9_000]
    with recorder(tmp_path, problems.append, queue_bytes=8_000) as recording:
        for cid in (1, 2):
            recording.sent(cid, [MESSAGE])
            recording.received(cid, beginning)
            recording.sent(cid, [MESSAGE])
        recording.sent(3, [MESSAGE])
        recording.ended(1)
        recording.sent(1, [MESSAGE, MESSAGE])  # another connection, as far as the recorder knows
    (text,) = problems
    assert "8000 bytes wait to be recorded: connection 1, " in text
    assert [stream(tmp_path, cid, OUT) for cid in (1, 2, 3)] == [MESSAGE * 3, MESSAGE, MESSAGE]
    assert stream(tmp_path, 1, IN) == stream(tmp_path, 2, IN) == b""


def test_beginnings_of_frames_count_until_their_connection_ends(tmp_path: Path) -> None:
    problems: list[str] = []
    beginning = encode(Message("c", "k", bytes(10_000), 1), D2)[:6_000]
    with recorder(tmp_path, problems.append, queue_bytes=8_000, group_bytes=1) as recording:
        recording.received(1, beginning)
        recording.received(2, beginning)
        assert len(problems) == 1
        recording.ended(1)
        until(lambda: not recording.waiting)
        recording.received(3, beginning)
        recording.received(3, bytes(5000))
    assert len(problems) == 1
    assert stream(tmp_path, 2, IN) == stream(tmp_path, 3, IN) == b""


def test_a_connection_that_is_no_longer_recorded_holds_nothing(tmp_path: Path) -> None:
    problems: list[str] = []
    large = encode(Message("c", "k", bytes(6_000), 1), D2)
    with recorder(tmp_path, problems.append, queue_bytes=8_000, group_bytes=1) as recording:
        recording.received(1, large[:5_000])
        recording.received(1, bytes(5_000))
        until(lambda: not recording.waiting)
        recording.sent(2, [large])
    assert len(problems) == 1
    assert stream(tmp_path, 2, OUT) == large


def test_single_bytes_cost_more_than_a_byte(tmp_path: Path) -> None:
    problems: list[str] = []
    with recorder(tmp_path, problems.append, queue_bytes=100_000) as recording:
        recording.sent(1, [b"\x04"] * 1000)
    assert len(problems) == 1


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_calls_after_the_end_do_nothing(tmp_path: Path) -> None:
    with recorder(tmp_path) as recording:
        recording.received(1, b"")
        recording.sent(1, [])
        recording.close()
        recording.sent(1, [MESSAGE])
        recording.received(1, MESSAGE)
        recording.ended(1)
    assert not list(blocks(tmp_path))


def test_a_place_that_takes_no_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match=r"takes no recordings: .* Give a directory"):
        Recorder(tmp_path / "file", ONE, D2, never)


_DISK_FULL = """
import json, resource, signal, sys, time
from pathlib import Path
from uuid import UUID
from tolliver_proto import Message, encode
from tolliver._messages.recorder import Recorder

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
problems = []
recorder = Recorder(Path(sys.argv[1]), UUID(int=1), 2, problems.append, group_bytes=1)
frame = encode(Message("c", "k", bytes(900), 1))
recorder.sent(1, [frame])
while recorder.waiting:  # one block is whole, whatever becomes of the rest
    time.sleep(0.001)
sent = 1
while not problems and sent < 1_000_000:
    recorder.sent(1, [frame])
    sent += 1
recorder.sent(1, [frame])
recorder.ended(1)
recorder.close()
print(json.dumps([sent, problems]))
"""


def test_a_disk_that_is_full_ends_it_with_what_is_whole(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _DISK_FULL, tmp_path], capture_output=True, text=True, timeout=SECONDS, check=True
    )
    sent, problems = json.loads(done.stdout)
    (text,) = problems
    assert "recording has ended: [Errno 27] File too large" in text
    frame = encode(Message("c", "k", bytes(900), 1), D2)
    recorded = stream(tmp_path, 1, OUT)
    assert len(recorded) % len(frame) == 0
    assert recorded == frame * (len(recorded) // len(frame))
    assert 0 < len(recorded) < 20_000 < sent * len(frame)


_ENDLESS = """
import sys, time
from pathlib import Path
from uuid import UUID
from tolliver_proto import Message, encode
from tolliver._messages.recorder import Recorder

recorder = Recorder(Path(sys.argv[1]), UUID(int=1), 2, print)
for number in range(100_000):
    recorder.sent(1, [encode(Message("c", "k", bytes(900), number))])
    time.sleep(0.0001)
"""


def blocks_in(path: Path) -> list[Block]:
    return [block for block in in_order(read_blocks([path.read_bytes()])) if isinstance(block, Block)]


def test_a_crash_leaves_a_file_without_an_index_that_can_be_read(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", _ENDLESS, tmp_path]) as process:
        try:
            # The first group may be cut where it is seen while it is written: wait until it is whole.
            until(lambda: any(len(blocks_in(path)) >= 45 for path in files(tmp_path)))
        finally:
            process.send_signal(signal.SIGKILL)
    (path,) = tmp_path.iterdir()
    data = path.read_bytes()
    found = blocks_in(path)
    frames = [encode(Message("c", "k", bytes(900), number), D2) for number in range(len(found))]
    assert [block.payload for block in found] == frames
    assert len(found) >= 45
    assert len(data) < 100_000 * 900

    def read_at(offset: int, size: int) -> bytes:
        return data[offset : offset + size]

    assert build_index(read_at, len(data)).fits(len(data), data)


def test_the_option() -> None:
    options = partial(InstanceOptions, plaintext=True)
    assert options().record is None
    assert options(record="recordings").record == Path("recordings")
    with pytest.raises(ValueError, match="a path is empty"):
        options(record="")
