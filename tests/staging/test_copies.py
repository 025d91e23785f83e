"""Stages that are restored from backups, and what readers are told of it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from struct import Struct
from tempfile import TemporaryDirectory
from typing import NamedTuple
from uuid import uuid4
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tolliver.staging import Mark, StageFolder, StageLost, StageWriter
from tolliver.staging._incarnations import INCARNATIONS, KEPT

from tests.staging.stages import ALICE, D2, ids, messages, staged, writer

LOST = "restored from a backup"


class Copy(NamedTuple):
    directory: Path
    contents: list[int]


class Reader:
    """It keeps its place and what stood before it, over everything that happens to the stage."""

    def __init__(self, stage: Stage) -> None:
        self.directory = stage.directory
        folder = StageFolder(self.directory)
        self.at = folder.first()
        self.mark = folder.mark(self.at)
        self.read: list[int | None] = [*stage.contents[: self.at.frames]]

    def go_on(self, rows_at_once: int) -> None:
        """Raises StageLost."""
        folder = StageFolder(self.directory)
        folder.check(self.at, self.mark)
        end = folder.head()
        assert end is not None
        after = folder.advance(self.at, end, rows_at_once)
        if after > self.at:
            self.read += ids(staged(self.directory, self.at, after))
            self.at, self.mark = after, folder.mark(after)

    def delete(self) -> None:
        """Away with all that it has read, unless other messages stand there."""
        folder = StageFolder(self.directory)
        with suppress(StageLost):
            folder.check(self.at, self.mark)
            folder.delete_before(self.at)


class Stage:
    """A stage, the numbers of the messages in it, and copies of it. Every message has another number."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.contents, self.copies = directory / "stage", list[int](), list[Copy]()
        self._last = 100_000  # so all take as many bytes
        self._writer = self._opened()

    def _opened(self) -> StageWriter:
        return writer(self.directory, segment_bytes=600)

    def add(self, sizes: Sequence[int]) -> None:
        for size in sizes:
            first, self._last = self._last + 1, self._last + size
            self._writer.add(ALICE, 1, D2, messages(first, self._last))
            assert self._writer.sync()
            self.contents += range(first, self._last + 1)

    def reopen(self) -> None:
        self._writer.close()
        self._writer = self._opened()

    def copy(self) -> None:
        place = self.directory.with_name(f"copy {len(self.copies)}")
        shutil.copytree(self.directory, place)
        self.copies.append(Copy(place, [*self.contents]))

    def put_back(self, which: int) -> None:
        if not self.copies:
            return
        found = self.copies[which % len(self.copies)]
        self._writer.close()
        shutil.rmtree(self.directory)
        shutil.copytree(found.directory, self.directory)
        self.contents = [*found.contents]
        self._writer = self._opened()

    def close(self) -> None:
        self._writer.close()


STEPS = st.one_of(
    st.tuples(st.just("add"), st.lists(st.integers(1, 4), min_size=1, max_size=4)),
    st.tuples(st.just("read"), st.sampled_from([1, 3, 10**6])),
    st.tuples(st.just("delete")),
    st.tuples(st.just("reopen")),
    st.tuples(st.just("copy")),
    st.tuples(st.just("put_back"), st.integers(0, 9)),
)


@settings(max_examples=25)
@given(st.lists(STEPS, max_size=25))
def test_a_reader_is_told_just_when_what_it_read_is_not_what_stands_there(steps: list[tuple[str, object]]) -> None:
    """And else it goes on where it was, whatever was copied, put back and opened meanwhile."""
    with TemporaryDirectory() as name:
        stage = Stage(Path(name))
        reader = Reader(stage)
        for what, *arguments in [*steps, ("read", 10**6)]:
            if what == "delete":
                reader.delete()
                continue
            if what != "read":
                getattr(stage, what)(*arguments)
                continue
            stands = stage.contents[: len(reader.read)] == reader.read
            try:
                reader.go_on(arguments[0])  # type: ignore[arg-type]
            except StageLost:
                assert not stands
                reader = Reader(stage)
            else:
                assert stands
                assert stage.contents[: len(reader.read)] == reader.read
        while len(reader.read) < len(stage.contents):
            reader.go_on(10**6)
        assert reader.read == stage.contents
        stage.close()


def test_a_copy_of_a_machine_that_goes_on(tmp_path: Path) -> None:
    """Two that run on from one moment have one incarnation: the bytes before the place differ."""
    stage = Stage(tmp_path)
    stage.add([3])
    stage.copy()
    stage.add([3])
    reader = Reader(stage)
    reader.go_on(10**6)
    stage.put_back(0)
    stage.add([3])
    notes = (stage.directory / INCARNATIONS).read_bytes()
    stage.close()
    shutil.copy(stage.copies[0].directory / INCARNATIONS, stage.directory)
    assert (stage.directory / INCARNATIONS).read_bytes() != notes
    with pytest.raises(StageLost, match=LOST):
        reader.go_on(1)
    StageFolder(stage.directory).check(reader.at, Mark(reader.mark.stage))  # a place of which no more is known


def test_messages_that_others_have_deleted(tmp_path: Path) -> None:
    """No bytes stand before the place any more: the opening that wrote them tells."""
    stage = Stage(tmp_path)
    stage.copy()
    stage.add([20])
    reader = Reader(stage)
    reader.go_on(10**6)
    stage.put_back(0)
    stage.add([20])
    other = Reader(stage)
    other.go_on(10**6)
    stage.add([20, 1])
    other.delete()
    assert other.at._replace(segment=0) == reader.at._replace(segment=0)
    assert StageFolder(stage.directory).mark(reader.at).checksum is None
    other.go_on(10**6)
    with pytest.raises(StageLost, match=LOST):
        reader.go_on(1)
    stage.close()


@pytest.mark.parametrize("damage", ["removed", "cut", "flipped", "empty"])
def test_notes_that_are_gone_are_no_reason_to_read_on(tmp_path: Path, damage: str) -> None:
    stage = Stage(tmp_path)
    stage.add([3, 3])
    reader = Reader(stage)
    reader.go_on(10**6)
    stage.close()
    path = stage.directory / INCARNATIONS
    data = path.read_bytes()
    path.unlink()
    if damage != "removed":
        path.write_bytes({"cut": data[:-1], "flipped": bytes([data[0] ^ 1]) + data[1:], "empty": b""}[damage])
    with pytest.raises(StageLost, match=LOST):
        reader.go_on(1)
    stage.reopen()
    reader = Reader(stage)
    stage.add([2])
    reader.go_on(10**6)
    assert reader.read == stage.contents
    stage.close()


def test_the_last_openings_are_kept(tmp_path: Path) -> None:
    """As many as that: a file of notes is bounded, and an older place is told."""
    stage = Stage(tmp_path)
    stage.add([1, KEPT])
    reader = Reader(stage)
    reader.go_on(1)
    path = stage.directory / INCARNATIONS
    notes = path.read_bytes()[:-4] + b"".join(Struct(">Q16s").pack(at, uuid4().bytes) for at in range(1, KEPT))
    path.write_bytes(full := notes + crc32(notes).to_bytes(4, "big"))
    StageFolder(stage.directory).check(reader.at, reader.mark)
    stage.reopen()
    stage.add([1])
    assert len(path.read_bytes()) == len(full)
    with pytest.raises(StageLost, match=f"opened for writing {KEPT} times"):
        reader.go_on(1)
    stage.close()


def test_openings_that_write_nothing_are_not_noted(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.add([1])
    notes = (stage.directory / INCARNATIONS).read_bytes()
    for _ in range(5):
        stage.reopen()
    assert (stage.directory / INCARNATIONS).read_bytes() == notes
    stage.add([1])
    assert len((stage.directory / INCARNATIONS).read_bytes()) == len(notes) + 24
    stage.close()


def move_away(stage: Path) -> None:
    copy = stage.with_name("copy")
    shutil.copytree(stage, copy)
    stage.rename(stage.with_name("away"))
    copy.rename(stage)


def replace_files(stage: Path) -> None:
    for path in [*stage.glob("segments/*.rec")]:
        draft = path.with_name("draft")
        shutil.copy(path, draft)
        draft.rename(path)


@pytest.mark.parametrize("put_back", [move_away, replace_files])
def test_nothing_is_acknowledged_into_a_folder_that_was_moved_away(tmp_path: Path, put_back: object) -> None:
    """A copy that is put back under a receiver at work: what that goes on to write is nowhere for readers."""
    directory = tmp_path / "stage"
    writing = writer(directory)
    writing.add(ALICE, 1, D2, messages(1, 3))
    assert writing.sync()
    put_back(directory)  # type: ignore[operator]
    writing.add(ALICE, 1, D2, messages(4, 6))
    with pytest.raises(StageLost, match="was put in its place while it was received into"):
        writing.sync()
    writing.close()
    writing = writer(directory)
    writing.add(ALICE, 1, D2, messages(4, 6))
    assert writing.sync()
    assert ids(staged(directory)) == [1, 2, 3, 4, 5, 6]
    writing.close()
