"""Options of all formats of Spark: one form, the same refusals."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'tolliver-proto[spark]'")

from tolliver.spark._options import KAFKA, MOST, Table, parse
from tolliver.spark.demand._options import BATCH
from tolliver.spark.demand._stream import STREAM
from tolliver.spark.read._options import OPTIONS as READING
from tolliver.spark.stream._options import FILES_OPTIONS, LIVE_OPTIONS
from tolliver.spark.write._options import OPTIONS as SINK

TABLES: dict[str, Table] = {
    "reading": READING,
    "recordings": FILES_OPTIONS,
    "live": LIVE_OPTIONS,
    "sink": SINK,
    "batch": BATCH,
    "stream": STREAM,
}
NUMBERS = ("rowsPerBatch", "minPartitions", "maxRowsPerTrigger", "maxBytesPerTrigger", "window", "rowsPerSend")
FLAGS = ("includeMetadata", "failOnDataLoss", "plaintext", "reliable", "untilComplete")


def forms(table: Table, names: tuple[str, ...]) -> list[str]:
    found = [name for name in names if name in table]
    assert found
    return found


@pytest.mark.parametrize("kind", TABLES)
def test_numbers_and_flags_are_read_alike(kind: str) -> None:
    table = TABLES[kind]

    def value(name: str, text: str) -> Any:
        return parse({name.upper(): text}, table, kind)[table[name].field]

    for name in forms(table, NUMBERS):
        assert [value(name, text) for text in ("7", " 7\n", str(MOST))] == [7, 7, MOST]
        for text in ("", "0", "-1", "+7", "1_000", "1e3", "7.0", "\u0667", str(MOST + 1), "9" * 5000):
            with pytest.raises(ValueError, match=rf"^the option {name} is '.*: give a whole number.* from 1 on$"):
                value(name, text)
    for name in forms(table, FLAGS):
        assert [value(name, text) for text in ("true", " False ")] == [True, False]
        with pytest.raises(ValueError, match=f"^the option {name} is 'yes': give true or false$"):
            value(name, "yes")


@pytest.mark.parametrize("kind", TABLES)
def test_an_option_without_a_value_is_refused(kind: str) -> None:
    """Such as one from a variable that is not set: it would mean all channels, or all keys."""
    for name, text in product(TABLES[kind], ("", " ")):
        with pytest.raises(ValueError, match=rf"^the option {re.escape(name)} is {text!r}: .*give "):
            parse({name: text}, TABLES[kind], kind)


@pytest.mark.parametrize("kind", TABLES)
def test_an_unknown_option_is_told_with_those_that_there_are(kind: str) -> None:
    with pytest.raises(ValueError, match=rf"^{kind} has no option 'Tipoc': it knows {', '.join(TABLES[kind])}$"):
        parse({"Tipoc": "a"}, TABLES[kind], kind)
    assert parse({"checkpointLocation": "x", "queryname": "y"}, TABLES[kind], kind) == {}, "these are Spark's own"


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("theirs", [*KAFKA, "kafka.ssl.keystore.location", "kafka.acks", "SUBSCRIBE"])
def test_options_of_kafka_are_answered_with_ours(kind: str, theirs: str) -> None:
    table = TABLES[kind]
    if theirs in table:
        return
    with pytest.raises(
        ValueError, match=rf"^{kind} has no option {re.escape(repr(theirs))}: that is Kafka's; "
    ) as told:
        parse({theirs: "a"}, table, kind)
    advice = str(told.value).partition("; ")[2]
    if advice.startswith("give "):
        assert {*advice.removeprefix("give ").split(" or ")} <= {*table}
    else:
        assert advice.endswith("leave it out") or "column" in advice or "load()" in advice


def test_some_options_of_kafka_and_ours() -> None:
    for theirs, kind, ours in (
        ("subscribe", "live", "give channels"),
        ("subscribePattern", "reading", "give channelPattern"),
        ("subscribe", "stream", "give publishers"),
        ("topic", "sink", "each row has its channel in a column of this name"),
        ("maxOffsetsPerTrigger", "live", "give maxRowsPerTrigger"),
        ("startingTimestamp", "live", "give startingOffsets or timeFrom"),
        ("startingTimestamp", "reading", "give timeFrom"),
        ("kafka.bootstrap.servers", "live", "give listen or connect"),
        ("kafka.bootstrap.servers", "sink", "give connect"),
        ("kafka.ssl.truststore.location", "sink", "give tls.cert or tls.key or tls.ca"),
        ("kafka.max.poll.records", "live", "there is no broker to ask, leave it out"),
    ):
        with pytest.raises(ValueError, match=f"that is Kafka's; {ours}$"):
            parse({theirs: "a"}, TABLES[kind], kind)


def test_paths_and_names_stay_as_they_are() -> None:
    assert parse({"path": " a ", "channels": " a , b "}, READING, "") == {"paths": (" a ",), "channels": ("a", "b")}
    assert parse({"writeId": " a ", "tls.cert": "a "}, SINK, "") == {"write_id": " a ", "cert": "a "}
    for name in ("writeId", "idColumn", "tls.key"):
        with pytest.raises(ValueError, match=f"the option {name} is ' ': give "):
            parse({name: " "}, SINK, "")
