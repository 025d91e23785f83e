"""Reader of recordings, called as Spark calls it, without one."""

from __future__ import annotations

import json
import logging
import pickle
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'tolliver-proto[spark]'")

import pyarrow as pa
from pyspark.sql.datasource import (
    CaseInsensitiveDict,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType
from tolliver.spark import DamagedRecording, partition_batches, partition_connections, partition_events
from tolliver.spark.partitions import Content
from tolliver.spark.read._batches import _COLUMNS, arrow_schema
from tolliver.spark.read._columns import find_frames
from tolliver.spark.read._options import OPTIONS, parse_options
from tolliver.spark.read._ranges import plan
from tolliver.spark.read._reader import PushdownReader
from tolliver.spark.read._schema import METADATA, OF_FRAMES, OF_MESSAGES, ddl
from tolliver.spark.source import TolliverSource

from tests.wire.strategies import frames, traffic
from tests.wire.test_decoding import regular
from tests.wire.vectors import BOTH
from tolliver_proto import Ack, Frame, Message, Revision, StoreError, encode
from tolliver_proto.recording import (
    BLOCK,
    INDEX_STEP,
    BlockHeader,
    Codec,
    Column,
    Direction,
    Entry,
    FrameColumns,
    Index,
    encode_block,
)

from .recordings import (
    NOON,
    OTHER,
    OURS,
    PEER,
    Row,
    block,
    group,
    header,
    large_blocks,
    rows_of,
    sidecar,
    values,
    write,
)

ALL = {**OF_MESSAGES, **METADATA}
SECOND = 10**9


def reader(path: str | Sequence[str], schema: StructType | None = None, **options: object) -> Any:
    """As Spark makes it: options in any case, and pickled on the way to a worker."""
    where = {"path": path} if isinstance(path, str) else {"paths": json.dumps(list(path))}
    source = TolliverSource(CaseInsensitiveDict(where | {name: str(value) for name, value in options.items()}))
    columns = source.schema()
    assert isinstance(columns, str)
    return source.reader(struct(columns) if schema is None else schema)


def struct(columns: str) -> StructType:
    """DDL as a schema, without a session."""
    kinds = {"bigint": "long", "int": "integer"}
    made = StructType()
    for column in columns.split(", "):
        name, kind = column.split(" ", 1)
        word = kind.removesuffix(" not null")
        made.add(name, kinds.get(word, word), word == kind)
    return made


def batches(one: Any) -> list[list[Any]]:
    """The batches that each task reads. Planned and read by copies, as in a cluster."""
    planned = pickle.loads(pickle.dumps(one.partitions()))
    worker = pickle.loads(pickle.dumps(one))
    return [list(worker.read(partition)) for partition in planned]


def table(one: Any) -> list[tuple[Any, ...]]:
    """All rows, in order; times in microseconds since 1970."""
    found = []
    for task in batches(one):
        for batch in task:
            columns = [
                (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
                for column in batch.columns
            ]
            found += list(zip(*columns, strict=True))
    return found


# The same rows as a reader that decodes frame by frame, whatever is asked.

headers = st.builds(
    header,
    st.sampled_from([0, NOON - 1, NOON, NOON + 500, NOON + SECOND, 2**64 - 1]),
    st.sampled_from([None, PEER, OTHER]),
    st.sampled_from(Direction),
    st.sampled_from(Revision),
)
calls = headers.flatmap(lambda head: st.lists(frames(head.revision), max_size=6).map(lambda listed: (head, listed)))
groups = st.tuples(st.lists(calls.filter(lambda call: bool(call[1])), min_size=1, max_size=6), st.sampled_from(Codec))
blocks = st.lists(calls.map(lambda call: block(call[1], call[0])) | groups.map(lambda drawn: group(*drawn)))
directions = st.sampled_from(["in", "out", "both", "BOTH"])
names = st.sets(st.sampled_from(["", "a", "weather", "é"]), min_size=1)


def asked_for(row: Row, options: dict[str, Any]) -> bool:
    """The rules of docs/spark.md for the options."""
    keys = options.get("keys")
    since, until = options.get("timeFrom"), options.get("timeTo")
    when = row.header.time_ns
    return (
        options.get("direction", "in").lower() in ("both", row.direction)
        and ("channels" not in options or row.channel in options["channels"])
        and (
            keys is None or any(row.key == key or (key.endswith("*") and row.key.startswith(key[:-1])) for key in keys)
        )
        and ("peers" not in options or row.header.peer in options["peers"])
        and (since is None or when >= since)
        and (until is None or when < until)
    )


def written(options: dict[str, Any]) -> dict[str, str]:
    """Options as users write them."""
    texts = {}
    for name, value in options.items():
        if name in ("channels", "keys"):
            texts[name] = json.dumps(value)
        elif name == "peers":
            texts[name] = ", ".join(map(str, value))
        elif name in ("timeFrom", "timeTo"):
            texts[name] = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value // 1000)).isoformat()
        else:
            texts[name] = str(value)
    return texts


@settings(max_examples=settings().max_examples // 2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    blocks=blocks,
    columns=st.lists(st.sampled_from(list(ALL)), min_size=1, unique=True),
    options=st.fixed_dictionaries(
        {},
        optional={
            "direction": directions,
            "channels": names.map(sorted),
            "keys": st.sets(st.sampled_from(["", "a", "we*", "*", "é*"]), min_size=1).map(sorted),
            "peers": st.sets(st.sampled_from([PEER, OTHER]), min_size=1).map(sorted),
            "timeFrom": st.sampled_from([0, NOON, NOON + SECOND]),
            "timeTo": st.sampled_from([NOON, NOON + 1000, NOON + SECOND]),
            "rowsPerBatch": st.integers(1, 5),
        },
    ),
)
def test_rows_are_those_that_were_asked_for(
    tmp_path: Path, blocks: list[bytes], columns: list[str], options: dict[str, Any]
) -> None:
    path = write(tmp_path / "a.rec", blocks)
    schema = struct(ddl({column: ALL[column] for column in columns}))
    one = reader(str(path), schema, includeMetadata=True, **written(options))
    expected = [row for row in rows_of(path) if asked_for(row, options)]
    assert table(one) == values(expected, columns)
    for task in batches(one):
        for batch in task:
            assert batch.schema.equals(to_arrow_schema(schema, timezone="UTC"))
            assert 0 < batch.num_rows <= options.get("rowsPerBatch", 10_000)


def grid(path: Path) -> Path:
    """A block for each time, peer, direction and revision that the tests know, each with the same messages."""
    named = [("a", "weather"), ("weather", "w"), ("é", ""), ("", "wea*")]
    said = [Message(*pair, b"x", number) for number, pair in enumerate(named)]
    heads = product((NOON - 1, NOON, NOON + 500, NOON + SECOND), (None, PEER, OTHER), Direction, BOTH)
    return write(path, [block([Ack(1), *said], header(*head)) for head in heads])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"direction": "both"},
        {"direction": "out"},
        {"channels": ["a", ""]},
        {"channels": ["we"]},
        {"keys": ["we*"]},
        {"keys": ["", "w"]},
        {"keys": ["weather", "wea**"]},
        {"peers": [OTHER]},
        {"peers": [OTHER, PEER], "direction": "both"},
        {"timeFrom": NOON},
        {"timeTo": NOON},
        {"timeFrom": NOON, "timeTo": NOON + 1000},
        {"timeFrom": NOON + 1000, "channels": ["é"], "keys": [""], "peers": [PEER], "direction": "BOTH"},
    ],
    ids=str,
)
def test_each_filter(tmp_path: Path, options: dict[str, Any]) -> None:
    path = grid(tmp_path / "a.rec")
    expected = [row for row in rows_of(path) if asked_for(row, options)]
    one = reader(str(path), None, includeMetadata=True, rowsPerBatch=7, **written(options))
    assert table(one) == values(expected, list(ALL))
    assert 0 < len(expected) < len(list(rows_of(path))) or options in ({"channels": ["we"]}, {"direction": "both"})


def test_the_schema_is_exactly_what_spark_expects() -> None:
    """Spark refuses a batch with any other type."""
    assert arrow_schema(ALL).equals(to_arrow_schema(struct(ddl(ALL)), timezone="UTC"))
    assert list(_COLUMNS) == list(ALL)
    assert TolliverSource(CaseInsensitiveDict({"path": "x"})).schema() == ddl(OF_MESSAGES)
    assert TolliverSource(CaseInsensitiveDict({"path": "x", "IncludeMetadata": "TRUE"})).schema() == ddl(ALL)


@pytest.mark.parametrize("options", [{}, {"timeFrom": NOON + 2000, "timeTo": NOON + 60_000}, {"keys": ["7"]}], ids=str)
@pytest.mark.parametrize("codec", Codec)
def test_each_message_of_a_group_has_its_own_time_and_place(
    tmp_path: Path, options: dict[str, Any], codec: Codec
) -> None:
    """Also where its group gathered several, another connection's between them."""
    calls: list[tuple[BlockHeader, list[Frame]]] = [
        (header(NOON + number * 1000, (PEER, OTHER)[number % 2]), [Message("c", str(number), b"", number), Ack(number)])
        for number in range(100)
    ]
    path = write(tmp_path / "a.rec", [group(calls[:50], codec), group(calls[50:], codec)])
    expected = [row for row in rows_of(path) if asked_for(row, options)]
    one = reader(str(path), None, includeMetadata=True, rowsPerBatch=7, **written(options))
    assert table(one) == values(expected, list(ALL))
    assert len({row.place for row in list(rows_of(path))[:50]}) == 50
    assert sorted(row.received_at - NOON // 1000 for row in rows_of(path)) == list(range(100))


@pytest.mark.parametrize("frame", [Message("c", "k", b"", 2), Ack(2)], ids=["message", "ack"])
def test_sizes_that_are_not_those_of_the_frames_are_not_believed(frame: Message | Ack) -> None:
    data = encode(Message("c", "k", b"x", 1)) + encode(frame)
    for wrong in range(1, len(data)):
        column = Column(1, bytes((wrong, len(data) - wrong)))
        columns = FrameColumns(NOON, 0, 2, 1, column, Column(1, bytes((len(data),))), Column(0, b""), Column(0, b""))
        found = find_frames(data, Revision.DRAFT_2, columns)
        expected = find_frames(data)
        assert (list(found.messages), list(found.acks)) == (expected.messages, expected.acks)


def test_small_blocks_share_a_batch_and_a_large_one_is_split(tmp_path: Path) -> None:
    small = [block([Message("a", "b", b"", number)]) for number in range(100)]
    large = block([Message("a", "b", b"", number) for number in range(100, 350)])
    path = write(tmp_path / "a.rec", [*small, large])
    [sizes] = [[batch.num_rows for batch in task] for task in batches(reader(str(path), rowsPerBatch=100))]
    assert sizes == [100, 100, 100, 50]
    assert [row[3] for row in table(reader(str(path), rowsPerBatch=100))] == list(range(350))


def test_what_a_value_holds_does_not_depend_on_when_a_batch_is_looked_at(tmp_path: Path) -> None:
    """Batches share memory with what was read: the next one must not write there."""
    path = write(tmp_path / "a.rec", large_blocks(1))
    [task] = batches(reader(str(path), rowsPerBatch=8))
    assert [one.column("message_id")[0].as_py() for one in task] == list(range(1, 129, 8))


# Ranges.


def check_split(path: Path, tasks: int) -> None:
    one = reader(str(path), minPartitions=tasks, includeMetadata=True)
    planned = [partition.value for partition in one.partitions()]
    assert len(planned) >= tasks
    ranges = [part for parts in planned for part in parts]
    assert [part.start for part in ranges] == [0, *(part.end for part in ranges[:-1])]
    assert ranges[-1].end == path.stat().st_size
    assert all(part.size <= path.stat().st_size / tasks + INDEX_STEP for part in ranges)
    assert table(one) == values(list(rows_of(path)), list(ALL))


def test_a_large_file_is_split_by_its_index(tmp_path: Path) -> None:
    path = write(tmp_path / "a.rec", large_blocks())
    check_split(path, 3)
    check_split(path, 2)
    assert [len(task) for task in plan([str(path)])] == [1]


@pytest.mark.parametrize("pushed", [False, True])
def test_ranges_of_another_time_are_not_planned(tmp_path: Path, pushed: bool) -> None:
    blocks = [
        block([Message("bulk", "k", bytes(70_000), number)], header(NOON + number * SECOND)) for number in range(64)
    ]
    path = write(tmp_path / "a.rec", blocks)

    def planned(since: int, until: int) -> Any:
        when = [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=one // 1000) for one in (since, until)]
        if not pushed:
            times = {"timeFrom": when[0].isoformat(), "timeTo": when[1].isoformat()}
            return reader(str(path), None, includeMetadata=True, minPartitions=4, **times)
        one = reader(str(path), includeMetadata=True, minPartitions=4, filterPushdown=True)
        assert not one.pushFilters([GreaterThanOrEqual(("received_at",), when[0]), LessThan(("received_at",), when[1])])
        return one

    everything = planned(0, NOON + 100 * SECOND)
    assert len(everything.partitions()) >= 4
    assert len(table(everything)) == 64
    some = planned(NOON + 50 * SECOND, NOON + 52 * SECOND)
    assert [row[3] for row in table(some)] == [50, 51]
    assert 1 <= len(some.partitions()) <= 2
    nothing = planned(NOON + 100 * SECOND, NOON + 101 * SECOND)
    assert [partition.value for partition in nothing.partitions()] == [[]]
    assert table(nothing) == []
    sidecar(path).unlink()
    assert [row[3] for row in table(some)] == [50, 51]


def test_what_no_filter_takes_is_not_read(tmp_path: Path) -> None:
    """So damage in it is not told; nor is it where an option refuses the block."""
    path = write(tmp_path / "a.rec", [block([Message("c", "k", b"x", 1)], header(NOON, OTHER)), block([Ack(1)])])
    data = bytearray(path.read_bytes())
    data[BLOCK.size] ^= 1
    path.write_bytes(data)
    assert table(reader(str(path), peers=str(PEER))) == []
    with pytest.raises(DamagedRecording):
        table(reader(str(path)))


def other_index(path: Path) -> None:
    other = write(path.with_name("other"), [block([Ack(1)], header(NOON + 1)), *large_blocks()[1:]])
    sidecar(path).write_bytes(sidecar(other).read_bytes())


def shifted_index(path: Path) -> None:
    index = Index.decode(sidecar(path).read_bytes())
    assert index is not None
    moved = tuple(Entry(entry.offset + 1, entry.ordinal) for entry in index.entries)
    sidecar(path).write_bytes(Index(index.length, index.first, moved).encode())


def flipped_index(path: Path) -> None:
    data = bytearray(sidecar(path).read_bytes())
    data[30] ^= 1
    sidecar(path).write_bytes(data)


def index_that_is_a_directory(path: Path) -> None:
    sidecar(path).unlink()
    sidecar(path).mkdir()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: sidecar(path).unlink(),
        lambda path: sidecar(path).write_bytes(b""),
        index_that_is_a_directory,
        other_index,
        shifted_index,
        flipped_index,
    ],
    ids=["missing", "empty", "a directory", "of another file", "shifted", "flipped"],
)
def test_an_index_that_is_no_good_is_made_anew(tmp_path: Path, spoil: Any) -> None:
    path = write(tmp_path / "a.rec", large_blocks())
    spoil(path)
    check_split(path, 3)


def test_an_index_that_points_into_a_body_is_found_out(tmp_path: Path) -> None:
    """It would take a liar to write it; nothing of what stands there may come out as messages."""
    inner = block([Message("forged", "", b"", 1)])
    carrier = block([Message("carrier", "", bytes(2 * INDEX_STEP) + inner, 2)])
    path = write(tmp_path / "a.rec", [carrier, carrier])
    index = Index.decode(sidecar(path).read_bytes())
    assert index is not None
    inside = len(carrier) - len(inner)
    sidecar(path).write_bytes(Index(index.length, index.first, (Entry(0, 0), Entry(inside, 1))).encode())
    for mode in ("failfast", "dropmalformed"):
        with pytest.raises(DamagedRecording, match="remove the index") as raised:
            batches(reader(str(path), minPartitions=2, mode=mode))
        assert (raised.value.file, raised.value.offset) == (str(path), 0)


def test_small_files_are_read_together_and_in_order(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{number:02}.rec", [block([Message("a", "", b"", number)])]) for number in range(20)]
    write(tmp_path / "not one.txt", [])
    assert len(reader(str(tmp_path)).partitions()) == 1
    assert [row[3] for row in table(reader(str(tmp_path)))] == list(range(20))
    assert [row[3] for row in table(reader(f"{tmp_path}/0[3-5].*"))] == [3, 4, 5]
    assert [row[3] for row in table(reader([str(paths[7]), str(paths[2]), f"file://{paths[7]}"]))] == [7, 2]


def test_a_path_with_the_signs_of_a_glob_is_a_path(tmp_path: Path) -> None:
    for name in ("a[1] b%20.rec", "{a,b}.rec", "a}{.rec"):
        assert len(table(reader(str(write(tmp_path / name, [block([Message("a", "", b"", 1)])]))))) == 1
    path = tmp_path / "a[1] b%20.rec"
    assert len(table(reader("file:" + str(path).replace("%", "%25").replace(" ", "%20")))) == 1


def test_relative_paths_are_made_whole_where_the_work_is_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a.rec", [block([Message("a", "", b"", 1)])])
    monkeypatch.chdir(tmp_path)
    [partition] = reader("*.rec").partitions()
    assert partition.value[0].file == str(tmp_path / "a.rec")


@pytest.mark.parametrize("path", ["nothing", "empty", "*.rec", "s3a://bucket/a.rec", "file://host/a.rec"])
def test_a_path_without_recordings_is_an_error(tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=re.escape(path)) as raised:
        reader(path).partitions()
    assert ("binaryFile" in str(raised.value)) == ("://" in path)


def test_a_file_that_a_worker_does_not_see_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.rec", [block([Message("a", "", b"", 1)])])
    one = reader(str(path))
    [partition] = one.partitions()
    path.unlink()
    with pytest.raises(StoreError, match=r"a\.rec cannot be read"):
        list(one.read(partition))


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    assert table(reader(str(write(tmp_path / "a.rec", [], index=False)))) == []


# Damage.


def test_a_torn_tail_is_ignored_unless_it_is_to_be_an_error(tmp_path: Path) -> None:
    whole = block([Message("a", "", b"x", 1)])
    path = write(tmp_path / "a.rec", [whole, whole[:-1]], index=False)
    assert len(table(reader(str(path)))) == 1
    for mode in ("failfast", "dropmalformed"):
        with pytest.raises(DamagedRecording, match="truncatedTail=ignore") as raised:
            table(reader(str(path), truncatedTail="error", mode=mode))
        assert (raised.value.file, raised.value.offset) == (str(path), len(whole))


def test_what_is_written_after_the_plan_is_not_read(tmp_path: Path) -> None:
    whole = block([Message("a", "", b"x", 1)])
    path = write(tmp_path / "a.rec", [whole, whole[:-1]], index=False)
    one = reader(str(path))
    [partition] = one.partitions()
    path.write_bytes(whole * 3)
    assert sum(batch.num_rows for batch in one.read(partition)) == 1


def test_a_recording_that_was_cut_after_it_was_closed_is_no_torn_tail(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = block([Message("a", "", b"x", 1)])
    path = write(tmp_path / "a.rec", [whole] * 3)
    for length in (2 * len(whole), 2 * len(whole) + 9):
        path.write_bytes((whole * 3)[:length])
        with pytest.raises(DamagedRecording, match=f"the file was cut: it had {3 * len(whole)} bytes"):
            table(reader(str(path)))
        assert len(table(reader(str(path), mode="dropmalformed"))) == 2
        assert "the file was cut" in caplog.text


def spoilt(at: int, blocks: Sequence[bytes], place: int) -> list[bytes]:
    data = bytearray(blocks[at])
    data[place] ^= 1
    return [*blocks[:at], bytes(data), *blocks[at + 1 :]]


def test_a_damaged_payload_costs_one_block(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    good = [block([Message("a", "", b"x", number)]) for number in range(4)]
    path = write(tmp_path / "a.rec", spoilt(1, good, -1))
    with pytest.raises(DamagedRecording, match=rf"a\.rec: byte {len(good[0])}: the payload's checksum") as raised:
        table(reader(str(path)))
    assert raised.value.offset == len(good[0])
    with caplog.at_level(logging.WARNING):
        assert [row[3] for row in table(reader(str(path), mode="DropMalformed"))] == [0, 2, 3]
    assert f"{path}: byte {len(good[0])}" in caplog.text


@pytest.mark.parametrize("tasks", [1, 3])
def test_behind_a_damaged_header_the_index_says_where_to_go_on(
    tmp_path: Path, tasks: int, caplog: pytest.LogCaptureFixture
) -> None:
    good = large_blocks()
    bad = spoilt(2, good, 50)
    path = write(tmp_path / "a.rec", good)
    path.write_bytes(b"".join(bad))
    with pytest.raises(DamagedRecording, match="the header's checksum is wrong"):
        table(reader(str(path), minPartitions=tasks))
    found = [row[3] for row in table(reader(str(path), mode="dropmalformed", minPartitions=tasks))]
    second = -(-INDEX_STEP // len(good[0]))  # the first block of the second MiB
    assert found == [*range(1, 17), *range(8 * second + 1, 8 * len(good) + 1)]
    assert f"byte {second * len(good[0])} is the next good one" in caplog.text
    sidecar(path).unlink()
    assert [row[3] for row in table(reader(str(path), mode="dropmalformed", minPartitions=tasks))] == [*range(1, 17)]


def test_a_damaged_header_at_an_entry_does_not_spoil_the_others(tmp_path: Path) -> None:
    good = large_blocks()
    second = -(-INDEX_STEP // len(good[0]))
    path = write(tmp_path / "a.rec", good)
    path.write_bytes(b"".join(spoilt(second, good, 50)))
    third = -(-2 * INDEX_STEP // len(good[0]))
    found = [row[3] for row in table(reader(str(path), mode="dropmalformed", minPartitions=3))]
    assert found == [*range(1, 8 * second + 1), *range(8 * third + 1, 8 * len(good) + 1)]


def test_a_malformed_frame_costs_the_rest_of_its_block(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = encode(Message("a", "", b"", 1))
    bad = encode_block(header(), first + b"\x09" + encode(Message("a", "", b"", 2)))
    path = write(tmp_path / "a.rec", [bad, block([Message("a", "", b"", 3)])])
    where = rf"a\.rec: byte {BLOCK.size + len(first)}: no frame begins with the byte 9"
    with pytest.raises(DamagedRecording, match=where):
        table(reader(str(path)))
    assert [row[3] for row in table(reader(str(path), mode="dropmalformed"))] == [1, 3]
    assert re.search(where, caplog.text)
    assert table(reader(str(path), timeTo="2026-01-01")) == []  # blocks that nobody wants are not parsed


def test_the_log_names_some_places_and_counts_all(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path / "a.rec", [encode_block(header(), b"\x09")] * 1000)
    assert table(reader(str(path), mode="dropmalformed")) == []
    assert len(caplog.records) < 20
    assert "1000 places in all" in caplog.text


def test_names_that_are_no_text_are_no_messages(tmp_path: Path) -> None:
    """T-10: the machine ignores them, so there is no row."""
    odd = regular(b"\xff", b"", b"x") + regular(b"a", b"\xc0\x80", b"x") + regular(b"tolliver", b"", b"?")
    path = write(tmp_path / "a.rec", [encode_block(header(), odd + encode(Message("a", "", b"", 3)))])
    assert [row[3] for row in table(reader(str(path)))] == [3]


# Options and schemas.


def test_options_are_read_in_any_case() -> None:
    options = parse_options(
        {"PATH": "x", "minpartitions": "4", "ROWSPERBATCH": "7", "Channels": "a, b", "keys": '["a,b*"]'}
    )
    assert (options.min_partitions, options.rows_per_batch) == (4, 7)
    assert (options.channels, options.keys) == (("a", "b"), ("a,b*",))


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("chanels", "a", ", ".join(OPTIONS)),
        ("mode", "permissive", "failfast or dropmalformed"),
        ("truncatedTail", "", "error or ignore"),
        ("direction", "up", "in, out or both"),
        ("includeMetadata", "yes", "true or false"),
        ("minPartitions", "0", "from 1 on"),
        ("rowsPerBatch", "-1", "from 1 on"),
        ("rowsPerBatch", "9" * 5000, "from 1 on"),
        ("peers", "bob", "give the UUID"),
        ("timeFrom", "noon", "2026-11-21T15:04:05"),
        ("timeTo", "99999-01-01", "2026-11-21T15:04:05"),
        ("channels", "[1]", "JSON list"),
        ("keys", '["a"', "JSON list"),
        ("recursiveFileLookup", "1", "true or false"),
        ("pathGlobFilter", " ", "give a pattern for the names of files"),
        ("pathGlobFilter", "a/*.rec", "without a directory, such as *.rec"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(name: str, text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)) as raised:
        parse_options({"path": "x", name: text})
    assert name in str(raised.value)
    assert len(str(raised.value)) < 500


def test_there_must_be_a_path() -> None:
    for options in ({}, {"paths": "[]"}):
        with pytest.raises(ValueError, match="nothing to read"):
            parse_options(options)


# Paths.


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Recordings in directories of directories, each with a message whose id is its number."""
    there = ("a.rec", "b.rec", "deep/c.rec", "deep/er/d.recording", "_temporary/e.rec", "_half.rec", ".copied.rec")
    for number, name in enumerate(there, 1):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / name, [block([Message("a", "", b"", number)])])
    (tmp_path / "deep" / "er" / "d.recording.idx").write_bytes(b"TLVI")
    (tmp_path / "empty").mkdir()
    (tmp_path / "_hidden").mkdir()
    (tmp_path / "_hidden" / ".a.rec").touch()
    (tmp_path / "table.parquet").write_bytes(b"PAR1 and so on")
    (tmp_path / "begun.rec").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("path", "options", "ids"),
    [
        ("", {}, [1, 2]),
        ("", {"recursiveFileLookup": True}, [1, 2, 3]),
        ("", {"recursiveFileLookup": True, "pathGlobFilter": "[ad].rec*"}, [1, 4]),
        ("", {"pathGlobFilter": "b*"}, [2]),
        ("deep", {}, [3]),
        ("d*", {"recursiveFileLookup": True, "pathGlobFilter": "*"}, [3, 4]),
        ("*.rec", {"pathGlobFilter": "a.*"}, [1]),
        ("*", {"mode": "dropmalformed"}, [1, 2, 3]),
        ("*/*.rec", {}, [3]),
        ("_half.rec", {}, [6]),
        ("_*.rec", {}, [6]),
        (".copied.rec", {}, [7]),
        ("_temporary", {}, [5]),
        ("{b,a,nothing}.rec", {}, [2, 1]),
        ("{_half,b}.rec", {}, [6, 2]),
        ("{*,dee[p]/*}.rec", {}, [1, 2, 3]),
        ("{deep/{c,er/d},a}.rec*", {}, [3, 4, 1]),
        ("", {"pathGlobFilter": "{a,b}.rec"}, [1, 2]),
        ("", {"recursiveFileLookup": True, "pathGlobFilter": "{a.rec,d.*}"}, [1, 4]),
        ("table.parquet", {"mode": "dropmalformed"}, []),
    ],
)
def test_directories_of_directories_and_names_of_files(
    tree: Path, path: str, options: dict[str, Any], ids: list[int]
) -> None:
    assert [row[3] for row in table(reader(str(tree / path), **options))] == ids


@pytest.mark.parametrize(
    ("path", "options", "says"),
    [
        ("nowhere", {}, "{tree}/nowhere: there is nothing of this name. Is it mounted here?"),
        ("*.wav", {}, "{tree}/*.wav: there is nothing of this name"),
        ("empty", {}, "{tree}/empty: an empty directory"),
        ("{e,m}pty.rec", {}, "{tree}/{{e,m}}pty.rec: there is nothing of this name"),
        ("", {"pathGlobFilter": "*half*"}, "no recordings, which are called *half*, among"),
        ("_hidden", {}, "{tree}/_hidden: only names that begin with . or _, such as '.a.rec': give a path with the"),
        ("{a,b}" * 11, {}, "its braces mean more than 1000 names: give fewer, or a list"),
        ("deep/er", {}, "{tree}/deep/er: no recordings, which are called *.rec, among 2 others such as 'd.recording'"),
        ("", {"pathGlobFilter": "c*"}, "called c*, but 1 in directories below it: recursiveFileLookup=true reads them"),
        ("a.rec", {"pathGlobFilter": "b*"}, "{tree}/a.rec: no recordings, which are called b*, as pathGlobFilter says"),
        (
            "table.parquet",
            {},
            "{tree}/table.parquet is no recording: it begins with b'PAR1', and",
        ),
        ("s3://bucket/a", {}, "only files that every machine has mounted can be read"),
    ],
)
def test_what_is_wrong_with_a_path_is_told_with_the_whole_path(
    tree: Path, path: str, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(says.format(tree=tree))):
        reader(path if "://" in path else str(tree / path), **options).partitions()


def test_a_relative_path_is_told_as_the_planning_machine_sees_it(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    says = f"{tree}/nowhere ('nowhere', seen from {tree} on the machine that plans the query): there is nothing"
    with pytest.raises(ValueError, match=re.escape(says)):
        reader("nowhere").partitions()
    assert [row[3] for row in table(reader("deep"))] == [3]


def test_a_time_without_a_zone_is_utc() -> None:
    at = [
        parse_options({"path": "x", "timeFrom": text}).time_from
        for text in ("2026-11-21T12:00", "2026-11-21T14:00+02:00")
    ]
    assert at == [NOON, NOON]


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ("topic string", "there is no column topic string: choose among channel string"),
        ("message_id int", "there is no column message_id int"),
        ("file string", "needs includeMetadata=true"),
        ("message_id bigint not null", "leave NOT NULL out"),
    ],
)
def test_columns_that_recordings_do_not_have_are_refused(columns: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        reader("x", struct(columns))


def test_a_column_is_there_once() -> None:
    """Batches have their columns by name, so Arrow would say so in words of its own, in the middle of a task."""
    for made in (
        lambda: reader("x", struct("key string, body binary, key string")),
        lambda: partition_batches(["key", "body", "key"]),
        lambda: TolliverSource(CaseInsensitiveDict({"path": "x", "mode": "files"})).streamReader(
            struct("key string, body binary, key string")
        ),
    ):
        with pytest.raises(ValueError, match="the column key is there twice: name each column once"):
            made()


def test_a_schema_needs_columns() -> None:
    with pytest.raises(ValueError, match="no columns"):
        reader("x", StructType())


@pytest.mark.parametrize("shown", [False, True])
def test_the_plan_is_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture, shown: bool) -> None:
    path = write(tmp_path / "a.rec", [block([Message("a", "", b"", 1)])])
    caplog.set_level(logging.INFO, "tolliver.spark")
    one = reader(str(path), channels="a", filterPushdown=True, logPlan=shown)
    assert list(one.pushFilters([EqualTo(("key",), ""), IsNull(("sender",))])) == [IsNull(("sender",))]
    one.partitions()
    [record] = caplog.records
    assert record.levelno == (logging.WARNING if shown else logging.INFO)
    told = record.getMessage()
    assert f"plan: {path.stat().st_size} bytes of 1 recordings, the first {path}, in 1 tasks" in told
    assert "channels=('a',); taken from Spark: EqualTo" in told
    assert "left to Spark: IsNull" in told


# Push-down.

PUSHABLE: list[tuple[Filter, Any]] = [
    (EqualTo(("channel",), "a"), lambda row: row.channel == "a"),
    (In(("channel",), ["a", "weather"]), lambda row: row.channel in ("a", "weather")),  # type: ignore[arg-type]  # Spark 4.3 gives a list
    (StringStartsWith(("key",), "we"), lambda row: row.key.startswith("we")),
    (EqualTo(("key",), ""), lambda row: row.key == ""),
    (EqualTo(("sender",), str(PEER)), lambda row: row.sender == str(PEER)),
    (In(("sender",), (str(OTHER), str(OURS))), lambda row: row.sender in (str(OTHER), str(OURS))),
    (IsNotNull(("channel",)), lambda row: True),
    (IsNotNull(("received_at",)), lambda row: True),
    *[
        (kind(("received_at",), datetime(2026, 11, 21, 12, tzinfo=UTC)), compare)
        for kind, compare in (
            (EqualTo, lambda row: row.received_at == NOON // 1000),
            (GreaterThan, lambda row: row.received_at > NOON // 1000),
            (GreaterThanOrEqual, lambda row: row.received_at >= NOON // 1000),
            (LessThan, lambda row: row.received_at < NOON // 1000),
            (LessThanOrEqual, lambda row: row.received_at <= NOON // 1000),
        )
    ],
]
LEFT: list[Filter] = [
    EqualTo(("message_id",), 1),
    EqualTo(("channel", "deeper"), "a"),
    EqualTo(("channel",), None),
    In(("channel",), ("a", None)),
    Not(EqualTo(("channel",), "a")),
    StringContains(("channel",), "a"),
    StringStartsWith(("sender",), "0"),
    IsNull(("sender",)),
    IsNotNull(("sender",)),
    IsNotNull(("message_id",)),
    EqualTo(("received_at",), datetime(2026, 11, 21, 12)),
    In(("received_at",), (datetime(2026, 11, 21, 12, tzinfo=UTC),)),
]


def check_pushed(path: Path, chosen: Sequence[tuple[Filter, Any]], kept: Sequence[Filter]) -> None:
    one = reader(str(path), includeMetadata=True, direction="both", filterPushdown=True)
    assert isinstance(one, PushdownReader)
    rest = one.pushFilters([*(condition for condition, _ in chosen), *kept])
    assert list(map(id, rest)) == list(map(id, kept))
    expected = [row for row in rows_of(path) if all(holds(row) for _, holds in chosen)]
    assert table(one) == values(expected, list(ALL))


@pytest.mark.parametrize("condition", PUSHABLE, ids=lambda one: type(one[0]).__name__)
def test_each_pushed_filter(tmp_path: Path, condition: tuple[Filter, Any]) -> None:
    check_pushed(grid(tmp_path / "a.rec"), [condition], LEFT)


@settings(max_examples=settings().max_examples // 2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    blocks=blocks,
    chosen=st.lists(st.integers(0, len(PUSHABLE) - 1), max_size=3),
    left=st.sets(st.integers(0, len(LEFT) - 1)),
)
def test_pushed_filters_drop_what_spark_would(
    tmp_path: Path, blocks: list[bytes], chosen: list[int], left: set[int]
) -> None:
    path = write(tmp_path / "a.rec", blocks)
    check_pushed(path, [PUSHABLE[number] for number in chosen], [LEFT[number] for number in left])


def test_without_the_option_nothing_is_pushed() -> None:
    """Spark refuses a reader that overrides it while its own switch is off, as it is by default."""
    from pyspark.sql.datasource import DataSourceReader

    assert type(reader("x")).pushFilters is DataSourceReader.pushFilters


# partition_batches.


def arrow(values: Sequence[bytes | None], name: str = "content", **more: Sequence[Any]) -> list[Any]:
    return [pa.RecordBatch.from_pydict({name: pa.array(values, pa.binary()), **more})]


def rows(found: Any) -> list[tuple[Any, ...]]:
    return [row for batch in found for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]


@settings(max_examples=settings().max_examples // 2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(blocks=blocks, columns=st.lists(st.sampled_from(list(OF_MESSAGES)), min_size=1, unique=True))
def test_whole_recordings_as_values(tmp_path: Path, blocks: list[bytes], columns: list[str]) -> None:
    path = write(tmp_path / "a.rec", blocks)
    messages = pickle.loads(pickle.dumps(partition_batches(columns, direction="both")))
    content = path.read_bytes()
    assert rows(messages(arrow([content, None, content]))) == 2 * values(list(rows_of(path)), columns)


@given(st.lists(traffic(Revision.DRAFT_1)))
def test_bare_frames_as_values(listed: list[Any]) -> None:
    data = b"".join(encode(frame, Revision.DRAFT_1) for frame in listed)
    expected = [
        (one.channel, one.key, one.body, one.message_id, one.reliable) for one in listed if isinstance(one, Message)
    ]
    messages = partition_batches(of="frames", revision=1, content="raw")
    assert messages.schema == ddl(OF_FRAMES)
    assert rows(messages(arrow([data, b""], "raw"))) == expected


def test_a_value_that_is_malformed_is_named_after_its_file() -> None:
    data = encode(Message("a", "", b"", 1))
    cases: list[tuple[Content, bytes, int]] = [
        ("frames", data + b"\x07", 18),
        ("recording", encode_block(header(), b"\x07"), 72),
    ]
    for of, value, offset in cases:
        with pytest.raises(DamagedRecording, match=f"s3a://b/x: byte {offset}: no frame begins with the byte 7"):
            rows(partition_batches(of=of)(arrow([value], path=["s3a://b/x"])))
        assert len(rows(partition_batches(of=of, mode="dropmalformed")(arrow([value])))) == (of == "frames")


@pytest.mark.parametrize("value", [b"PAR1", b"hello, " * 100, b"\0", b"\0" * 72, b"TLVX"], ids=repr)
def test_a_value_that_is_no_recording_is_refused(value: bytes) -> None:
    """Also where it is shorter than the first header of one, and would be a torn end of nothing."""
    good = block([Message("a", "", b"", 1)])
    messages = partition_batches()
    with pytest.raises(DamagedRecording, match="s3a://b/x: byte 0: is no recording: it begins with "):
        rows(messages(arrow([good, value], path=["s3a://b/y", "s3a://b/x"])))
    for each in (partition_events, partition_connections):
        with pytest.raises(DamagedRecording, match="recording 1 of the partition: byte 0: is no recording: it begins"):
            list(each([good, value]))
    assert len(rows(partition_batches(mode="dropmalformed")(arrow([value, good])))) == 1


@pytest.mark.parametrize("size", [0, 1, 3, 4, 71])
def test_the_beginning_of_a_recording_is_a_torn_end(size: int) -> None:
    value = block([Message("a", "", b"", 1)])[:size]
    assert rows(partition_batches()(arrow([value]))) == []
    assert list(partition_events([value])) == list(partition_connections([value])) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"of": "bytes"}, "'recording' and 'frames'"),
        ({"revision": 99}, "99"),
        ({"columns": ["topic"]}, "no column topic"),
        ({"columns": ["file"]}, "no column file"),
        ({"columns": ["sender"], "of": "frames"}, "no column sender"),
        ({"peers": "x"}, "give the UUID"),
        ({"path": "x"}, "has no option 'path'"),
        ({"minPartitions": 2}, "has no option 'minPartitions'"),
        ({"timeFrom": "2026-01-01", "of": "frames"}, "channels, channelPattern, keys, mode, rowsPerBatch"),
    ],
)
def test_partition_batches_refuses_what_makes_no_sense(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        partition_batches(**arguments)
