"""Options, offsets and lag of a stream; without a Spark."""

from __future__ import annotations

import json
import pickle
import re
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'tolliver-proto[spark]'")

from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows
from pyspark.sql.streaming.listener import QueryProgressEvent, StreamingQueryProgress
from pyspark.sql.types import StructType
from tolliver._options.instance import TLS, Remote
from tolliver.spark import lag
from tolliver.spark.read._options import Mode
from tolliver.spark.source import TolliverSource
from tolliver.spark.stream._offsets import (
    At,
    Place,
    StreamLost,
    files_offset,
    place_offset,
    read_files,
    read_place,
)
from tolliver.spark.stream._options import INLINE_BYTES, Begin, Staging, StreamOptions, stream_options
from tolliver.spark.stream._reader import StreamReader

ROOT = Path(__file__).parents[2]
LIVE = {"listen": "127.0.0.1:7011", "plaintext": "true", "stagingDir": "/stage"}
OUTSIDE = {"staging": "external", "stagingDir": "/stage"}
STAGE = UUID("01890000-0000-4000-8000-000000000009")
COUNTS = st.integers(0, 2**63 - 1)


def options(given: dict[str, str]) -> StreamOptions:
    return stream_options(CaseInsensitiveDict(given))


def test_all_options_of_a_live_stream_in_any_case() -> None:
    made = options(
        {
            "LISTEN": "0.0.0.0:7012",
            "connect": "a.example, b.example:5",
            "tls.cert": "bob.pem",
            "TLS.KEY": "bob.key",
            "tls.ca": "ca.pem",
            "StagingDir": "file:///mnt/a%20stage",
            "staging": "Inline",
            "channels": "readings,alarms",
            "keys": "cpu*",
            "startingoffsets": "LATEST",
            "minRowsPerTrigger": "10",
            "maxTriggerDelay": "2.5",
            "channelPattern": "sensors[.].*",
            "maxRowsPerTrigger": "1000",
            "maxBytesPerTrigger": "2000000",
            "failOnDataLoss": "false",
            "maxStagedBytes": "10000000000",
            "syncBytes": "65536",
            "syncInterval": "5",
            "unreliable": "drop",
            "dedupe": "0",
            "record": "file:///mnt/seen",
            "deleteConsumed": "false",
            "consumer": "nightly_job-2",
            "includeMetadata": "true",
            "rowsPerBatch": "500",
            "minPartitions": "4",
            "mode": "dropmalformed",
        }
    )
    live, read = made.live, made.read
    assert live is not None
    assert live.listen == ("0.0.0.0", 7012)
    assert live.remotes == (Remote("a.example"), Remote("b.example", 5))
    assert live.tls == TLS("bob.pem", "bob.key", "ca.pem")
    assert (live.directory, live.staging, live.delete_consumed) == (Path("/mnt/a stage"), Staging.INLINE, False)
    assert (live.max_staged_bytes, live.sync_bytes, live.sync_interval) == (10**10, 65536, 0.005)
    assert (live.unreliable, live.dedupe, live.record) == ("drop", 0, Path("/mnt/seen"))
    assert live.consumer == "nightly_job-2"
    assert (made.start, made.max_rows, made.max_bytes) == (Begin.LATEST, 1000, 2_000_000)
    assert (made.min_rows, made.max_delay, made.fail_on_data_loss) == (10, 2.5, False)
    assert read.channel_pattern == "sensors[.].*"
    assert (read.channels, read.keys, read.mode) == (("readings", "alarms"), ("cpu*",), Mode.DROPMALFORMED)
    assert (read.include_metadata, read.rows_per_batch, read.min_partitions) == (True, 500, 4)
    assert pickle.loads(pickle.dumps(made)) == made


def test_what_is_not_given() -> None:
    made = options(LIVE)
    assert made.live is not None
    assert (made.live.staging, made.live.delete_consumed, made.live.tls) == (Staging.SHARED, True, None)
    assert (made.live.unreliable, made.live.max_staged_bytes, made.live.dedupe) == (None, None, None)
    assert made.live.record is None
    assert (made.start, made.max_rows, made.max_bytes, made.fail_on_data_loss) == (Begin.EARLIEST, None, None, True)
    assert (made.min_rows, made.max_delay) == (None, 900.0)
    assert options(LIVE | {"staging": "inline"}).max_bytes == INLINE_BYTES


@pytest.mark.parametrize("given", [{"path": "/r"}, {"path": "/r", "mode": "files"}, {"path": "/r", "MODE": "failfast"}])
def test_a_path_is_a_stream_of_recordings(given: dict[str, str]) -> None:
    made = options(given)
    assert (made.live, made.read.paths, made.read.mode) == (None, ("/r",), Mode.FAILFAST)
    assert options(given | {"mode": "dropmalformed", "direction": "both"}).read.direction is None


REFUSED = {
    "nothing": ({}, "there is nothing to read: give listen or connect"),
    "a folder for what comes": ({"listen": "127.0.0.1", "plaintext": "true"}, "stagingDir"),
    "nobody to hear": ({"stagingDir": "/stage"}, "nobody would send anything: give listen or connect"),
    "mode=files without a path": ({"mode": "files"}, "call load() with a directory"),
    "recordings and peers": (LIVE | {"path": "/r"}, "a path reads recordings, and stagingDir receives"),
    "recordings and a stage": ({"mode": "files"} | OUTSIDE, "mode=files reads recordings, and stagingDir"),
    "unknown": (
        LIVE | {"tipoc": "a"},
        "a live stream of format(\"tolliver\") has no option 'tipoc': it knows stagingDir, ",
    ),
    "of live streams": ({"path": "/r", "deleteConsumed": "true"}, "a path reads recordings, and deleteConsumed"),
    "of recordings": (LIVE | {"direction": "both"}, "has no option 'direction'"),
    "of reading at rest": (LIVE | {"truncatedTail": "error"}, "a stream waits for the rest of a block"),
    "of files": (LIVE | {"recursiveFileLookup": "true"}, "has no option 'recursivefilelookup'"),
    "push-down": ({"path": "/r", "filterPushdown": "true"}, "Spark pushes no filters into streams"),
    "two receivers": (OUTSIDE | {"listen": "127.0.0.1"}, "option listen is for whoever receives"),
    "the service's own": (OUTSIDE | {"maxStagedBytes": "2"}, "option maxStagedBytes is for whoever receives"),
    "no security": ({"listen": "127.0.0.1", "stagingDir": "/stage"}, "has neither of plaintext=true and a cert"),
    "two kinds of it": (LIVE | dict.fromkeys(("tls.cert", "tls.key", "tls.ca"), "x"), "has both of plaintext"),
    "half of it": (LIVE | {"tls.cert": "x"}, "some are missing: give the paths of all three"),
    "plaintext abroad": (LIVE | {"listen": "0.0.0.0:1"}, "plaintext with 0.0.0.0:1 would leave this machine"),
    "plaintext from abroad": (LIVE | {"connect": "example.org"}, "plaintext with example.org:7011 would leave"),
    "a wrong port": (LIVE | {"listen": "127.0.0.1:x"}, "option listen is '127.0.0.1:x': the port of"),
    "a wrong remote": (LIVE | {"connect": "a,,b"}, "option connect is 'a,,b': "),
    "a wrong staging": (LIVE | {"staging": "kafka"}, "option staging is 'kafka': give shared, external or inline"),
    "a wrong start": (LIVE | {"startingOffsets": "5"}, "give earliest, latest, a time such as 2026-"),
    "a start of Kafka": (LIVE | {"startingOffsets": '{"topic": {"0": 5}}'}, "or an offset of such a stream, as JSON"),
    "a start in files": (LIVE | {"startingOffsets": '{"v": 2, "files": {}}'}, "or an offset of such a stream"),
    "a start of no JSON": (LIVE | {"startingOffsets": "{"}, "or an offset of such a stream"),
    "a start that is a list": ({"path": "/r", "startingOffsets": "[]"}, "give earliest, latest, or an offset of such"),
    "a start in time, of files": ({"path": "/r", "startingOffsets": "2026-11-21"}, "give earliest, latest, or an off"),
    "an end": (LIVE | {"endingOffsets": "latest"}, "a stream has no end; Trigger.AvailableNow ends with what is"),
    "an end in time": ({"path": "/r", "endingTimestamp": "1"}, "a stream has no end; Trigger.AvailableNow ends"),
    "no least of rows": (LIVE | {"minRowsPerTrigger": "0"}, "give a whole number from 1 on"),
    "more than the most": (
        LIVE | {"minRowsPerTrigger": "6", "maxRowsPerTrigger": "5"},
        "takes no more than 5: give less",
    ),
    "no delay": (LIVE | {"minRowsPerTrigger": "6", "maxTriggerDelay": "5m"}, "give a positive number of seconds"),
    "a delay of nothing": (LIVE | {"maxTriggerDelay": "5"}, "is how long minRowsPerTrigger may wait: give that too"),
    "least rows of files": ({"path": "/r", "minRowsPerTrigger": "5"}, "a path reads recordings, and minRowsPerTrigger"),
    "a consumer elsewhere": (LIVE | {"consumer": "../a"}, "option consumer is '../a': give a name of at most 100 of"),
    "a consumer with a suffix": (OUTSIDE | {"consumer": "a.new"}, "option consumer is 'a.new': give a name of at most"),
    "a long consumer": (OUTSIDE | {"consumer": 101 * "a"}, "give a name of at most 100 of the letters"),
    "a consumer of files": ({"path": "/r", "consumer": "a"}, "a path reads recordings, and consumer receives"),
    "a wrong pattern": (LIVE | {"channelPattern": "a)|(b"}, "give a regular expression (RE2) of whole names"),
    "no rows": (LIVE | {"maxRowsPerTrigger": "0"}, "give a whole number from 1 on"),
    "no room for a second segment": (
        LIVE | {"maxStagedBytes": "1"},
        "the option maxStagedBytes is '1': give a whole number of bytes from 2 on",
    ),
    "a unit": (LIVE | {"maxBytesPerTrigger": "1m"}, "give a whole number of bytes"),
    "too much for the driver": (
        LIVE | {"staging": "inline", "maxBytesPerTrigger": str(2**28)},
        "staging=inline sends that through the driver: 134217728 is the most",
    ),
    "a stage elsewhere": (LIVE | {"stagingDir": "s3://bucket/stage"}, "only files that every machine has mounted"),
    "an empty folder": (LIVE | {"stagingDir": " "}, "give a directory"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    given, told = REFUSED[case]
    with pytest.raises(ValueError, match=re.escape(told)):
        options(given)


def test_the_columns_say_the_options_and_wrong_ones_are_told_at_once() -> None:
    assert "received_at" in TolliverSource(CaseInsensitiveDict(LIVE | {"includeMetadata": "true"})).schema()
    assert "received_at" not in TolliverSource(CaseInsensitiveDict({"path": "/r", "mode": "files"})).schema()
    with pytest.raises(ValueError, match="has no option 'tipoc'"):
        TolliverSource(CaseInsensitiveDict(LIVE | {"tipoc": "a"})).schema()
    source = TolliverSource(CaseInsensitiveDict(LIVE))
    with pytest.raises(ValueError, match="there is no column nonsense"):
        source.streamReader(StructType().add("nonsense", "string"))


def test_a_batch_has_no_offsets() -> None:
    source = TolliverSource(CaseInsensitiveDict({"path": "/r", "endingOffsets": "latest"}))
    with pytest.raises(ValueError, match="'endingoffsets': recordings have no offsets, give timeFrom and timeTo"):
        source.schema()


def test_a_start_as_a_checkpoint_has_it() -> None:
    for source, offset in ((LIVE, at(3)), ({"path": "/r"}, files_offset({"a.rec": At(5, 7)}))):
        assert options(source | {"startingOffsets": f" {json.dumps(offset)}"}).start == offset
    assert options(LIVE | {"startingOffsets": "1970-01-01T00:00:02Z"}).start == 2_000_000_000


def test_a_reader_opens_nothing_and_travels() -> None:
    """Spark makes it in processes that only plan, and sends it to the workers."""
    schema = StructType().add("body", "binary")
    source = TolliverSource(CaseInsensitiveDict(LIVE | {"stagingDir": "/nowhere/at/all"}))
    assert isinstance(pickle.loads(pickle.dumps(source.streamReader(schema))), StreamReader)


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"maxRowsPerTrigger": "5"}, ReadMaxRows(5)),
        ({"maxBytesPerTrigger": "6"}, ReadMaxBytes(6)),
        ({"maxRowsPerTrigger": "5", "maxBytesPerTrigger": "6"}, ReadMaxRows(5)),
        ({"staging": "inline"}, ReadMaxBytes(INLINE_BYTES)),
        ({"minRowsPerTrigger": "5"}, ReadMinRows(5)),
        ({"minRowsPerTrigger": "5", "maxRowsPerTrigger": "6"}, ReadMaxRows(6)),
    ],
)
def test_limits_as_spark_asks_for_them(given: dict[str, str], limit: object) -> None:
    reader = TolliverSource(CaseInsensitiveDict(LIVE | given)).streamReader(StructType().add("body", "binary"))
    assert reader.getDefaultReadLimit() == limit


# Offsets.


@given(st.builds(Place, st.uuids(), COUNTS, COUNTS, COUNTS, st.uuids(), st.none() | COUNTS))
def test_a_place_survives_the_checkpoint(place: Place) -> None:
    written = json.dumps(place_offset(place))
    assert read_place(json.loads(written)) == place
    assert json.dumps(place_offset(read_place(json.loads(written)))) == written


def test_a_place_of_an_earlier_version_is_read() -> None:
    """It does not say what stood before it."""
    assert read_place({"v": 1, "stage": str(STAGE), "segment": 1, "pos": 2, "frames": 3}) == Place(STAGE, 1, 2, 3)


@given(st.dictionaries(st.text(), st.builds(At, COUNTS, st.none() | COUNTS)))
def test_positions_in_files_survive_the_checkpoint(files: dict[str, At]) -> None:
    written = json.dumps(files_offset(files))
    assert read_files(json.loads(written)) == files
    assert json.dumps(files_offset(read_files(json.loads(written)))) == written


def test_positions_of_an_earlier_version_are_read() -> None:
    """It does not say which file it was."""
    assert read_files({"v": 1, "files": {"a.rec": 5}}) == {"a.rec": At(5)}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(
    st.one_of(
        JSON,
        st.fixed_dictionaries({"v": st.just(1), "stage": JSON, "segment": JSON, "pos": JSON, "frames": JSON}),
        st.fixed_dictionaries({"v": st.just(2), **dict.fromkeys(Place._fields, JSON | st.just(str(STAGE)) | COUNTS)}),
        st.fixed_dictionaries({"v": st.sampled_from([1, 2]), "files": JSON}),
        st.fixed_dictionaries({"v": st.just(2), "files": st.dictionaries(st.text(max_size=5), st.lists(JSON))}),
    )
)
def test_whatever_a_checkpoint_says_is_read_or_refused(found: Any) -> None:
    for read in (read_place, read_files):
        try:
            read(found)
        except StreamLost as error:
            assert "checkpoint" in str(error)  # noqa: PT017  # the text is the point


def test_offsets_of_others_are_refused_with_a_remedy() -> None:
    with pytest.raises(StreamLost, match="use the version that wrote it, or a new checkpointLocation"):
        read_place({"v": 3, "stage": str(STAGE)})
    with pytest.raises(StreamLost, match="is none of a live stream: the checkpointLocation is another query's"):
        read_place(files_offset({"a.rec": At(5)}))
    with pytest.raises(StreamLost, match="is none of a stream of files"):
        read_files(at(3))


# Lag.


def progress(*sources: dict[str, object]) -> dict[str, Any]:
    return {"sources": [{"description": "a", "startOffset": None, **source} for source in sources]}


def at(frames: int, stage: UUID = STAGE) -> dict[str, Any]:
    return place_offset(Place(stage, 1, 0, frames, STAGE, 0))


def test_lag_of_each_live_source() -> None:
    said = progress(
        {"latestOffset": at(50), "endOffset": at(20)},
        {"latestOffset": {"0": 7}, "endOffset": {"0": 5}},  # of another kind
        {"latestOffset": files_offset({"a": At(1)}), "endOffset": files_offset({})},
        {"latestOffset": at(8), "endOffset": at(1_000, UUID(int=5))},  # of a stage that was lost
        {"latestOffset": at(3), "endOffset": None},
        {"latestOffset": None, "endOffset": at(3)},
    )
    assert lag(said) == lag(json.dumps(said)) == [30, 8, 3]
    texts = {"sources": [{name: json.dumps(value) for name, value in source.items()} for source in said["sources"]]}
    assert lag(texts) == [30, 8, 3]
    assert lag(None) == []


def test_lag_of_what_spark_gives_and_its_gauge(monkeypatch: pytest.MonkeyPatch) -> None:
    common: dict[str, Any] = {
        "id": str(STAGE),
        "runId": str(STAGE),
        "name": None,
        "timestamp": "",
        "batchId": 1,
        "batchDuration": 1,
        "stateOperators": [],
        "sink": {"description": "", "numOutputRows": -1},
    }
    rates = {"numInputRows": 1, "inputRowsPerSecond": 1.0, "processedRowsPerSecond": 1.0}
    source = {"description": "a", "startOffset": None, "endOffset": at(4), "latestOffset": at(9), **rates}
    told = StreamingQueryProgress.fromJson(common | {"sources": [source]})
    assert lag(told) == [5]

    prometheus = pytest.importorskip("prometheus_client")
    registry = prometheus.CollectorRegistry()
    monkeypatch.setattr(prometheus, "Gauge", partial(prometheus.Gauge, registry=registry))
    page = (ROOT / "docs" / "spark-streams.md").read_text("utf-8")
    [program] = [text for text in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "Gauge(" in text]
    made: dict[str, Any] = {"__name__": "page"}
    exec(program, made)
    made["Lag"]().onQueryProgress(QueryProgressEvent(told))
    assert registry.get_sample_value("tolliver_lag_messages", {"query": str(STAGE), "source": "0"}) == 5
