"""Stage folder: reading, and the right to have it."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tolliver.staging import (
    Position,
    StageFolder,
    StageInUse,
    StageLost,
    StageWriter,
    UnknownStage,
)
from tolliver.staging._folder import HEAD, LOCK, MARKER, SEGMENTS, encode_head, segment_name

from tests.staging.stages import ALICE, BOB, D2, ids, messages, rows_in, staged, writer
from tolliver_proto import StoreError
from tolliver_proto.recording import Block, read_blocks


def fill(writing: StageWriter, blocks: int, each: int = 3, first: int = 1, body: bytes = bytes(50)) -> list[Position]:
    """So many blocks of that many messages; returns the position behind each."""
    ends = []
    for number in range(blocks):
        start = first + number * each
        writing.add(ALICE, 1, D2, messages(start, start + each - 1, body))
        assert writing.sync()
        ends.append(writing.end)
    return ends


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


# Files that are there.


def test_a_new_stage(tmp_path: Path) -> None:
    directory = tmp_path / "some" / "stage"
    with pytest.raises(UnknownStage, match="is no stage"):
        StageFolder(directory)
    writing = writer(directory)
    folder = StageFolder(directory)
    assert folder.head() == folder.first() == writing.end == Position(1, 0, 0)
    folder.check(Position(1, 0, 0), folder.mark(Position(1, 0, 0)))
    assert folder.ranges(folder.first(), writing.end) == []
    fill(writing, 1)
    assert folder.head() == writing.end
    assert folder.first() == Position(1, 0, 0)
    writing.close()
    writing.close()
    for path in [directory, *directory.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert json.loads((directory / MARKER).read_bytes()) == {"layout": 2, "stage": str(folder.stage)}


def test_what_is_no_stage_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "somebody's").write_text("file")
    before = contents(tmp_path)
    with pytest.raises(UnknownStage, match="not empty"):
        writer(tmp_path)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "marker",
    [
        b"",
        b"{",
        b"[" * 5000,
        b"\xff",
        b"[]",
        b'{"layout": 3, "stage": "00000000-0000-4000-8000-000000000000"}',
        b'{"layout": 0, "stage": "00000000-0000-4000-8000-000000000000"}',
        b'{"layout": true, "stage": "00000000-0000-4000-8000-000000000000"}',
        b'{"layout": 1}',
        b'{"layout": 1, "stage": "x"}',
        b'{"layout": 1, "stage": 7}',
    ],
)
def test_an_unknown_layout_is_refused_untouched(tmp_path: Path, marker: bytes) -> None:
    (tmp_path / MARKER).write_bytes(marker)
    before = contents(tmp_path)
    for opening in (StageFolder, writer):
        with pytest.raises(UnknownStage):
            opening(tmp_path)
    assert contents(tmp_path) == before


def test_a_file_is_no_stage(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for opening in (StageFolder, writer):
        with pytest.raises(UnknownStage, match="cannot be read"):
            opening(tmp_path / "file")


def test_a_directory_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "leads nowhere").symlink_to(tmp_path / "no such directory" / "stage")
    with pytest.raises(StoreError, match=r"no stage can be made in .*File exists"):
        writer(tmp_path / "leads nowhere")
    hindrance = tmp_path / "stage" / f"{MARKER}.new"
    hindrance.mkdir(parents=True)
    with pytest.raises(StoreError, match=r"no stage can be made in .*is a directory, and no regular file"):
        writer(tmp_path / "stage")
    hindrance.rmdir()
    writer(tmp_path / "stage").close()


def test_what_a_killed_maker_left_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("1\n")
    (tmp_path / SEGMENTS).mkdir()
    (tmp_path / f"{MARKER}.new").write_text("{")
    writer(tmp_path).close()
    assert StageFolder(tmp_path).head() == Position(1, 0, 0)


def test_a_head_that_is_torn_says_nothing(tmp_path: Path) -> None:
    writing = writer(tmp_path)
    (end,) = fill(writing, 1)
    writing.close()
    head = (tmp_path / HEAD).read_bytes()
    for at in range(len(head)):
        (tmp_path / HEAD).write_bytes(head[:at])
        assert StageFolder(tmp_path).head() is None
        (tmp_path / HEAD).write_bytes(head[:at] + bytes([head[at] ^ 1]) + head[at + 1 :])
        assert StageFolder(tmp_path).head() is None
    (tmp_path / HEAD).unlink()
    assert StageFolder(tmp_path).head() is None
    writing = writer(tmp_path)
    assert StageFolder(tmp_path).head() == end
    writing.close()


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    writer(tmp_path).close()
    folder = StageFolder(tmp_path)
    (tmp_path / HEAD).unlink()
    (tmp_path / HEAD).mkdir()
    with pytest.raises(StoreError, match="cannot be read"):
        folder.head()
    for path in (tmp_path / SEGMENTS).iterdir():
        path.unlink()
    (tmp_path / SEGMENTS).rmdir()
    with pytest.raises(StoreError, match="cannot be read"):
        folder.segments()


# Its owner.


def test_one_receiver(tmp_path: Path) -> None:
    writing = writer(tmp_path)
    program = (
        "import sys\nfrom pathlib import Path\nfrom tests.staging.stages import writer\n"
        "from tolliver.staging import StageInUse\n"
        "try: writer(Path(sys.argv[1]))\nexcept StageInUse as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, check=True, timeout=60)
    assert f"is received into by process {os.getpid()}:" in said.stdout.decode()
    writing.close()
    assert subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, check=True).stdout == b""


def test_one_waits_for_an_earlier_receiver_to_end(tmp_path: Path) -> None:
    writing = writer(tmp_path)
    (tmp_path / LOCK).write_text("nonsense")
    with pytest.raises(StageInUse, match="process \\(unknown\\)"):
        writer(tmp_path, lock_timeout=0.06)
    said, say = os.pipe()
    holder = os.fork()
    if not holder:  # it lives on, and lets go of the lock: its parent's end is the stage's
        os.write(say, b"here")
        signal.pause()
        os._exit(0)
    try:
        assert os.read(said, 4) == b"here"
        writing.close()
        writer(tmp_path).close()
    finally:
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)
        os.close(said)
        os.close(say)


# Reading on.


def test_positions_are_in_order_and_cover_all(tmp_path: Path) -> None:
    writing = writer(tmp_path, segment_bytes=900)
    ends = fill(writing, 9)
    assert ends == sorted(set(ends))
    assert [end.frames for end in ends] == [*range(3, 28, 3)]
    assert len({end.segment for end in ends}) == 3
    folder = StageFolder(tmp_path)
    assert ids(staged(tmp_path)) == [*range(1, 28)]
    for start in (folder.first(), *ends):
        assert ids(staged(tmp_path, start, ends[-1])) == [*range(start.frames + 1, 28)]
    last = next(segment for segment in folder.segments() if segment.number == 1)
    assert Position(1, last.path.stat().st_size, 9) < Position(2, 0, 9)
    writing.close()


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 200)), min_size=1, max_size=8),
    st.none() | st.integers(0, 9),
    st.none() | st.integers(0, 900),
    st.integers(150, 900),
)
def test_one_goes_on_by_whole_blocks_within_the_bounds(
    blocks: list[tuple[int, int]],
    max_rows: int | None,
    max_bytes: int | None,
    segment_bytes: int,
) -> None:
    with TemporaryDirectory() as directory:
        go_on(Path(directory), blocks, max_rows, max_bytes, segment_bytes)


def go_on(
    directory: Path, blocks: list[tuple[int, int]], max_rows: int | None, max_bytes: int | None, segment_bytes: int
) -> None:
    writing = writer(directory, segment_bytes=segment_bytes)
    first, bounds = 1, {writing.end.frames: 0}
    for count, size in blocks:
        before = writing.bytes
        writing.add(ALICE, 1, D2, messages(first, first + count - 1, bytes(size)))
        writing.sync()
        first += count
        bounds[writing.end.frames] = bounds[writing.end.frames - count] + writing.bytes - before
    folder, end = writing.folder, writing.end
    at, steps = folder.first(), 0
    while at.frames < end.frames:
        after = folder.advance(at, end, max_rows, max_bytes)
        assert at < after <= end
        frames = sorted(bounds)
        one_more = frames[frames.index(at.frames) + 1]
        if after.frames > one_more:
            assert max_rows is None or after.frames - at.frames <= max_rows
            assert max_bytes is None or bounds[after.frames] - bounds[at.frames] <= max_bytes
        if after.frames < end.frames:  # and no fewer than allowed
            more = frames[frames.index(after.frames) + 1]
            assert (max_rows is not None and more - at.frames > max_rows) or (
                max_bytes is not None and bounds[more] - bounds[at.frames] > max_bytes
            )
        assert ids(staged(directory, at, after)) == [*range(at.frames + 1, after.frames + 1)]
        at, steps = after, steps + 1
        assert steps <= len(blocks)
    assert folder.advance(end, end, max_rows, max_bytes) == end
    writing.close()


def test_a_damaged_header_is_not_passed_over(tmp_path: Path) -> None:
    writing = writer(tmp_path)
    *_, end = fill(writing, 3)
    folder, (segment,) = writing.folder, writing.folder.segments()
    data = segment.path.read_bytes()
    segment.path.write_bytes(b"X" + data[1:])
    with pytest.raises(StageLost, match="byte 0: no block begins here"):
        folder.advance(folder.first(), end, 1)
    segment.path.write_bytes(data)
    with pytest.raises(StageLost, match="no block ends at byte 290"):
        folder.advance(folder.first(), Position(1, 290, 5), 1)
    writing.close()


# Deleting, and what is gone.


def test_readers_delete_what_they_are_through_with(tmp_path: Path) -> None:
    writing = writer(tmp_path, segment_bytes=900)
    ends = fill(writing, 9)
    folder = StageFolder(tmp_path)
    first, second, third = folder.segments()[:3]
    behind = Position(1, first.path.stat().st_size, second.frames)
    folder.check(behind)
    assert folder.delete_before(ends[0]) == 0
    assert folder.delete_before(behind) == 1
    assert not first.path.exists()
    assert folder.delete_before(behind) == 0
    folder.check(behind)  # nothing that stood behind it is gone
    assert folder.first() == second.start
    assert ids(staged(tmp_path, behind, ends[-1])) == [*range(second.frames + 1, 28)]
    assert folder.advance(behind, ends[-1], 3).frames == second.frames + 3
    with pytest.raises(StageLost, match=r"segment 1 .* is gone"):
        folder.check(ends[0])
    assert folder.delete_before(Position(99, 0, 99)) == 1
    assert folder.segments() == [third], "the last one stays"
    assert not [*(tmp_path / SEGMENTS).glob("*.idx")]
    assert len([*(tmp_path / SEGMENTS).glob("*.ids")]) == 2
    writing.close()


def test_what_is_gone_is_said(tmp_path: Path) -> None:
    writing = writer(tmp_path, segment_bytes=900)
    ends = fill(writing, 9)
    folder, end = writing.folder, ends[-1]
    one, two, three = (segment.path for segment in folder.segments()[:3])
    with pytest.raises(StageLost, match=r"segment 9 .* is gone"):
        folder.check(Position(9, 0, 100))
    with pytest.raises(StageLost, match="ends before byte 5000"):
        folder.check(Position(1, 5000, 9))
    with pytest.raises(StageLost, match="does not reach byte 9999"):
        folder.ranges(folder.first(), end._replace(pos=9999))
    two.rename(tmp_path / "two")
    with pytest.raises(StageLost, match=r"segment 2 .* is gone"):
        folder.ranges(folder.first(), end)
    (tmp_path / "two").rename(two)
    os.truncate(one, 10)
    with pytest.raises(StageLost, match=f"{one} ends before"):
        folder.check(ends[0])
    for path in (one, two, three):
        path.unlink()
    assert not folder.segments()
    with pytest.raises(StageLost, match="none is there"):
        folder.check(ends[0])
    folder.check(Position(1, 0, 0))  # as if nothing had come yet
    writing.close()


@pytest.mark.parametrize("indexed", [True, False])
def test_a_closed_segment_that_was_cut_between_two_blocks_is_told(tmp_path: Path, indexed: bool) -> None:
    writing = writer(tmp_path, segment_bytes=900)
    end = fill(writing, 9)[-1]
    writing.close()
    folder = StageFolder(tmp_path)
    segment = folder.segments()[1]
    sidecar = segment.path.with_name(f"{segment.path.name}.idx")
    if not indexed:
        sidecar.unlink()
    assert len(staged(tmp_path, folder.first(), end)) == end.frames
    with segment.path.open("rb") as file:
        blocks = [block for block in read_blocks([file.read()]) if isinstance(block, Block)]
    for block in reversed(blocks):
        os.truncate(segment.path, block.offset)
        with pytest.raises(StageLost, match=f"{segment.path} was cut"):
            folder.ranges(folder.first(), end)


def test_what_goes_while_one_looks_is_said(tmp_path: Path) -> None:
    writing = writer(tmp_path, segment_bytes=900)
    ends = fill(writing, 6)
    folder, (first, second, *_) = writing.folder, writing.folder.segments()
    first.path.unlink()
    first.path.symlink_to(tmp_path / "nowhere")  # its name is there
    with pytest.raises(StageLost, match=f"{first.path} is gone"):
        folder.ranges(folder.first(), ends[-1])
    assert folder.delete_before(Position(1, 10**6, 9)) == 1
    second.path.unlink()
    second.path.mkdir()
    with pytest.raises(StageLost, match=f"{second.path} cannot be read"):
        folder.advance(folder.first(), Position(2, 500, 18), 1)
    second.path.rmdir()
    writing.close()


def test_another_stage_in_its_place_is_noticed(tmp_path: Path) -> None:
    writer(tmp_path / "one").close()
    writer(tmp_path / "two").close()
    one, two = StageFolder(tmp_path / "one"), StageFolder(tmp_path / "two")
    with pytest.raises(StageLost, match=f"is {one.stage}, and the position is of {two.stage}"):
        one.check(one.first(), two.mark(two.first()))
    (tmp_path / "one").rename(tmp_path / "old")
    (tmp_path / "two").rename(tmp_path / "one")
    with pytest.raises(StageLost, match=f"is {two.stage}, and the position is of {one.stage}"):
        one.check(one.first())


def test_files_that_are_not_ours_are_passed_over(tmp_path: Path) -> None:
    writing = writer(tmp_path)
    fill(writing, 1)
    (tmp_path / SEGMENTS / "notes.rec").write_text("")
    (tmp_path / SEGMENTS / f"{segment_name(7, 7)}.txt").write_text("")
    assert [segment.number for segment in writing.folder.segments()] == [1]
    writing.close()


def test_the_head_has_32_bytes() -> None:
    assert len(encode_head(Position(1, 2, 3))) == 32


def test_two_senders(tmp_path: Path) -> None:
    writing = writer(tmp_path)
    for _ in range(2):
        writing.add(ALICE, 1, D2, messages(1, 3))
        writing.add(BOB, 2, D2, messages(1, 3))
        assert writing.sync()
    assert [(who, one.message_id) for who, one in staged(tmp_path)] == [
        (who, number) for who in (ALICE, BOB) for number in (1, 2, 3)
    ]
    (segment,) = writing.folder.segments()
    assert len([*rows_in(str(segment.path), 0, writing.end.pos)]) == 6
    assert (writing.messages, writing.duplicates) == (6, 6)
    writing.close()
