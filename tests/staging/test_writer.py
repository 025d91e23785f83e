"""Writer of a stage: acknowledged messages are in it, once.

That holds for whatever is killed, cut, sent again or deleted, and on a full disk.

A model keeps what each sender has not seen acknowledged, and sends it again after a kill, as peers do. A kill leaves a
directory in which the last sync got to any byte; a reader reads and deletes all along.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections import Counter
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tolliver.staging import (
    FolderOptions,
    Position,
    StageFolder,
    StageFull,
    StageLost,
    StageWriter,
)
from tolliver.staging import _writer as module
from tolliver.staging._folder import HEAD, IDS_SUFFIX, MARKER, SEGMENTS
from tolliver.staging._seen import Ids

from tests.staging.disks import small_disk
from tests.staging.stages import ALICE, BOB, D2, JOB, LAST_ID, ids, message, messages, of_layout_1, staged, writer
from tolliver_proto import Message, OwnLimitExceeded, ReservedChannel, StoreError, encode
from tolliver_proto.recording import BlockHeader, Direction, Index, encode_block

SIZES = {"segment_bytes": 600, "max_staged_bytes": 2**20}
Sent = tuple[UUID, Message]


class World:
    """Two senders, a stage in `directory`, and a reader."""

    def __init__(self, root: Path, dedupe: int) -> None:
        self._root = root
        self._numbers = count(1)
        self._options = {**SIZES, "dedupe": dedupe}
        self.directory = root / "0"
        self.writing = writer(self.directory, **self._options)
        self._next = {ALICE: LAST_ID - 3, BOB: LAST_ID - 3}  # ids wrap, and both senders have the same ones
        self._bodies = count()
        self.outbox: list[Sent] = []  # sent, and not acknowledged
        self._added = 0  # of those, how many the writer has since it was opened
        self.acked: list[Sent] = []
        self.at = self.writing.end
        self.read: list[Sent] = []

    def send(self, sender: UUID, number: int, size: int) -> None:
        for _ in range(number):
            body = b"%d" % next(self._bodies) + bytes(size)
            self.outbox.append((sender, message(self._next[sender], body)))
            self._next[sender] = self._next[sender] % LAST_ID + 1
        self._give(self.outbox[self._added :])
        self._added = len(self.outbox)

    def send_again(self, part: float) -> None:
        """Messages that the stage has, or waits for."""
        known = [*self.acked, *self.outbox]
        self._give(known[int(part * len(known)) :][:7])

    def _give(self, sent: list[Sent]) -> None:
        for sender in (ALICE, BOB):
            self.writing.add(sender, 1, D2, [one for who, one in sent if who == sender])

    def sync(self) -> None:
        assert self.writing.sync()
        self.acked += self.outbox
        self.outbox, self._added = [], 0

    def read_on(self, deletes: bool) -> None:
        folder = StageFolder(self.directory)
        folder.check(self.at)
        head = folder.head()
        if head is not None and head > self.at:
            self.read += [(who, one) for who, one in staged(self.directory, self.at, head) if who is not None]
            self.at = head
        if deletes:
            folder.delete_before(self.at)

    def kill(self, part: float, keeps_head: bool) -> None:
        """In the middle of a sync, of which this part has reached the disk; then everything is sent again."""
        self.read_on(False)  # readers may have seen all that is synced
        before = {path.name: path.stat().st_size for path in self._recordings()}
        head = (self.directory / HEAD).read_bytes()
        closed = {path.name for path in self._recordings(IDS_SUFFIX)}
        assert self.writing.sync()
        copy = self._root / str(next(self._numbers))
        shutil.copytree(self.directory, copy)
        self.writing.close()
        shutil.rmtree(self.directory)
        self.directory = copy
        (copy / HEAD).write_bytes(head)
        if not keeps_head:
            (copy / HEAD).unlink()
        grown = {path: path.stat().st_size - before.get(path.name, 0) for path in self._recordings()}
        left, is_cut = round(part * sum(grown.values())), False
        for path, more in grown.items():
            if is_cut or (not left and path.name not in before):  # it was not made yet
                path.unlink()
            elif left < more:
                os.truncate(path, before.get(path.name, 0) + left)
            is_cut = is_cut or left < more
            if is_cut and path.with_suffix(IDS_SUFFIX).name not in closed:
                path.with_suffix(IDS_SUFFIX).unlink(missing_ok=True)
            left -= more
        self.writing = writer(copy, **self._options)
        self._give(self.outbox)
        self._added = len(self.outbox)

    def _recordings(self, suffix: str = ".rec") -> list[Path]:
        return sorted((self.directory / SEGMENTS).glob(f"*{suffix}"))

    def end(self) -> None:
        self.sync()
        self.read_on(True)
        self.writing.close()
        assert Counter(map(repr, self.read)) == Counter(map(repr, self.acked))


STEP = st.one_of(
    st.tuples(st.just("send"), st.sampled_from([ALICE, BOB]), st.integers(1, 6), st.sampled_from([0, 80, 700])),
    st.tuples(st.just("send"), st.sampled_from([ALICE, BOB]), st.integers(1, 6), st.sampled_from([0, 80, 700])),
    st.tuples(st.just("sync")),
    st.tuples(st.just("send_again"), st.floats(0, 1)),
    st.tuples(st.just("kill"), st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0, 1), st.booleans()),
    st.tuples(st.just("read_on"), st.booleans()),
)


SEND = ("send", ALICE, 3, 80)


@settings(max_examples=20)
@example([SEND, ("kill", 1.0, True)])  # all of it is there, and nobody was told
@example([SEND, ("send", BOB, 3, 80), ("kill", 0.9, False), ("send_again", 0.0)])  # a part of it is
@example([SEND, ("sync",), ("send", ALICE, 3, 700), ("read_on", True), ("kill", 0.5, True), ("send_again", 0.0)])
@given(st.lists(STEP, max_size=14))
def test_every_acknowledged_message_is_staged_once(steps: list[tuple[Any, ...]]) -> None:
    with TemporaryDirectory() as name:
        world = World(Path(name), dedupe=1000)
        for what, *how in steps:
            getattr(world, what)(*how)
        world.end()


# Its memory.


def again(writing: StageWriter, directory: Path, **options: Any) -> StageWriter:
    writing.close()
    return writer(directory, **options)


def test_copies_are_known_after_a_restart_and_after_their_segment_was_deleted(tmp_path: Path) -> None:
    writing = writer(tmp_path, **SIZES)
    for first in range(1, 40, 5):
        assert writing.add(ALICE, 1, D2, messages(first, first + 4, bytes(50))) == 5
        assert writing.sync()
    assert writing.folder.delete_before(writing.end) >= 3
    for _ in range(3):
        assert writing.add(ALICE, 2, D2, messages(1, 40, bytes(50))) == 0
        assert writing.add(BOB, 2, D2, messages(40, 41)) == 2
        assert writing.duplicates >= 40
        writing = again(writing, tmp_path, **SIZES)  # without a sync
    assert writing.add(BOB, 2, D2, messages(40, 41)) == 2
    writing.close()
    assert ids(staged(tmp_path))[-1] == 40


def test_ids_wrap(tmp_path: Path) -> None:
    writing = writer(tmp_path, **SIZES)
    numbers = [LAST_ID - 1, LAST_ID, 1, 2]
    for _ in range(2):
        for number in numbers:
            writing.add(ALICE, 1, D2, [message(number)])
        assert writing.sync()
        writing = again(writing, tmp_path, **SIZES)
    assert ids(staged(tmp_path)) == numbers
    writing.close()


def test_a_sender_with_a_new_database(tmp_path: Path) -> None:
    writing = writer(tmp_path)
    assert writing.add(ALICE, 1, D2, messages(1000, 1010)) == 11
    assert writing.add(ALICE, 2, D2, messages(5, 10)) == 6, "lower ids are no copies"
    assert writing.add(ALICE, 3, D2, messages(1005, 1015)) == 5
    assert writing.sync()
    assert ids(staged(tmp_path)) == [*range(1000, 1011), *range(5, 11), *range(1011, 1016)]
    writing.close()


@pytest.mark.parametrize("sender", [ALICE, JOB])
def test_other_messages_under_known_ids_are_staged(tmp_path: Path, sender: UUID) -> None:
    """T-48, T-72a: their sender was put back from a copy, or its batch came again in another shape."""
    writing = writer(tmp_path, **SIZES)
    for life in (b"first", b"second", b"third"):
        assert writing.add(sender, 1, D2, messages(1, 20, life)) == 20
        assert writing.sync()
    assert (writing.ids_reused, writing.last_reused, writing.duplicates) == (40, (sender, 20), 0)
    for _ in range(2):
        writing = again(writing, tmp_path, **SIZES)
        for life in (b"third", b"first", b"second"):
            assert writing.add(sender, 2, D2, messages(1, 20, life)) == 0
    writing.close()
    assert [one.body for _, one in staged(tmp_path)] == [b"first"] * 20 + [b"second"] * 20 + [b"third"] * 20


def test_the_same_id_twice_in_one_run(tmp_path: Path) -> None:
    writing = writer(tmp_path)
    assert writing.add(ALICE, 1, D2, [message(number) for number in (7, 8, 7, 9, 8, 3, None, None)]) == 6
    assert writing.sync()
    assert ids(staged(tmp_path)) == [7, 8, 9, 3, None, None]
    writing.close()


def test_no_more_is_remembered_than_was_asked_for(tmp_path: Path) -> None:
    writing = writer(tmp_path, **SIZES, dedupe=10)
    for first in range(1, 101, 5):
        writing.add(ALICE, 1, D2, messages(first, first + 4, bytes(50)))
        assert writing.sync()
    writing.folder.delete_before(writing.end)
    writing.add(ALICE, 1, D2, messages(101, 111, bytes(50)))  # another segment, and what is old goes
    assert writing.sync()
    names = [path.name for path in (tmp_path / SEGMENTS).glob("*.ids")]
    assert 2 <= len(names) <= 5, names
    assert writing.add(ALICE, 2, D2, messages(102, 111, bytes(50))) == 0
    assert writing.add(ALICE, 2, D2, messages(1, 1)) == 1
    writing.close()


def test_many_messages_make_blocks_of_a_good_size(tmp_path: Path) -> None:
    writing = writer(tmp_path)
    writing.add(ALICE, 1, D2, messages(1, 2500))
    writing.add(ALICE, 1, D2, messages(2501, 2510))
    writing.add(ALICE, 1, D2, messages(2511, 2513, bytes(2**20)))
    assert writing.sync()
    at, frames = writing.folder.first(), []
    while at < writing.end:
        after = writing.folder.advance(at, writing.end, 1)
        frames.append(after.frames - at.frames)
        at = after
    assert frames == [1024, 1024, 462, 1, 1, 1]
    writing.close()


# Writes that fail.


def test_what_is_no_message_changes_nothing(tmp_path: Path) -> None:
    writing = writer(tmp_path)
    with pytest.raises(ReservedChannel):
        writing.add(ALICE, 1, D2, [message(1), Message("tolliver", "", b"", 2)])
    assert writing.add(ALICE, 1, D2, messages(1, 2)) == 2
    writing.close()


def test_a_message_that_no_reader_would_take_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LENGTH", 1000)  # a quarter of a GB takes its time
    writing = writer(tmp_path)
    with pytest.raises(OwnLimitExceeded):
        writing.add(ALICE, 1, D2, [message(1), message(2, bytes(1000))])
    assert writing.add(ALICE, 1, D2, messages(1, 2)) == 2
    writing.close()


def test_a_stage_at_its_bound_has_no_room_until_readers_delete(tmp_path: Path) -> None:
    times = count(0, 1)
    options = FolderOptions(directory=tmp_path, max_staged_bytes=4000, segment_bytes=1000)
    writing = StageWriter(options, lambda: float(next(times)))
    first = 1
    while writing.has_room():
        writing.add(ALICE, 1, D2, messages(first, first + 4, bytes(50)))
        assert writing.sync()
        first += 5
    assert 4000 <= writing.staged_bytes < 5000
    assert not writing.has_room()
    assert writing.folder.delete_before(writing.end)
    assert writing.has_room()
    assert writing.staged_bytes < 2000
    writing.close()


def test_room_is_not_looked_for_all_the_time(tmp_path: Path) -> None:
    now = 0.0
    writing = StageWriter(FolderOptions(directory=tmp_path, max_staged_bytes=200, segment_bytes=100), lambda: now)
    writing.add(ALICE, 1, D2, [message(1, bytes(500))])  # alone it is more than all that may be staged
    assert writing.sync()
    assert not writing.has_room()
    writing.folder.delete_before(writing.end)
    assert not writing.has_room()
    now = 0.2
    assert writing.has_room()
    writing.close()


def test_a_full_disk_is_waited_for(tmp_path: Path) -> None:
    now = 0.0
    with small_disk(tmp_path / "disk", or_limit=True) as enlarge:
        options = FolderOptions(directory=tmp_path / "disk" / "stage", full_timeout=60.0)
        writing = StageWriter(options, lambda: now)
        first = 1
        writing.add(ALICE, 1, D2, messages(first, first + 9, bytes(5000)))
        while writing.sync():
            assert first < 100
            end, first = writing.end, first + 10
            writing.add(ALICE, 1, D2, messages(first, first + 9, bytes(5000)))
        why = writing.failing
        assert why in (os.strerror(errno.ENOSPC), os.strerror(errno.EFBIG))
        assert writing.end == writing.folder.head() == end
        assert end.pos == writing.folder.segments()[0].path.stat().st_size, "cut back to whole blocks"
        assert ids(staged(options.directory)) == [*range(1, first)]
        now = 59.0
        assert not writing.sync()
        assert writing.add(ALICE, 2, D2, messages(first, first + 9, bytes(5000))) == 0, "it waits: a copy is a copy"
        now = 60.0
        with pytest.raises(StageFull, match=r"60 s: .* the peers keep"):
            writing.sync()
        enlarge()
        assert writing.sync()
        assert writing.failing is None
        assert ids(staged(options.directory)) == [*range(1, first + 10)]
        writing.close()


def test_what_a_sync_that_failed_may_have_lost_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system forgets what it could not write, and the next sync does well (the fsync of a failed disk)."""
    writing = writer(tmp_path)
    (segment,) = writing.folder.segments()
    failed: list[int] = []

    def fail_once(fd: int) -> None:
        if not failed:
            failed.append(os.fstat(fd).st_size)
            os.pwrite(fd, bytes(failed[0]), 0)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(module, "sync_file", fail_once)
    writing.add(ALICE, 1, D2, messages(1, 5))
    assert not writing.sync()
    assert writing.failing == os.strerror(errno.EIO)
    assert segment.path.stat().st_size == writing.end.pos == 0 < failed[0]
    assert writing.sync()
    assert ids(staged(tmp_path)) == [1, 2, 3, 4, 5]
    writing.close()


def test_a_segment_that_cannot_be_closed_for_want_of_space_is_closed_later(tmp_path: Path) -> None:
    """Its ids need space too, and until they are on the disk no reader may delete it."""
    writing = writer(tmp_path, **SIZES)
    (segment,) = writing.folder.segments()
    hindrance = segment.path.with_name(segment.path.stem + ".ids.new")
    hindrance.mkdir()
    writing.add(ALICE, 1, D2, messages(1, 5, bytes(100)))
    assert writing.sync(), "what is staged is staged"
    writing.add(ALICE, 1, D2, messages(6, 10, bytes(100)))
    assert not writing.sync()
    assert writing.failing == f"{hindrance} is a directory, and no regular file"
    assert writing.folder.segments() == [segment]
    hindrance.rmdir()
    assert writing.sync()
    assert ids(staged(tmp_path)) == [*range(1, 11)]
    assert segment.path.with_suffix(".ids").exists()
    writing.close()


def test_a_segment_whose_name_may_not_last_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_path: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    writing = writer(tmp_path, **SIZES)
    writing.add(ALICE, 1, D2, messages(1, 3, bytes(300)))
    with monkeypatch.context() as broken:
        broken.setattr(module, "sync_directory", fail)
        assert writing.sync()
        writing.add(ALICE, 1, D2, messages(4, 6))
        assert not writing.sync()
    assert writing.sync()
    assert ids(staged(tmp_path)) == [*range(1, 7)]
    writing.close()


# Findings at an opening.


def filled(directory: Path) -> Position:
    """Three segments, of which two are closed."""
    writing = writer(directory, **SIZES)
    for first in range(1, 15, 5):
        writing.add(ALICE, 1, D2, messages(first, first + 4, bytes(100)))
        assert writing.sync()
    writing.add(ALICE, 1, D2, messages(16, 16, bytes(100)))
    assert writing.sync()
    writing.close()
    return writing.end


def test_closed_segments_have_an_index_and_their_ids(tmp_path: Path) -> None:
    end = filled(tmp_path)
    *closed, last = StageFolder(tmp_path).segments()
    assert len(closed) >= 2
    for segment in closed:
        data = segment.path.read_bytes()
        index = Index.decode(segment.path.with_name(segment.path.name + ".idx").read_bytes())
        assert index is not None
        assert index.fits(len(data), data)
        assert segment.path.with_suffix(".ids").exists()
    assert not last.path.with_suffix(".ids").exists()
    assert (last.number, last.path.stat().st_size) == end[:2]


def test_damaged_ids_are_made_anew_where_the_segment_is_there(tmp_path: Path) -> None:
    end = filled(tmp_path)
    (first, *_, last) = StageFolder(tmp_path).segments()
    path = first.path.with_suffix(".ids")
    good = path.read_bytes()
    forgotten = Ids.decode(good)
    assert forgotten is not None
    path.write_bytes(good[:-1])
    writing = writer(tmp_path, **SIZES)
    assert path.read_bytes() == good
    assert writing.end == end
    assert writing.add(ALICE, 1, D2, messages(1, 16, bytes(100))) == 0
    writing.close()
    writing.folder.delete_before(last.start)
    path.write_bytes(good[:-1])
    with pytest.raises(StoreError, match="is damaged: it says which"):
        writer(tmp_path, **SIZES)
    path.unlink()
    writing = writer(tmp_path, **SIZES)
    assert writing.add(ALICE, 1, D2, messages(1, 16, bytes(100))) == forgotten.count
    writing.close()


def test_a_stage_of_the_first_layout_goes_on(tmp_path: Path) -> None:
    """Its messages are known by id alone, and older versions leave it alone from now on."""
    end = filled(tmp_path)
    (first, second, *_) = StageFolder(tmp_path).segments()
    for segment, span in ((first, (1, 5)), (second, (6, 10))):
        segment.path.with_suffix(".ids").write_bytes(of_layout_1((ALICE, [span])))
    marker = tmp_path / MARKER
    old = marker.read_bytes().replace(b'"layout": 2', b'"layout": 1')
    marker.write_bytes(old)
    stage = StageFolder(tmp_path).stage
    assert marker.read_bytes() == old, "a reader changes nothing"
    writing = writer(tmp_path, **SIZES)
    assert (writing.folder.stage, writing.end) == (stage, end)
    assert b'"layout": 2' in marker.read_bytes()
    assert writing.add(ALICE, 1, D2, messages(1, 10, b"other")) == 0, "by id alone"
    assert writing.add(ALICE, 1, D2, messages(11, 16, bytes(100))) == 0
    assert writing.add(ALICE, 1, D2, messages(11, 16, b"other")) == 6
    assert writing.sync()
    writing.close()
    assert len(staged(tmp_path)) == 22


def test_what_was_acknowledged_and_is_damaged_is_not_cut_away(tmp_path: Path) -> None:
    end = filled(tmp_path)
    (first, *_, last) = StageFolder(tmp_path).segments()
    data = last.path.read_bytes()
    for damaged in (data[:-1], b"X" + data[1:], data[:-1] + bytes([data[-1] ^ 1])):
        last.path.write_bytes(damaged)
        with pytest.raises(StageLost, match=f"{last.path}: byte 0: .*was acknowledged"):
            writer(tmp_path, **SIZES)
        assert last.path.read_bytes() == damaged
    last.path.write_bytes(data)
    first.path.with_suffix(".ids").unlink()
    os.truncate(first.path, first.path.stat().st_size - 1)
    with pytest.raises(StageLost, match=f"{first.path}: byte"):
        writer(tmp_path, **SIZES)
    last.path.unlink()
    with pytest.raises(StageLost, match=f"segment {end.segment} .* is gone"):
        writer(tmp_path, **SIZES)


def test_blocks_that_no_stage_wrote_are_not_taken(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / HEAD).unlink()
    last = StageFolder(tmp_path).segments()[-1]
    whole = last.path.read_bytes()
    for payload in (b"garbage", encode(Message("c", "k", b"", 1)) * 2):
        header = BlockHeader(1, ALICE, ALICE, 1, Direction.IN, D2, 1)
        last.path.write_bytes(whole + encode_block(header, payload))
        writer(tmp_path, **SIZES).close()
        assert last.path.read_bytes() == whole


def test_drafts_that_a_kill_left_are_removed(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / SEGMENTS / "x.ids.new").write_text("")
    (tmp_path / SEGMENTS / "00000000-000000000000000.rec.idx").write_text("")
    writer(tmp_path, **SIZES).close()
    assert not [*(tmp_path / SEGMENTS).glob("*.new")]
    assert not [*(tmp_path / SEGMENTS).glob("00000000-*")]


def test_a_stage_that_cannot_be_read_lets_go_of_its_lock(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / SEGMENTS / "x.new").mkdir()
    with pytest.raises(StoreError, match="cannot be opened"):
        writer(tmp_path, **SIZES)
    (tmp_path / SEGMENTS / "x.new").rmdir()
    writer(tmp_path, **SIZES).close()


# Options.


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"directory": ""}, "give its path"),
        ({"sync_bytes": 0}, "sync_bytes is 0: give a whole number, 1 or more"),
        ({"max_staged_bytes": True}, "max_staged_bytes is True"),
        ({"max_staged_bytes": "x"}, "max_staged_bytes is 'x'"),
        ({"sync_interval": -1}, "sync_interval is -1: give seconds"),
        ({"full_timeout": float("nan")}, "give seconds"),
        ({"max_staged_bytes": 100, "segment_bytes": 51}, "at most half of it"),
        ({"keep_for": 0}, "keep_for is 0: give seconds, more than 0"),
        ({"keep_for": -1}, "keep_for is -1: give seconds"),
        ({"keep_for": "1h"}, "keep_for is '1h': give seconds"),
        ({"keep_bytes": 1}, "keep_bytes is 1: give a whole number, 2 or more"),
        ({"keep_bytes": "1"}, "keep_bytes is '1': give a whole number"),
        ({"keep_bytes": 100, "segment_bytes": 51}, "keep_bytes 100: only whole segments are deleted"),
        ({"keep_bytes": 100, "max_staged_bytes": 100}, "no more is taken at max_staged_bytes, 100: give less"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        FolderOptions(**{"directory": "x", **options})


def test_what_is_old_goes_read_or_not(tmp_path: Path) -> None:
    writing = writer(tmp_path, segment_bytes=900, keep_for=60.0)
    for first in range(1, 28, 3):
        writing.add(ALICE, 1, D2, messages(first, first + 2, bytes(50)))
        assert writing.sync()
    segments = writing.folder.segments()
    writing.folder.keep_place("slow", writing.folder.first())
    assert writing.folder.delete_before(writing.end) == 0, "a consumer has not read it"
    for segment in segments:
        os.utime(segment.path, (0, 0))
    writing.retain()
    assert writing.folder.segments() == segments[-1:]
    assert writing.staged_bytes == writing.folder.used_bytes()
    with pytest.raises(StageLost, match=rf"segment 1 .* is gone, and so are {segments[-1].frames} messages behind"):
        writing.folder.check(writing.folder.consumers()["slow"])
    writing.close()


def test_the_last_segment_ends_when_it_is_old(tmp_path: Path) -> None:
    now = count(step=1.0)
    writing = StageWriter(FolderOptions(directory=tmp_path, keep_for=0.001, lock_timeout=0.0), lambda: next(now))
    writing.add(ALICE, 1, D2, messages(1, 3))
    assert writing.sync()
    time.sleep(0.01)
    writing.retain()
    time.sleep(0.01)
    writing.retain()
    assert [segment.start for segment in writing.folder.segments()] == [Position(2, 0, 3)]
    writing.add(ALICE, 1, D2, messages(1, 4))
    assert (writing.sync(), writing.duplicates, writing.messages) == (True, 3, 4), "copies are still known"
    writing.close()


def test_no_more_than_so_many_bytes_are_kept(tmp_path: Path) -> None:
    now = count(step=1.0)
    options = FolderOptions(directory=tmp_path, keep_bytes=4_000, lock_timeout=0.0)
    assert options.segment_bytes == 1_000
    writing = StageWriter(options, lambda: next(now))
    for number in range(1, 200):
        writing.add(ALICE, 1, D2, messages(number, number, bytes(100)))
        assert writing.sync()
        writing.retain()
        assert writing.folder.used_bytes() <= 4_000
    assert writing.folder.used_bytes() > 2_000
    writing.close()


@pytest.mark.parametrize("name", ["", "a/b", "..", "a.new", "\u00fc", 101 * "a", "a\n"])
def test_a_consumer_has_the_name_of_a_file(tmp_path: Path, name: str) -> None:
    writing = writer(tmp_path)
    with pytest.raises(ValueError, match="give a name of at most 100 of the letters"):
        writing.folder.keep_place(name, writing.end)
    assert writing.folder.consumers() == {}
    writing.close()
