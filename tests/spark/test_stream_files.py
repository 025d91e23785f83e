"""Stream of recordings (mode=files), called as Spark calls it, without one.

A property drives a folder that grows in any order, by any number of bytes, and a query that takes batches in between,
dies and starts again from its checkpoint; in the end every message of every whole block was read once.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'tolliver-proto[spark]'")

from pyspark.sql.streaming.datasource import ReadMaxRows
from tolliver.spark import DamagedRecording
from tolliver.spark.stream import _files
from tolliver.spark.stream._offsets import StreamLost

from tolliver_proto import Message, StoreError
from tolliver_proto.recording import BLOCK, Direction

from .queries import EVERYTHING, Query, reader_of
from .recordings import block, header, sidecar, write


@pytest.fixture(autouse=True)
def looks_whenever_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_files, "_REST", 0)


def some(first: int, count: int, direction: Direction = Direction.IN) -> bytes:
    """A block with so many messages, whose bodies are numbers."""
    return block([Message("c", "k", b"%d" % at, at) for at in range(first, first + count)], header(direction=direction))


def numbers(first: int, count: int) -> list[bytes]:
    return [b"%d" % at for at in range(first, first + count)]


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_a_growing_file_is_read_up_to_its_last_whole_block(tmp_path: Path) -> None:
    query = Query(tmp_path)
    assert not query.step()  # an empty folder
    whole = some(1, 3)
    for cut in (1, BLOCK.size - 1, BLOCK.size, BLOCK.size + 1, len(whole) - 1):
        (tmp_path / "a.rec").write_bytes(whole[:cut])
        assert not query.step()
    (tmp_path / "a.rec").write_bytes(whole)
    assert query.step()
    assert query.bodies == numbers(1, 3)
    append(tmp_path / "a.rec", some(4, 2) + some(6, 1)[:-1])
    query.drain()
    assert query.bodies == numbers(1, 5)
    append(tmp_path / "a.rec", some(6, 1)[-1:])
    assert query.drain() == [(number,) for number in numbers(1, 6)]


STEPS = st.one_of(
    st.tuples(st.just("grow"), st.integers(0, 3), st.integers(1, 400)),
    st.tuples(st.just("close"), st.integers(0, 3)),
    st.tuples(st.just("batch"), st.sampled_from([None, ReadMaxRows(1), ReadMaxRows(5), EVERYTHING])),
    st.tuples(st.just("restart")),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(steps=st.lists(STEPS, max_size=30), sizes=st.lists(st.integers(1, 6), min_size=4, max_size=16))
def test_every_message_once_however_the_folder_grows(
    steps: list[Any], sizes: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("grown")
    query = Query(folder, maxBytesPerTrigger=300)
    blocks: list[list[bytes]] = [[] for _ in range(4)]
    for at, size in enumerate(sizes):
        blocks[at % 4].append(some(100 * at, size))
    left = [b"".join(of_file) for of_file in blocks]
    for what, *arguments in steps:
        if what == "grow":
            number, size = arguments
            append(folder / f"{number}.rec", left[number][:size])
            left[number] = left[number][size:]
        elif what == "close":
            [number] = arguments
            append(folder / f"{number}.rec", left[number])
            left[number] = b""
            write(folder / f"{number}.rec", blocks[number])
        elif what == "batch":
            query.step(*arguments)
        else:
            query.start()
    for number, rest in enumerate(left):
        append(folder / f"{number}.rec", rest)
    query.drain()
    assert sorted(query.bodies) == sorted(number for at, size in enumerate(sizes) for number in numbers(100 * at, size))


def test_new_files_in_the_order_of_their_names_and_limits(tmp_path: Path) -> None:
    for name in ("c", "a", "b"):
        write(tmp_path / f"{name}.rec", [some(1000 * ord(name) + 10 * at, 10) for at in range(4)], index=name != "c")
    query = Query(tmp_path, maxRowsPerTrigger=25)
    query.drain()
    assert query.batches == [20, 20, 20, 20, 20, 20]
    assert query.bodies == [number for name in "abc" for number in numbers(1000 * ord(name), 40)]
    one = len(some(97000, 10))
    by_size = Query(tmp_path, maxBytesPerTrigger=3 * one, maxRowsPerTrigger=1000)
    by_size.drain()
    assert by_size.batches == [30, 30, 30, 30]
    at_least_one = Query(tmp_path, maxBytesPerTrigger=1)
    at_least_one.drain()
    assert at_least_one.batches == 12 * [10]
    at_once = Query(tmp_path, maxRowsPerTrigger=1)
    at_once.drain(EVERYTHING)  # which goes before the options
    assert at_once.batches == [120]


def test_where_it_begins_and_where_available_now_ends(tmp_path: Path) -> None:
    path = write(tmp_path / "a.rec", [some(1, 2)], index=False)
    late = Query(tmp_path, startingOffsets="latest")
    now = Query(tmp_path, maxRowsPerTrigger=1)
    now.reader.prepareForTriggerAvailableNow()
    append(path, some(3, 2))
    write(tmp_path / "b.rec", [some(5, 2)])
    now.drain()
    assert now.bodies == numbers(1, 2)
    late.drain()
    assert late.bodies == numbers(3, 4)
    now.start()
    now.reader.prepareForTriggerAvailableNow()
    now.drain()
    assert now.bodies == numbers(1, 6)
    assert now.reader.reportLatestOffset() == json.loads(now.checkpoint or "")


def test_a_glob_a_file_and_a_moved_folder(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    for number, name in enumerate(("one/a", "two/a", "two/b")):
        write(tmp_path / f"{name}.rec", [some(number, 1)])
    assert Query(f"{tmp_path}/*/a.rec").drain() == [(b"0",), (b"1",)]
    assert Query(tmp_path / "two/b.rec").drain() == [(b"2",)]
    query = Query(f"{tmp_path}/*")
    assert query.drain() == [(b"0",), (b"1",), (b"2",)]
    query.path = f"{(tmp_path / '..').resolve()}/{tmp_path.name}/*"
    tmp_path.rename(moved := tmp_path.with_name("moved"))
    query.path = f"{moved}/*"
    query.start()
    assert not query.step()
    moved.rename(tmp_path)


def test_hidden_names_and_braces(tmp_path: Path) -> None:
    """A file that a program writes and then renames is read once, under its last name."""
    for number, name in enumerate(("a", "b", "_b", ".c", "one/a", "two/b", "_temporary/a")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path / f"{name}.rec", [some(number, 1)])
    query = Query(tmp_path)
    assert query.drain() == [(b"0",), (b"1",)]
    (tmp_path / "_b.rec").rename(tmp_path / "c.rec")
    assert query.drain()[2:] == [(b"2",)]
    assert Query(tmp_path / ".c.rec").drain() == [(b"3",)]
    assert Query(tmp_path, recursiveFileLookup=True).drain() == [(b"0",), (b"1",), (b"2",), (b"4",), (b"5",)]
    for path, found in (
        ("{a,b}.rec", [b"0", b"1"]),
        ("{one/a,two/b}.rec", [b"4", b"5"]),
        ("{t,}*/{a,b}.rec", [b"4", b"5"]),
        ("{nothing,b}.rec", [b"1"]),
    ):
        query = Query(f"{tmp_path}/{path}")
        query.drain()
        query.start()
        assert (query.step(), query.bodies) == (False, found)


def test_filters_columns_and_directions(tmp_path: Path) -> None:
    write(tmp_path / "a.rec", [some(1, 2), some(3, 2, Direction.OUT)])
    assert Query(tmp_path, columns="message_id body").drain() == [(1, b"1"), (2, b"2")]
    assert Query(tmp_path, direction="out").drain() == [(b"3",), (b"4",)]
    assert Query(tmp_path, channels="d").drain() == []


def test_many_tasks(tmp_path: Path) -> None:
    large = [block([Message("c", "", bytes(2**18), at)]) for at in range(16)]
    write(tmp_path / "a.rec", large)
    write(tmp_path / "b.rec", large, index=False)
    for name in ("a", "b"):
        reader = reader_of(tmp_path / f"{name}.rec", columns="message_id", minPartitions=4)
        half = reader.latestOffset(reader.initialOffset(), ReadMaxRows(8))
        for start, end, ids in (
            (reader.initialOffset(), half, range(8)),
            (half, reader.reportLatestOffset(), range(8, 16)),
        ):
            partitions = reader.partitions(start, end)
            assert len(partitions) == 2  # none is below a MiB
            found = [
                row["message_id"] for part in partitions for batch in reader.read(part) for row in batch.to_pylist()
            ]
            assert found == [*ids]


# Failures.


def test_files_that_were_read_may_go_and_leave_the_offset(tmp_path: Path) -> None:
    query = Query(tmp_path)
    write(tmp_path / "a.rec", [some(1, 1)])
    query.drain()
    (tmp_path / "a.rec").unlink()
    assert not query.step()
    write(tmp_path / "b.rec", [some(2, 1)])
    query.drain()
    assert (query.bodies, [*json.loads(query.checkpoint or "")["files"]]) == (numbers(1, 2), ["b.rec"])


@pytest.mark.parametrize("fails", [True, False])
def test_a_file_that_goes_before_it_is_read(tmp_path: Path, fails: bool, caplog: pytest.LogCaptureFixture) -> None:
    query = Query(tmp_path, maxRowsPerTrigger=1, failOnDataLoss=fails)
    write(tmp_path / "a.rec", [some(1, 1), some(2, 1)])
    query.step()
    planned = query.reader.latestOffset(json.loads(query.checkpoint or ""), ReadMaxRows(1))
    (tmp_path / "a.rec").unlink()
    write(tmp_path / "b.rec", [some(3, 1)])
    if fails:
        with pytest.raises(StreamLost, match=r"a\.rec is gone, and \d+ bytes of it were not read; put it back, or go"):
            query.step()
        query.start()
        with pytest.raises(StreamLost, match=r"a\.rec is gone, and bytes \d+ to \d+ of it are to be read"):
            query.reader.partitions(json.loads(query.checkpoint or ""), planned)
    else:
        assert query.reader.partitions(json.loads(query.checkpoint or ""), planned) == []
        assert query.drain() == [(b"1",), (b"3",)]
        assert "failOnDataLoss=false goes on without it" in caplog.text


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("messages", [1, 2, 3], ids=["shorter", "as long", "longer"])
def test_another_file_of_the_same_name(tmp_path: Path, fails: bool, messages: int, restarted: bool) -> None:
    """Nothing else tells the second of them from the first, and its first messages would be missing."""
    query = Query(tmp_path, failOnDataLoss=fails)
    write(tmp_path / "a.rec", [some(1, 1), some(2, 1)], index=False)
    query.drain()
    replace(tmp_path / "a.rec", [some(at, 1) for at in range(3, 3 + messages)])
    if restarted:
        query.start()
    if fails:
        with pytest.raises(StreamLost, match=r"a\.rec was read up to byte \d+, and now it is another file"):
            query.step()
    else:
        assert query.drain()[2:] == [(number,) for number in numbers(3, messages)]


def replace(path: Path, blocks: list[bytes]) -> None:
    """As tools do it, so that no reader sees half of it."""
    other = path.with_name("_other")
    other.write_bytes(b"".join(blocks))
    other.rename(path)


@pytest.mark.parametrize("fails", [True, False])
def test_another_file_before_the_first_one_was_read(tmp_path: Path, fails: bool, caplog: Any) -> None:
    query = Query(tmp_path, failOnDataLoss=fails)
    write(tmp_path / "a.rec", [some(1, 1), some(2, 1)], index=False)
    start = json.loads(query.checkpoint or "")
    planned = query.reader.latestOffset(start, EVERYTHING)
    replace(tmp_path / "a.rec", [some(at, 1) for at in range(3, 6)])
    if fails:
        with pytest.raises(StreamLost, match=r"a\.rec is another file, and bytes 0 to \d+ of it are to be read"):
            query.reader.partitions(start, planned)
        with pytest.raises(StreamLost, match=r"a\.rec is another file now, and \d+ bytes of the other were not read"):
            query.step()
    else:
        assert query.reader.partitions(start, planned) == []
        assert query.drain() == [(number,) for number in numbers(3, 3)]
        assert "is another file now" in caplog.text


def test_a_checkpoint_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    """It has no mark of its files, and knows them by their length alone."""
    query = Query(tmp_path)
    path = write(tmp_path / "a.rec", [some(1, 2)], index=False)
    query.checkpoint = json.dumps({"v": 1, "files": {"a.rec": path.stat().st_size}})
    query.start()
    assert not query.step()
    append(path, some(3, 1))
    assert query.drain() == [(b"3",)]
    replace(path, [some(at, 1) for at in range(4, 9)])
    with pytest.raises(StreamLost, match="now it is another file"):
        query.step()


def test_damage(tmp_path: Path) -> None:
    """A header: only an index says what comes behind. A payload: the worker sees it."""
    blocks = [block([Message("c", "", bytes(2**19) + b"%d" % at, at + 1)]) for at in range(6)]
    path = write(tmp_path / "a.rec", blocks, index=False)
    data = bytearray(path.read_bytes())
    data[len(blocks[0]) + 3] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedRecording, match="no block begins here; mode=dropmalformed reads what is good"):
        Query(tmp_path, columns="message_id").step()
    query = Query(tmp_path, columns="message_id", mode="dropmalformed", maxRowsPerTrigger=1)
    assert query.drain() == [(1,)]
    write(tmp_path / "b.rec", blocks)
    sidecar(tmp_path / "b.rec").rename(sidecar(path))
    (tmp_path / "b.rec").unlink()
    query.start()
    assert query.drain() == [(1,), (3,), (4,), (5,), (6,)]
    assert Query(tmp_path, columns="message_id", mode="dropmalformed").drain() == [(1,), (3,), (4,), (5,), (6,)]

    data = bytearray(b"".join(blocks))
    data[BLOCK.size + 9] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedRecording, match="the payload's checksum is wrong"):
        Query(tmp_path, columns="message_id").step()
    assert Query(tmp_path, columns="message_id", mode="dropmalformed").drain() == [(at,) for at in range(2, 7)]


def test_a_file_that_was_cut_after_it_was_closed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.rec", [some(1, 1), some(2, 1)])
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedRecording, match="the file was cut: it had"):
        Query(tmp_path).step()
    assert Query(tmp_path, mode="dropmalformed").drain() == [(b"1",)]


def test_too_many_files_and_a_folder_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_files, "MOST_FILES", 3)
    for number in range(3):
        write(tmp_path / f"{number}.rec", [some(number, 1)])
    assert len(Query(tmp_path).drain()) == 3
    write(tmp_path / "3.rec", [some(3, 1)])
    with pytest.raises(StoreError, match="has 4 recordings, and an offset names each: 3 is the most"):
        Query(tmp_path).step()
    with pytest.raises(StoreError, match="elsewhere is no directory: check the path"):
        Query(tmp_path / "elsewhere").step()
