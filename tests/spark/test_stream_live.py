"""Live stream over a stage that is filled here, without Spark."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'tolliver-proto[spark]'")

from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import StructType
from tolliver.spark import DamagedRecording
from tolliver.spark.read._options import nanoseconds
from tolliver.spark.source import TolliverSource
from tolliver.spark.stream._offsets import read_place
from tolliver.staging import FolderOptions, StageFolder, StageInUse, StageLost, StageWriter, UnknownStage

from tests.staging.disks import small_disk
from tolliver_proto import Message, Revision, StoreError

from .queries import EVERYTHING, Query, reader_of

ALICE, BOB = UUID(int=0xA11CE), UUID(int=0xB0B)


class Filled:
    """A stage, and what was put into it. A segment has some ten blocks."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.directory = directory
        made = FolderOptions(directory=directory, segment_bytes=2_000, lock_timeout=0.0, **options)
        self.writer = StageWriter(made, count().__next__)  # it looks each time
        self.count = 0

    def add(self, *sizes: int) -> None:
        """A block of so many messages for each."""
        for size in sizes:
            ids = range(self.count + 1, self.count + size + 1)
            made = [Message("c" if at % 2 else "d", f"k{at}", b"%d" % at, at) for at in ids]
            self.writer.add(BOB if at_odd(self.count) else ALICE, 1, Revision.DRAFT_2, made)
            self.count += size
            assert self.writer.sync()

    @property
    def segments(self) -> list[str]:
        return sorted(path.name for path in self.directory.glob("segments/*.rec"))

    def query(self, **options: Any) -> Query:
        return Query(None, **{"staging": "external", "stagingDir": self.directory, **options})


def at_odd(number: int) -> bool:
    return bool(number % 2)


def numbers(first: int, count: int) -> list[bytes]:
    return [b"%d" % at for at in range(first, first + count)]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Filled]:
    filled = Filled(tmp_path / "stage")
    yield filled
    filled.writer.close()


def test_everything_once_in_order_and_where_it_began(stage: Filled) -> None:
    stage.add(3, 4)
    query, late = stage.query(), stage.query(startingOffsets="latest", deleteConsumed=False)
    assert not late.step()
    assert query.step()
    assert not query.step()
    stage.add(*20 * [10])
    query.start()
    late.drain()
    query.drain()
    assert query.bodies == numbers(1, 207)
    assert late.bodies == numbers(8, 200)
    assert read_place(json.loads(query.checkpoint or "")).frames == 207
    assert query.reader.reportLatestOffset() == json.loads(query.checkpoint or "")


def test_where_a_query_begins(stage: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    noon = nanoseconds(datetime(2026, 11, 21, 12))
    for minute in range(30):
        monkeypatch.setattr(time, "time_ns", lambda now=noon + minute * 60 * 10**9: now)
        stage.add(10)
    assert len(stage.segments) > 2

    def read(start: str) -> list[bytes]:
        query = stage.query(startingOffsets=start, deleteConsumed=False)
        query.drain()
        return query.bodies

    for minute in range(0, 31, 3):
        assert read(f"2026-11-21T12:{minute:02}:00") == numbers(minute * 10 + 1, 300 - minute * 10)
    assert read("2026-11-21T12:07:30") == numbers(81, 220)
    half = stage.query(maxRowsPerTrigger=50, deleteConsumed=False)
    half.step()
    assert read(half.checkpoint or "") == numbers(51, 250)
    with pytest.raises(StageLost, match="failOnDataLoss"):
        read(json.dumps(json.loads(half.checkpoint or "") | {"frames": 51, "pos": 1}))


def test_a_stage_at_rest_is_a_directory_of_recordings(stage: Filled) -> None:
    stage.add(*30 * [10])
    source = TolliverSource(CaseInsensitiveDict({"path": str(stage.directory / "segments")}))
    reader: Any = source.reader(StructType().add("body", "binary"))
    rows = [row["body"] for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert rows == numbers(1, 300)


def test_a_batch_of_so_many_rows_or_after_a_delay(stage: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    query = stage.query(minRowsPerTrigger=25, maxTriggerDelay=60)
    assert not query.step()
    stage.add(10)
    assert not query.step()
    now += 59
    assert not query.step()
    stage.add(14)
    assert not query.step()
    stage.add(1)
    assert query.step()
    stage.add(10)
    assert not query.step()  # it waits anew
    now += 59
    assert not query.step()
    now += 1
    assert query.step()
    stage.add(10)
    assert not query.step()
    assert query.step(EVERYTHING)
    stage.add(10)
    query.reader.prepareForTriggerAvailableNow()
    assert query.step()
    assert query.batches == [25, 10, 10, 10]


def test_channels_by_a_pattern(stage: Filled) -> None:
    stage.writer.add(
        ALICE, 1, Revision.DRAFT_2, [Message(name, "", name.encode(), at) for at, name in enumerate(NAMES)]
    )
    assert stage.writer.sync()

    def read(**options: str) -> list[str]:
        return [body.decode() for (body,) in stage.query(deleteConsumed=False, **options).drain()]

    for pattern in ("sensors[.].*", "sensors", "s|e", "ü", ".", "(?i)SENSORS", "nothing"):
        assert read(channelPattern=pattern) == [name for name in NAMES if re.fullmatch(pattern, name)]
    assert read(channelPattern="sensors.*", channels="sensors,e") == ["sensors"]


NAMES = ("sensors", "sensors.a", "sensors.b", "xsensors.c", "s", "e", "ü", "sensors\n")
STEPS = st.one_of(
    st.tuples(st.just("add"), st.lists(st.integers(1, 30), min_size=1, max_size=5)),
    st.tuples(st.just("batch"), st.sampled_from([None, ReadMaxRows(1), ReadMaxRows(40), EVERYTHING])),
    st.tuples(st.just("commit")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("reopen")),
)


@settings(max_examples=40)
@given(steps=st.lists(STEPS, max_size=30), inline=st.booleans(), most=st.integers(1, 3_000))
def test_every_message_once_whatever_happens_between(
    steps: list[Any], inline: bool, most: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    stage = Filled(tmp_path_factory.mktemp("stages") / "stage")
    query = stage.query(maxBytesPerTrigger=most)
    for what, *arguments in steps:
        if what == "add":
            stage.add(*arguments[0])
        elif what == "batch":
            query.step(*arguments)
        elif what == "commit":
            query.reader.commit(json.loads(query.checkpoint or ""))
        elif what == "restart":
            query.start()
        else:
            stage.writer.close()
            added = stage.count
            stage = Filled(stage.directory)
            stage.count = added
    query.drain()
    assert query.bodies == numbers(1, stage.count)
    assert len(stage.segments) <= 2  # segments that were read are deleted
    stage.writer.close()


def test_limits_are_of_whole_blocks(stage: Filled) -> None:
    stage.add(*12 * [10])
    by_rows = stage.query(maxRowsPerTrigger=25, deleteConsumed=False)
    by_rows.drain()
    assert by_rows.batches == 6 * [20]
    one = stage.query(maxRowsPerTrigger=1, deleteConsumed=False)
    one.drain()
    assert one.batches == 12 * [10]
    both = stage.query(maxRowsPerTrigger=1000, maxBytesPerTrigger=1, deleteConsumed=False)
    both.drain()
    assert both.batches == 12 * [10]
    both = stage.query(maxRowsPerTrigger=1, deleteConsumed=False)
    both.drain(EVERYTHING)
    assert both.batches == [120]


def test_available_now_ends_where_the_stage_ended(stage: Filled) -> None:
    stage.add(5, 5)
    query = stage.query(maxRowsPerTrigger=5)
    query.reader.prepareForTriggerAvailableNow()
    stage.add(5)
    query.drain()
    assert query.bodies == numbers(1, 10)
    query.start()
    query.reader.prepareForTriggerAvailableNow()
    query.drain()
    assert query.bodies == numbers(1, 15)


def test_what_is_read_is_deleted_by_one_query(stage: Filled) -> None:
    stage.add(*60 * [10])
    before = stage.segments
    other = stage.query(deleteConsumed=False)
    other.drain()
    assert stage.segments == before
    query = stage.query(maxRowsPerTrigger=300)
    query.step()
    assert stage.segments == before  # nobody has said yet that the batch is done
    query.reader.commit(json.loads(query.checkpoint or ""))
    assert 2 < len(stage.segments) < len(before)
    query.drain()
    assert len(stage.segments) <= 2
    assert query.bodies == numbers(1, 600)


def test_the_same_batch_again(stage: Filled) -> None:
    """A query that died is asked for its last batch once more, whatever came meanwhile."""
    stage.add(*20 * [10])
    query = stage.query(maxRowsPerTrigger=50, includeMetadata=True, columns="body sender file channel key")
    query.step()
    start = json.loads(query.checkpoint or "")
    end = query.reader.latestOffset(start, ReadMaxRows(50))
    query.reader.commit(start)

    def rows(reader: Any) -> list[Any]:
        parts = reader.partitions(start, end)
        return [row for part in parts for batch in query.worker.read(part) for row in batch.to_pylist()]

    first = rows(query.reader)
    stage.add(*20 * [10])
    query.start()
    assert rows(query.reader) == first
    assert [row["body"] for row in first] == numbers(51, 50)
    assert {row["sender"] for row in first} <= {str(ALICE), str(BOB)}
    assert query.reader.partitions(end, end) == []


def test_filters_and_columns(stage: Filled) -> None:
    stage.add(100)
    assert stage.query(channels="d", keys="k1*", columns="key").drain() == [
        (f"k{at}",) for at in range(2, 101, 2) if str(at).startswith("1")
    ]


def test_tasks(tmp_path: Path) -> None:
    writer = StageWriter(FolderOptions(directory=tmp_path / "stage", lock_timeout=0.0))
    writer.add(ALICE, 1, Revision.DRAFT_2, [Message("c", "", bytes(2**18), at) for at in range(1, 33)])
    writer.sync()
    for least in (1, 4):
        given = {"staging": "external", "stagingDir": tmp_path / "stage", "minPartitions": least}
        reader = reader_of(None, "message_id", **given)
        parts = reader.partitions(reader.initialOffset(), reader.reportLatestOffset())
        assert least <= len(parts) <= 2 * least
        found = [row["message_id"] for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
        assert found == [*range(1, 33)]
    writer.close()


# Readers with places of their own.

WHO = st.sampled_from(["a", "b", "c"])
SHARED = st.one_of(
    st.tuples(st.just("add"), st.lists(st.integers(1, 30), min_size=1, max_size=5)),
    st.tuples(st.just("batch"), WHO),
    st.tuples(st.just("commit"), WHO),
    st.tuples(st.just("restart"), WHO),
)


@settings(max_examples=40)
@given(steps=st.lists(SHARED, max_size=40))
def test_several_consumers_each_read_all_of_it(steps: list[Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    """A batch that is not committed is a crash in between, if the query restarts behind it."""
    stage = Filled(tmp_path_factory.mktemp("stages") / "stage")
    queries: dict[str, Query] = {}

    def query(who: str) -> Query:
        if who not in queries:
            queries[who] = stage.query(consumer=who, maxRowsPerTrigger=50)
            queries[who].first = read_place(json.loads(queries[who].checkpoint or "")).frames  # type: ignore[attr-defined]
        return queries[who]

    for what, argument in steps:
        if what == "add":
            stage.add(*argument)
            continue
        one = query(argument)
        if what == "batch":
            one.step()
        elif what == "commit":
            one.reader.commit(json.loads(one.checkpoint or ""))
        else:
            one.start()
        places = StageFolder(stage.directory).consumers()
        assert places.keys() == queries.keys()
        assert StageFolder(stage.directory).first() <= min(places.values())
    for one in queries.values():
        one.drain()
        assert one.bodies == numbers(one.first + 1, stage.count - one.first)  # type: ignore[attr-defined]
    if queries:
        assert len(stage.segments) <= 2, "what all have read is deleted"
    stage.writer.close()


def test_a_consumer_has_a_place_without_a_checkpoint(stage: Filled) -> None:
    stage.add(*30 * [10])
    query = stage.query(consumer="job", maxRowsPerTrigger=100)
    query.step()
    query.step()
    again = stage.query(consumer="job", startingOffsets="latest")
    assert again.drain()[0] == (b"101",), "the second batch was not said to be done"
    other = stage.query(consumer="other", startingOffsets="latest")
    assert not other.step()
    (stage.directory / "consumers" / "job").unlink()
    stage.add(10)
    assert other.drain() == [(body,) for body in numbers(301, 10)]
    assert len(stage.segments) <= 2
    path = stage.directory / "consumers" / "other"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(StoreError, match=r"consumers/other is damaged: remove it"):
        stage.query(consumer="job")


def test_a_reader_that_does_not_delete_holds_up_others(stage: Filled) -> None:
    stage.add(*30 * [10])
    before = stage.segments
    lazy, other = stage.query(consumer="lazy", deleteConsumed=False), stage.query()
    other.drain()
    assert stage.segments == before
    lazy.drain()
    assert stage.segments == before
    other.reader.commit(json.loads(other.checkpoint or ""))
    stage.add(1)
    other.drain()
    assert len(stage.segments) <= 2


def test_two_queries_under_one_consumer_name(stage: Filled) -> None:
    """One of them would delete what the other has not read: the one that comes second is told."""
    stage.add(*30 * [10])
    one, two = (stage.query(consumer="job", maxRowsPerTrigger=100) for _ in range(2))
    one.step()
    two.step()
    one.step()  # and so the first batch is done
    for _ in range(2):
        with pytest.raises(StageInUse, match=r"another query.*the consumer 'job'.*a name of its own"):
            two.step()
    assert one.drain() == [(body,) for body in numbers(1, 300)]
    one.start()
    stage.add(10)
    assert one.drain()[300:] == [(body,) for body in numbers(301, 10)]
    (stage.directory / "consumers" / "job").unlink()
    stage.add(10)
    one.drain()
    one.reader.commit(json.loads(one.checkpoint or ""))
    assert one.bodies == numbers(1, 320), "a name that is forgotten is known again"
    assert StageFolder(stage.directory).consumers()["job"].frames == 320


def test_consumers_make_room_on_a_full_disk(tmp_path: Path) -> None:
    """The one that is killed has read a batch whose place it could not keep yet."""
    with small_disk(tmp_path / "disk"):
        stage = Filled(tmp_path / "disk" / "stage")
        one, two = (stage.query(consumer=name, maxRowsPerTrigger=200) for name in ("one", "two"))
        while stage.writer.failing is None:
            stage.count += 100
            made = [Message("c", "", b"%d" % at, at) for at in range(stage.count - 99, stage.count + 1)]
            stage.writer.add(ALICE, 1, Revision.DRAFT_2, made)
            stage.writer.sync()
            assert stage.count < 100_000, "the disk is never full"
        staged = stage.writer.end.frames
        assert staged >= 1_000
        one.drain()
        two.step()
        two.step()
        two.start()
        two.drain()
        assert stage.writer.sync(), "what both have read is deleted"
        for query in (one, two):
            query.drain()
            assert query.bodies == numbers(1, stage.count)
        again = stage.query(consumer="one")
        assert not again.step()
        stage.writer.close()


RETAINED = st.one_of(
    st.tuples(st.just("add"), st.lists(st.integers(1, 30), min_size=1, max_size=5)),
    st.tuples(st.just("strict")),
    st.tuples(st.just("easy")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("old"), st.integers(1, 4)),
)


@settings(max_examples=60)
@given(steps=st.lists(RETAINED, max_size=40), keep_bytes=st.none() | st.integers(4_000, 9_000))
def test_a_reader_that_is_overtaken_is_told(
    steps: list[Any], keep_bytes: int | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    stage = Filled(tmp_path_factory.mktemp("stages") / "stage", keep_for=3600.0, keep_bytes=keep_bytes)
    strict = stage.query(consumer="strict", maxRowsPerTrigger=40)
    easy = stage.query(consumer="easy", maxRowsPerTrigger=40, failOnDataLoss=False)
    told = False

    def read(drained: bool = False) -> bool:
        overtaken = StageFolder(stage.directory).first().frames > len(strict.rows)
        try:
            strict.drain() if drained else strict.step()
        except StageLost as lost:
            said = str(lost)
        else:
            said = ""
        assert overtaken == ("is gone, and so are" in said) == ("failOnDataLoss=false" in said)
        return overtaken

    for what, *arguments in steps:
        if what == "add":
            stage.add(*arguments[0])
        elif what == "strict":
            told = read() or told
        elif what == "easy":
            easy.step()
        elif what == "restart":
            strict.start()
            easy.start()
        else:
            for name in stage.segments[: arguments[0]]:
                os.utime(stage.directory / "segments" / name, (0, 0))
        stage.writer.retain()
        if keep_bytes is not None:
            assert StageFolder(stage.directory).used_bytes() <= keep_bytes
    there = StageFolder(stage.directory).first().frames
    assert read(drained=True) or strict.bodies == numbers(1, stage.count)
    assert strict.bodies == numbers(1, len(strict.rows)), "without a gap up to where it was told"
    assert not told or len(strict.rows) < there
    easy.drain()
    found = [int(body) for body in easy.bodies]
    assert found == sorted({*found})
    assert {*range(there + 1, stage.count + 1)} <= {*found}
    stage.writer.close()


@pytest.mark.parametrize("when", ["planned", "at work"])
def test_what_is_deleted_while_it_is_read(tmp_path: Path, when: str, caplog: pytest.LogCaptureFixture) -> None:
    """Retention looks at no reader. Spark plans a batch, and tasks open its files later, and one after the other."""
    stage = Filled(tmp_path / "stage", keep_for=3600.0)
    stage.add(*40 * [10])
    strict, easy = (stage.query(failOnDataLoss=strictly, rowsPerBatch=10) for strictly in (True, False))
    end = strict.reader.reportLatestOffset()
    start = json.loads(strict.checkpoint or "")
    plans = [(one, one.reader.partitions(start, end)) for one in (strict, easy)]
    tasks = [(one, one.worker.read(part)) for one, (part,) in plans]
    first = [next(task).to_pylist() for _, task in tasks] if when == "at work" else [[], []]
    for name in stage.segments[:3]:
        os.utime(stage.directory / "segments" / name, (0, 0))
    stage.writer.retain()
    there = StageFolder(stage.directory).first().frames
    assert there > 0
    with pytest.raises(StoreError, match=r"cannot be read: No such file"):
        [*tasks[0][1]]
    found = first[1] + [row for batch in tasks[1][1] for row in batch.to_pylist()]
    bodies = [int(row["body"]) for row in found]
    assert bodies == sorted({*bodies})
    assert bodies[-(400 - there) :] == [*range(there + 1, 401)]
    assert "failOnDataLoss=false: the query goes on with what is there" in caplog.text
    with pytest.raises(StageLost, match=rf"and so are {there} messages"):
        strict.reader.partitions(start, end)
    stage.writer.close()


# When it is lost.


def lose_a_segment(stage: Filled) -> None:
    os.unlink(stage.directory / "segments" / stage.segments[0])


def lose_the_stage(stage: Filled) -> None:
    stage.writer.close()
    shutil.rmtree(stage.directory)
    stage.writer = StageWriter(FolderOptions(directory=stage.directory, segment_bytes=2_000, lock_timeout=0.0))


@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize("lose", [lose_a_segment, lose_the_stage])
def test_a_stage_that_is_lost(stage: Filled, lose: Any, restart: bool, caplog: pytest.LogCaptureFixture) -> None:
    stage.add(*40 * [10])
    strict = stage.query(maxRowsPerTrigger=20)
    easy = stage.query(maxRowsPerTrigger=20, failOnDataLoss=False)
    strict.step()
    easy.step()
    lose(stage)
    stage.add(10)
    planned = json.loads(easy.checkpoint or "") | {"frames": 40, "pos": 10**6}
    if restart:
        strict.start()
        easy.start()
    with pytest.raises(StageLost, match=r"To go on with what is there: failOnDataLoss=false"):
        strict.step()
    with pytest.raises(StageLost, match=r"failOnDataLoss=false"):
        strict.reader.partitions(json.loads(strict.checkpoint or ""), planned)
    assert easy.reader.partitions(json.loads(easy.checkpoint or ""), planned) == []
    easy.rows.clear()
    easy.drain()
    assert easy.bodies == [b"%d" % at for at in range(1, 411) if at > 20][-len(easy.bodies) :]
    assert easy.bodies[-10:] == numbers(401, 10)
    assert "the query goes on with what is there" in caplog.text


class Restored:
    """A stage of which one copy is put back: 20 messages and what came then, or 20 and others."""

    def __init__(self, stage: Filled) -> None:
        self.stage, self.copy = stage, stage.directory.with_name("copy")
        stage.add(10, 10)
        shutil.copytree(stage.directory, self.copy)

    def put_back(self, first: int) -> None:
        """With 40 other messages behind those of the copy, the first of them with this number."""
        self.stage.writer.close()
        shutil.rmtree(self.stage.directory)
        shutil.copytree(self.copy, self.stage.directory)
        self.stage.__init__(self.stage.directory)  # type: ignore[misc]
        self.stage.count = first - 1
        self.stage.add(10, 10, 10, 10)


@pytest.mark.parametrize("reopened", [True, False], ids=["in another run", "in the same run"])
@pytest.mark.parametrize("restart", [True, False], ids=["query restarts", "query goes on"])
def test_a_stage_that_is_restored_from_a_backup(
    stage: Filled, reopened: bool, restart: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Other messages stand where the query has been: nothing that came is passed over in silence."""
    restored = Restored(stage)
    early, strict, easy = stage.query(), stage.query(), stage.query(failOnDataLoss=False)
    assert early.drain()
    if reopened:
        stage.writer.close()
        stage.__init__(stage.directory)  # type: ignore[misc]
        stage.count = 20
    stage.add(10, 10)
    assert strict.drain() == easy.drain()
    read = json.loads(strict.checkpoint or "")
    restored.put_back(51)
    segments = stage.segments
    if restart:
        for query in (early, strict, easy):
            query.start()
    with pytest.raises(StageLost, match=r"restored from a backup.*To go on with what is there: failOnDataLoss=false"):
        strict.step()
    with pytest.raises(StageLost, match=r"restored from a backup"):
        strict.reader.partitions(json.loads(strict.checkpoint or "") | {"pos": 0, "frames": 0}, read)
    strict.reader.commit(read)
    assert stage.segments == segments, "a place in another life deletes nothing"
    assert early.drain()[20:] == [(body,) for body in numbers(51, 40)]  # it had read no more than the copy has
    easy.rows.clear()
    easy.drain()
    assert set(numbers(51, 40)) <= set(easy.bodies)
    assert "restored from a backup" in caplog.text


def test_a_place_before_which_others_have_deleted_everything(stage: Filled) -> None:
    """The opening that wrote there tells of a stage that was restored from a backup."""
    stage.count = 100  # all numbers have three digits
    restored, query = Restored(stage), stage.query()
    fill_a_segment(stage, query)
    restored.put_back(501)
    other = stage.query()
    fill_a_segment(stage, other)
    other.drain()
    other.reader.commit(json.loads(other.checkpoint or ""))
    assert StageFolder(stage.directory).first().frames == read_place(json.loads(query.checkpoint or "")).frames
    with pytest.raises(StageLost, match=r"restored from a backup"):
        query.step()


def fill_a_segment(stage: Filled, query: Query) -> None:
    """The query has read all of it, and nothing of the next one."""
    for _ in range(100):
        query.drain()
        stage.add(10)
        if len(stage.segments) > 1:
            return
    raise AssertionError("it is never full")


def test_a_damaged_header(stage: Filled) -> None:
    """Nobody can count blocks behind it, and what the segment has from there on is left out."""
    stage.add(*40 * [10])
    path = stage.directory / "segments" / stage.segments[0]
    data = bytearray(path.read_bytes())
    data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
    path.write_bytes(data)
    with pytest.raises(StageLost, match="checksum is wrong"):
        stage.query(maxRowsPerTrigger=50, deleteConsumed=False).drain()
    with pytest.raises(DamagedRecording, match="mode=dropmalformed reads what is good"):
        stage.query().drain()
    query = stage.query(maxRowsPerTrigger=50, failOnDataLoss=False, mode="dropmalformed")
    found = query.drain()
    assert [found[0], found[-1]] == [(b"1",), (b"400",)]
    assert 350 < len(found) < 400
    stage.add(1)
    assert query.drain()[-1] == (b"401",)


def test_no_stage(tmp_path: Path) -> None:
    with pytest.raises(UnknownStage, match="is no stage"):
        Query(None, staging="external", stagingDir=tmp_path)


def test_a_stage_into_which_nothing_came(stage: Filled) -> None:
    query = stage.query()
    assert not query.step()
    stage.add(1)
    assert query.drain() == [(b"1",)]
    assert StageFolder(stage.directory).first().frames == 0
