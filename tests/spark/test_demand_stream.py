"""Stream reader of elements, called as Spark calls it, without one."""

from __future__ import annotations

import itertools
import json
import pickle
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from tolliver.blocking import Streams
from tolliver.spark import lag
from tolliver.spark.demand._options import BATCH
from tolliver.spark.demand._stager import DemandStager
from tolliver.spark.demand._stream import STREAM, DemandStreamReader, demand_stream
from tolliver.spark.demand_source import DemandSource
from tolliver.staging import UnknownStage

from tests.certificates import Certificates
from tests.spark.publishers import asking, few, publishing
from tests.spark.receivers import wait_for
from tests.spark.test_demand import ALL, PLAIN, schema
from tolliver_proto.reactive import StreamError

STREAMED = {name: text for name, text in PLAIN.items() if name != "untilComplete"} | {"stagingDir": "stage"}


class Query:
    """Spark's use of a reader, from a checkpoint on."""

    def __init__(self, options: dict[str, str], columns: Any = ALL) -> None:
        self.reader = DemandSource(CaseInsensitiveDict(options)).streamReader(columns)
        self.worker: DemandStreamReader = pickle.loads(pickle.dumps(self.reader))
        self.rows: list[dict[str, Any]] = []
        self.at = self.reader.initialOffset()

    @property
    def stager(self) -> DemandStager:
        found: DemandStager = self.reader._log._stager  # type: ignore[attr-defined]
        return found

    def step(self, limit: ReadLimit | None = None) -> int:
        """A batch; how many rows it has."""
        before, known = json.loads(json.dumps(self.at)), len(self.rows)
        self.at = self.reader.latestOffset(before, limit or self.reader.getDefaultReadLimit())
        for partition in self.reader.partitions(before, self.at):
            for batch in self.worker.read(pickle.loads(pickle.dumps(partition))):
                self.rows += batch.to_pylist()
        return len(self.rows) - known

    def until(self, done: Callable[[], object]) -> None:
        def stepped() -> object:
            self.step()
            return done()

        wait_for(stepped)

    def of(self, name: str) -> list[bytes]:
        return [row["element"] for row in self.rows if row["publisher"] == name]


@contextmanager
def streaming(
    certs: Certificates, publisher: Streams, directory: Path, names: str, columns: Any = ALL, **options: Any
) -> Iterator[Query]:
    query = Query(asking(certs, publisher, names, stagingDir=directory, **options), columns)
    try:
        yield query
    finally:
        query.stager.close()


def test_what_publishers_give_becomes_rows_and_goes_from_the_stage(certs: Certificates, tmp_path: Path) -> None:
    """More than the stage holds, so it is deleted as it is read."""
    body = bytes(500)
    with (
        publishing(certs, endless=lambda _name: itertools.repeat(body), few=few(300)) as publisher,
        streaming(
            certs, publisher, tmp_path / "stage", "endless,few", maxStagedBytes=2**17, maxElementBytes=500, window=32
        ) as query,
    ):
        query.until(lambda: len(query.rows) > 800)
        assert query.of("few") == few(300)
        assert set(query.of("endless")) == {body}
        assert [ledger.most for ledger in publisher.ledgers] == [32, 32]
        progress = {"sources": [{"latestOffset": query.reader.reportLatestOffset(), "endOffset": query.at}]}
        assert lag(progress)[0] >= 0


def in_turn() -> Callable[[str], Iterator[bytes]]:
    """A source whose subscribers share out the numbers."""
    counter = itertools.count()
    return lambda _name: (b"%d" % number for number in counter)


def test_it_goes_on_where_it_was(certs: Certificates, tmp_path: Path) -> None:
    counter = in_turn()
    with publishing(certs, shared=lambda name: itertools.islice(counter(name), 200)) as publisher:
        with streaming(certs, publisher, tmp_path, "shared", maxRowsPerTrigger=50) as query:
            query.until(lambda: query.rows)
            wait_for(lambda: query.stager.stats()["completed"] and not query.stager.stats()["out"])
            place, rows = query.at, list(query.rows)
        with streaming(certs, publisher, tmp_path, "shared") as query:
            query.at, query.rows = place, rows
            query.until(lambda: len(query.rows) == 400)
            assert query.of("shared") == few(400)


def test_a_stage_that_somebody_else_fills_is_read(certs: Certificates, tmp_path: Path) -> None:
    stage = tmp_path / "stage"
    options = demand_stream(asking(certs, 1, "few", stagingDir=stage)).stage
    assert options is not None
    with publishing(certs, few=few(300)) as publisher:
        remote = options.streams.remote(f"127.0.0.1:{publisher.port}")
        with DemandStager(evolve(options, remote=remote)) as stager:
            query = Query({"stagingDir": str(stage), "staging": "external", "maxRowsPerTrigger": "100"})
            query.until(lambda: len(query.rows) == 300)
            assert query.of("few") == few(300)
            assert stager.stats()["subscriptions"] == len(publisher.ledgers) == 1
    with pytest.raises(UnknownStage):
        Query({"stagingDir": str(tmp_path / "other"), "staging": "external"})


def test_available_now_ends_and_one_that_begins_with_the_latest_has_what_comes(
    certs: Certificates, tmp_path: Path
) -> None:
    small = {"window": 16, "maxStagedBytes": 2**17, "maxElementBytes": 100}
    with publishing(certs, shared=in_turn()) as publisher:
        with streaming(certs, publisher, tmp_path, "shared", **small) as query:
            wait_for(lambda: query.stager.stats()["staged"] > 100)
            query.reader.prepareForTriggerAvailableNow()
            while query.step(ReadAllAvailable()):
                pass
            end = len(query.rows)
            assert query.of("shared") == few(end)
        more = {"startingOffsets": "latest", **small}
        with streaming(certs, publisher, tmp_path, "shared", schema("element"), **more) as query:
            query.until(lambda: len(query.rows) > 20)
            assert list(query.rows[0]) == ["element"]
            assert all(int(row["element"]) >= end for row in query.rows)


def test_inline_parts_carry_the_elements(certs: Certificates, tmp_path: Path) -> None:
    with (
        publishing(certs, few=few(100)) as publisher,
        streaming(certs, publisher, tmp_path, "few", staging="inline") as query,
    ):
        query.until(lambda: len(query.rows) == 100)
        assert query.of("few") == few(100)


def test_a_publisher_that_refuses_fails_the_query(certs: Certificates, tmp_path: Path) -> None:
    with publishing(certs) as publisher, streaming(certs, publisher, tmp_path, "moons") as query:
        wait_for(lambda: query.stager.failure)
        with pytest.raises(StreamError, match="nothing is published here as 'moons'"):
            query.step()


def test_making_a_reader_opens_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "stage"
    DemandSource(STREAMED | {"stagingDir": str(directory)}).streamReader(ALL)
    assert not directory.exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"stagingDir": None}, "needs the option stagingDir"),
        ({"publishers": None}, "needs the option publishers"),
        ({"publishers": "a,tolliver"}, "'tolliver' cannot be staged"),
        ({"staging": "far"}, "give shared, external or inline"),
        ({"staging": "external"}, "the option connect is for whoever subscribes"),
        ({"staging": "external", "connect": None}, "the option plaintext is for whoever subscribes"),
        (
            {"staging": "external", "connect": None, "plaintext": None},
            "the option publishers is for whoever subscribes",
        ),
        ({"deadline": "5"}, "has no option 'deadline': it ends a batch, and a stream does not end"),
        ({"maxStagedBytes": "1"}, "the option maxStagedBytes is '1': give a whole number of bytes from 2 on"),
        ({"maxStagedBytes": "1000"}, "maxStagedBytes is 1000, and an element of each publisher may take"),
        ({"syncInterval": "x"}, "syncInterval"),
        ({"channels": "a"}, "no option 'channels'"),
        ({"startingOffsets": "now"}, "give earliest, latest, a time"),
    ],
)
def test_what_is_wrong_is_said_on_the_driver(options: dict[str, str | None], says: str) -> None:
    asked = {name: text for name, text in (STREAMED | options).items() if text is not None}
    with pytest.raises(ValueError, match=says):
        DemandSource(asked).streamReader(ALL)


def test_every_option_has_a_row() -> None:
    page = (Path(__file__).parents[2] / "docs" / "spark-demand.md").read_text()
    batch, stream = (
        re.findall(rf"^\| {title} \|.*\n\|[-|]+\n((?:\|.*\n)+)", page, re.MULTILINE)[0]
        for title in ("option", "stream option")
    )
    for table, known in ((batch, BATCH), (stream, STREAM)):
        cells = [line.split("|")[1] for line in table.splitlines()]
        assert {name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)} == {*known}


def test_options_reach_who_they_are_for() -> None:
    more = {
        "window": "7",
        "maxElementBytes": "100",
        "peer": "01890000-0000-7000-8000-000000000001",
        "maxStagedBytes": "100000",
        "syncBytes": "5",
        "syncInterval": "20",
        "minRowsPerTrigger": "5",
        "maxTriggerDelay": "3",
        "consumer": "job",
        "maxRowsPerTrigger": "10",
        "maxBytesPerTrigger": "1000",
        "failOnDataLoss": "false",
        "deleteConsumed": "false",
        "minPartitions": "3",
        "rowsPerBatch": "50",
        "staging": "inline",
        "startingOffsets": "latest",
    }
    assert {*STREAMED, *more} == STREAM.keys() - {"tls.cert", "tls.key", "tls.ca"}
    made = demand_stream(CaseInsensitiveDict(STREAMED | more))
    stage, stream = made.stage, made.stream
    assert stage is not None
    assert (stage.window, stage.streams.limits.max_element, stage.remote.port) == (7, 100, 7012)
    assert str(stage.remote.identity) == more["peer"]
    assert (stage.folder.max_staged_bytes, stage.folder.sync_bytes, stage.folder.sync_interval) == (100_000, 5, 0.02)
    assert (stream.max_rows, stream.max_bytes, stream.fail_on_data_loss, stream.start) == (10, 1000, False, "latest")
    assert (stream.min_rows, stream.max_delay) == (5, 3.0)
    assert (stream.read.min_partitions, stream.read.rows_per_batch) == (3, 50)
    assert stream.live is not None
    assert (stream.live.delete_consumed, stream.live.consumer) == (False, "job")
