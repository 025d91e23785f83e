"""Audit of stories whose end is known, and its report.

The browser must have nothing to complain about.

One audit hears all the stories of `stories`, and each test looks at what it says of one of them: in DuckDB, as the
command does. Spark must say the same of every table.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from rich.console import Console

from examples.demo.child import PUBLISHER, SUBSCRIBERS, TABLE
from examples.demo.log import read_lines
from examples.demo.spark_audit import audit_table, audit_with_spark

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'tolliver-proto[spark]'")
pytest.importorskip("duckdb", reason="DuckDB is not installed: pip install 'tolliver-proto[audit]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'tolliver-proto[audit]'")

from tolliver.spark.audit import TABLES, Audit, Curves, audit
from tolliver.spark.audit._audit import Tables
from tolliver.spark.audit._charts import decades, nice_steps
from tolliver.spark.audit._collect import Findings, Table, collect
from tolliver.spark.audit._duckdb import local_audit
from tolliver.spark.audit._facts import FACTS, KINDS, facts_of
from tolliver.spark.audit._files import items_of, names_of, ranges_of, recordings_in
from tolliver.spark.audit._report import render
from tolliver.spark.audit._tables import PERCENTILES

from tests.cli.commands import tolliver
from tests.spark.stories import HOSTILE, LAST_ID, LEFT_OUT, STORIES, tell_all
from tests.spark.witnesses import IN, START, Witness
from tolliver_proto import Ack, Decoder, Message, RemoteProtocolError, encode
from tolliver_proto.recording import Block, in_order, read_blocks

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome", "chromium-browser")
SECONDS = 60
DEMO = 120  # seconds
PAGE = Path(__file__).parents[2] / "docs" / "audit.md"
Row = dict[str, Any]


def ends(story: str) -> tuple[str, str]:
    number = 2 * (list(STORIES).index(story) + 1)
    return str(UUID(int=number)), str(UUID(int=number + 1))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("recordings")
    tell_all(directory, lambda number: number % 2 == 0)
    return directory


# Facts.


def facts_in(directory: Path) -> list[Row]:
    recordings = recordings_in([directory])
    return [
        row
        for values in ranges_of(recordings, 1).to_pylist()
        for batch in facts_of(items_of(values), values["number"])
        for row in batch.to_pylist()
    ]


def in_order_of_places(facts: list[Row]) -> list[Row]:
    """Those that could be read."""
    return sorted((row for row in facts if row["local"]), key=lambda row: (row["file"], row["ordinal"]))


def by_the_machine(block: Block) -> Iterator[tuple[Any, ...]]:
    """The decoder's reading, frame by frame."""
    decoder = Decoder(block.header.revision)
    decoder.feed(block.payload)
    try:
        while (frame := decoder.next_frame()) is not None:
            kind = KINDS.get(type(frame), "ack")
            size = len(frame.body) if isinstance(frame, Message) else None
            yield kind, *(getattr(frame, name, None) for name in ("message_id", "channel", "key")), size
    except RemoteProtocolError:
        yield "malformed", None, None, None, None


def test_facts_say_what_the_machine_reads(recorded: Path) -> None:
    found: dict[int, list[Row]] = {}
    for row in in_order_of_places(facts_in(recorded)):
        found.setdefault(row["file"], []).append(row)
    columns = ("local", "direction", "kind", "message_id", "channel", "key", "size")
    for recording in recordings_in([recorded]):
        items = in_order(read_blocks([Path(recording.path).read_bytes()]))
        blocks = [one for one in items if isinstance(one, Block)]
        expected = [
            ((str(block.header.local), block.header.direction.name.lower(), *frame), block.header.time_ns // 1000)
            for block in blocks
            for frame in by_the_machine(block)
        ]
        here = found.get(recording.file, [])
        assert [
            (tuple(row[name] for name in columns), round(row["time"].timestamp() * 10**6)) for row in here
        ] == expected


def test_a_fact_stands_where_its_offset_says(recorded: Path) -> None:
    paths = {one.file: one.path for one in recordings_in([recorded])}
    messages = [row for row in facts_in(recorded) if row["kind"] == "message"]
    assert len(messages) > 300
    for row in messages:
        data = Path(paths[row["file"]]).read_bytes()[row["offset"] :]
        assert data[0] == 3
        assert row["channel"].encode() + row["key"].encode() in data[:400]


def test_groups_are_the_same_facts_in_the_same_order_as_single_blocks(tmp_path: Path) -> None:
    """And all other tables are made of these. Only the first frames of a connection know more of their peer."""
    for groups in (False, True):
        tell_all(tmp_path / str(groups), lambda _number, groups=groups: groups)  # type: ignore[misc]  # mypy cannot infer the type of a lambda's default
    single, grouped = (in_order_of_places(facts_in(tmp_path / str(groups))) for groups in (False, True))
    assert len(single) == len(grouped) > 600
    for one, other in zip(single, grouped, strict=True):
        assert one["peer"] in (None, other["peer"])
        apart = ("offset", "ordinal", "peer")
        assert {name: one[name] for name in FACTS.names if name not in apart} == {
            name: other[name] for name in FACTS.names if name not in apart
        }
    for facts in (single, grouped):
        assert len({(row["file"], row["ordinal"]) for row in facts}) == len(facts)


def test_same_names_and_bodies_have_the_same_content_and_others_do_not(tmp_path: Path) -> None:
    witness = Witness(tmp_path, 1)
    frames = [
        Message("c", "k", b"1", 5),
        Message("c", "k", b"1", 6),
        Message("c", "k", b"2", 5),
        Message("ck", "", b"3", 5),
    ]
    witness.record(0, IN, UUID(int=2), 1, *frames)
    witness.end()
    contents = [row["content"] for row in facts_in(tmp_path)]
    assert contents[0] == contents[1]
    assert len(set(contents)) == 3


def test_what_cannot_be_read_is_a_fact(tmp_path: Path) -> None:
    witness = Witness(tmp_path, 1)
    witness.record(0, IN, UUID(int=2), 2**64 - 1, Message("c", "", b"", 1))
    witness.record(1, IN, UUID(int=2), 1, Message("c", "", b"", 2))
    witness.damage()
    witness.record(2, IN, UUID(int=2), 1, encode(Ack(7)), b"\x02\xff", encode(Ack(8)))
    witness.end()
    (path,) = tmp_path.glob("*.rec")
    path.write_bytes(path.read_bytes() + b"TLV")
    facts = sorted(facts_in(tmp_path), key=lambda row: row["offset"])
    kinds = [(row["kind"], row["message_id"]) for row in facts]
    assert kinds[:3] == [("message", 1), ("damaged", None), ("ack", 7)]
    assert kinds[-1] == ("torn", None)
    assert not recordings_in([tmp_path])[0].ended


def test_files_are_found_once_and_numbered_by_time(recorded: Path, tmp_path: Path) -> None:
    once = recordings_in([recorded])
    assert recordings_in([recorded, recorded, once[0].path]) == once
    assert [one.file for one in once] == list(range(len(once)))
    with pytest.raises(ValueError, match=r"no recordings .* in this directory"):
        recordings_in([tmp_path])
    with pytest.raises(FileNotFoundError):
        recordings_in([tmp_path / "gone.rec"])


def test_an_instance_is_called_after_a_directory_that_is_its_own(tmp_path: Path) -> None:
    for number, home in enumerate(("alice", "both", "both", "x/bob", "y/bob", "z"), 1):
        witness = Witness(tmp_path / home, number)
        witness.record(0, IN, None, 1, Ack(1))
        witness.end()
    named = names_of(recordings_in([tmp_path]))
    assert named == {str(UUID(int=1)): "alice", str(UUID(int=6)): "z"}
    empty = tmp_path / "empty.rec"
    empty.write_bytes(b"")
    assert recordings_in([empty])[0].local is None


# Tables.


@pytest.fixture(scope="module")
def told(recorded: Path) -> Iterator[Tables[str]]:
    """One audit of all stories."""
    with local_audit([recorded]) as found:
        yield found


@pytest.fixture(scope="module")
def findings(told: Tables[str]) -> Findings:
    return collect(told)


@pytest.fixture(scope="module")
def told_by_spark(recorded: Path, spark: Any) -> Iterator[Audit]:
    """Nothing of it is kept when it is closed."""

    def kept() -> int:
        return int(spark.sparkContext._jsc.getPersistentRDDs().size())

    before = kept()
    with audit(spark, [recorded]) as found:
        yield found
        assert kept() > before
    assert kept() == before


@pytest.mark.parametrize("table", TABLES)
def test_spark_says_the_same(told: Tables[str], told_by_spark: Audit, table: str) -> None:
    query = f"SELECT * FROM {{{table}}}"
    expected, found = (sorted(map(comparable, one.rows(query))) for one in (told, told_by_spark))
    assert len(found) > 1
    assert found == expected


def comparable(row: Row) -> str:
    """The row as a text, whatever a time and a whole number are in one engine and the other."""
    return repr([(name, value.timestamp() if isinstance(value, datetime) else value) for name, value in row.items()])


def of(story: str, table: Table, *columns: str) -> list[tuple[Any, ...]]:
    """The rows that this story's witnesses or flow made."""
    who = ends(story)
    return [
        tuple(row[name] for name in columns)
        for row in table.rows
        if row.get("local", row.get("sender", row.get("subscriber"))) in who
    ]


COUNTS = ("sent", "acknowledged", "delivered", "duplicates", "resent", "lost", "unproven", "pending", "unrecorded")
EXPECTED: dict[str, list[tuple[int | None, ...]]] = {
    "plain": [(100, 100, 100, 0, 0, 0, 0, 0, 0), (1, 1, 1, 0, 0, 0, 0, 0, 0)],
    "sent_again": [(3, 3, 3, 2, 2, 0, 0, 0, 0)],
    "overtaken": [(4, 3, 2, 0, 0, 2, 0, 0, 0)],
    "given_up": [(3, 2, 2, 0, 0, 1, 0, 0, 0)],
    "late_but_there": [(3, 3, 3, 0, 1, 0, 0, 0, 0)],
    "set_back": [(3, 2, 2, 0, 0, 0, 0, 1, 0)],
    "ten_openings": [(60, 37, 34, 0, 4, 25, 0, 1, 0)],
    "receiver_killed": [(3, 3, 2, 0, 0, 0, 1, 0, 0)],
    "killed_and_sent_again": [(3, 3, 2, 0, 1, 0, 1, 0, 0)],
    "recording_stopped": [(3, 3, 2, 0, 0, 0, 1, 0, 0)],
    "both_killed": [(3, 2, 2, 0, 0, 0, 0, 1, 0)],
    "sender_killed": [(2, 2, 3, 0, 0, 0, 0, 0, 1)],
    "ends_early": [(5, 4, 1, 0, 0, 0, 3, 1, 0)],
    "silent_receiver": [
        (100, 100, None, None, 0, None, None, None, None),
        (1, 1, None, None, 0, None, None, None, None),
    ],
    "silent_sender": [
        (None, None, 100, 0, None, None, None, None, None),
        (None, None, 1, 0, None, None, None, None, None),
    ],
    "damaged": [(3, 2, 2, 0, 0, 0, 0, 1, 0)],
    "wraps": [(4, 4, 4, 0, 0, 0, 0, 0, 0)],
    "gap": [(3, 3, 3, 0, 0, 0, 0, 0, 0)],
    "same_id": [(2, 2, 2, 0, 0, 0, 0, 0, 0)],
    "another_shape": [(6, 6, 6, 1, 1, 0, 0, 0, 0)],
    "first_draft": [(1, 1, 1, 0, 0, 0, 0, 0, 0)],
    "refused": [],
    "hostile": [(1, 1, 1, 0, 0, 0, 0, 0, 0)],
}


def test_every_story_has_an_end() -> None:
    assert set(EXPECTED) == set(STORIES)


@pytest.mark.parametrize("story", STORIES)
def test_what_became_of_the_messages(findings: Findings, story: str) -> None:
    assert of(story, findings.deliveries, *COUNTS) == EXPECTED[story]


def test_the_sum_is_what_is_lost_and_comes_first(told: Tables[str], findings: Findings) -> None:
    assert told.lost == 28
    assert [row["lost"] for row in findings.deliveries.rows[:3]] == [25, 2, 1]
    assert told.by_receiver()["overtaken-1"]["lost"] == 2


def test_each_loss_is_proven_whatever_ids_its_opening_had(told: Tables[str]) -> None:
    """T-40."""
    sender, _ = ends("ten_openings")
    lost = told.rows(f"SELECT message_id FROM {{messages}} WHERE sender = '{sender}' AND fate = 'lost'")
    assert {row["message_id"] for row in lost} == LEFT_OUT


def test_latency_is_the_senders_first_sending_to_its_first_ack(findings: Findings) -> None:
    (channel, _) = of("plain", findings.deliveries, "p50", "p95", "p99", "max")
    assert channel == (0.003, 0.003, 0.003, 0.5)
    assert of("sent_again", findings.deliveries, "max") == [(0.103,)]
    assert of("silent_sender", findings.deliveries, "max") == [(None,), (None,)]


def test_unreliable_messages_are_counted_apart(findings: Findings) -> None:
    columns = ("unreliable_sent", "unreliable_received")
    assert of("plain", findings.deliveries, *columns) == [(2, 1), (0, 0)]
    assert of("silent_receiver", findings.deliveries, *columns) == [(2, None), (0, None)]
    assert of("silent_sender", findings.deliveries, *columns) == [(None, 1), (None, 0)]


def test_gaps_in_ids_are_found_across_the_wrap_and_control_messages_fill_them(findings: Findings) -> None:
    assert of("gap", findings.gaps, "after", "before", "missing") == [(3, 7, 3), (LAST_ID, 3, 2)]
    assert len(findings.gaps.rows) == 2


def test_ids_of_more_than_one_message_are_told(findings: Findings) -> None:
    assert of("same_id", findings.reused, "ids", "messages") == [(1, 2)]
    assert of("another_shape", findings.reused, "ids", "messages") == [(2, 4)]
    assert len(findings.reused.rows) == 2


def test_handshakes_and_how_they_ended(findings: Findings) -> None:
    seen = of("refused", findings.handshakes, "cid", "role", "status", "outcome")
    assert sorted(seen) == [
        (1, "client", 2, "incompatible"),
        (1, "server", 2, "incompatible"),
        (2, "client", None, "no answer"),
        (3, "client", 3, "established"),
        (3, "server", 3, "established"),
        (4, "client", 3, "incompatible"),
        (4, "server", 3, "incompatible"),
    ]
    assert {one for (one,) in of("refused", findings.handshakes, "seconds")} == {0.005, 0.001, None}


def test_connections_are_told_apart_over_restarts(findings: Findings) -> None:
    a, b = ends("both_killed")
    rows = [row for row in findings.connections.rows if row["local"] in (a, b)]
    assert [(row["local"], row["cid"], row["nth"], row["recorded_to_end"]) for row in rows] == [
        (a, 1, 1, False),
        (a, 1, 2, True),
        (b, 1, 1, False),
        (b, 1, 2, True),
    ]
    assert all(row["whole"] for row in rows)
    assert not all(row["whole"] for row in findings.connections.rows if row["local"] in ends("damaged"))


def test_subscriptions_over_time(findings: Findings) -> None:
    columns = ("subscriber", "publisher", "action", "channel", "key")
    a, b = ends("plain")
    assert of("plain", findings.subscriptions, *columns) == [(b, a, "in handshake", "c", "")]
    a, b = ends("wraps")
    assert of("wraps", findings.subscriptions, *columns) == [
        (a, b, "in handshake", "of the client", ""),
        (b, a, "in handshake", "of the server", ""),
    ]
    a, b = ends("gap")
    assert of("gap", findings.subscriptions, *columns) == [(a, b, "subscribe", "x", ""), (a, b, "unsubscribe", "x", "")]
    assert len(of("silent_receiver", findings.subscriptions, "action")) == 1


def test_traffic_and_latency_add_up(findings: Findings) -> None:
    assert sum(row["delivered"] for row in findings.traffic) == sum(
        row["delivered"] or 0 for row in findings.deliveries.rows
    )
    assert sum(row["sent"] for row in findings.traffic) == sum(row["sent"] or 0 for row in findings.deliveries.rows)
    slowest = max(row["max"] for row in findings.latency)
    assert slowest == 0.5
    assert all(START <= row["begin"].timestamp() <= START + 3 for row in findings.traffic)


def test_recordings_say_what_is_wrong_with_them(findings: Findings) -> None:
    assert [bad for _, bad in of("damaged", findings.recordings, "damages", "damage") if bad] == [
        "the block's checksum is wrong"
    ]
    assert of("both_killed", findings.recordings, "ended_in_order") == [(False,), (False,), (True,), (True,)]


def columns_on_the_page(table: str) -> list[str]:
    section = re.search(rf"^### {table}\n(.*?)(?=^###|\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert section is not None
    lines = [line.split("|")[1] for line in section[1].splitlines() if line.startswith("| `")]
    return [name for line in lines for name in re.findall(r"`(\w+)`", line)]


@pytest.mark.parametrize("table", TABLES)
def test_the_page_has_every_column(told: Tables[str], table: str) -> None:
    assert sorted(columns_on_the_page(table)) == sorted(told.rows(f"SELECT * FROM {{{table}}} LIMIT 1")[0])


@pytest.mark.thorough  # the same rows are shown above; the types change seldom
def test_spark_writes_the_tables_that_the_command_writes(spark: Any, recorded: Path, tmp_path: Path) -> None:
    assert tolliver("audit", recorded / "plain-0", "--parquet", tmp_path / "command").exit_code == 0
    with audit(spark, [recorded / "plain-0"]) as found:
        found.write_parquet(tmp_path / "spark")
        with pytest.raises(ValueError, match=r"has deliveries, .* already"):
            found.write_parquet(tmp_path / "spark")
    for table in TABLES:
        one, other = (spark.read.parquet(str(tmp_path / who / table)) for who in ("command", "spark"))
        assert (one.dtypes, one.count()) == (other.dtypes, other.count())


# The report.


class Page(HTMLParser):
    """The elements of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def made_up() -> Findings:
    """Findings in which every name is hostile."""
    begin = datetime.fromtimestamp(START)
    flow = {"sender": HOSTILE, "receiver": HOSTILE + "2"}
    counts = dict.fromkeys((*COUNTS, "unacknowledged", "unreliable_sent", "unreliable_received"), 7)
    times = {"p50": 0.001, "p95": 0.01, "p99": 0.1, "max": 12.0}
    line = {"local": HOSTILE, "peer": HOSTILE + "2", "began": begin, "ended": begin, "cid": 1, "outcome": HOSTILE}
    connection = {**line, "messages_in": 1, "messages_out": 1, "recorded_to_end": False}
    shake = {**line, "requested": begin, "role": HOSTILE, "requested_version": 1, "answered_version": None}
    wish = {"time": begin, "subscriber": HOSTILE, "publisher": None, "action": "subscribe"}
    file = {"local": HOSTILE, "path": HOSTILE, "bytes": 1, "frames": 1, "began": begin, "ended": begin}

    def one(row: Row) -> Table:
        return Table([row], more=True)

    return Findings(
        {HOSTILE: HOSTILE + "name"},
        1.0,
        one({**flow, "channel": HOSTILE, **counts, **times}),
        one(connection),
        one({**shake, "status": None, "seconds": None}),
        one({**wish, "channel": HOSTILE, "key": HOSTILE}),
        one({**flow, "after": 1, "before": 9, "missing": 7}),
        one({**flow, "ids": 1, "messages": 2}),
        one({**file, "ended_in_order": False, "damage": HOSTILE}),
        [{**flow, "channel": f"{HOSTILE}{n}", "begin": begin, "sent": 1, "delivered": n} for n in range(20)],
        [{**flow, "begin": begin, "acknowledged": 1, **times}],
    )


def two_flows() -> Findings:
    """Two receivers of the same channels, in other proportions, and one who recorded nothing."""
    found = made_up()
    [row], [line] = found.deliveries.rows, found.latency
    ends = [{"sender": "p", "receiver": receiver} for receiver in "abc"]
    silent = dict.fromkeys(("delivered", "duplicates", "unreliable_received", "lost", "unproven", "pending"))
    rows = [row | ends[0] | {"channel": "x", "sent": 10, "delivered": 10, "unrecorded": 7, "lost": 0}]
    rows += [row | ends[2] | {"channel": "x", "sent": 123, "unrecorded": None} | silent]
    names = [f"channel {number}" for number in range(9)]
    begins = [line["begin"].fromtimestamp(START + step) for step in range(20)]
    traffic = [
        end | {"channel": name, "begin": begin, "sent": 1, "delivered": 1 + abs(shift - number)}
        for shift, end in ((0, ends[0]), (8, ends[1]))
        for number, name in enumerate(names)
        for begin in begins
    ]
    latency = [line | end | {"begin": begin} for end in ends[:2] for begin in begins]
    deliveries = Table([*rows, row | ends[1]], more=False)
    return found._replace(deliveries=deliveries, traffic=traffic, latency=latency)


def test_a_channel_looks_the_same_in_every_chart() -> None:
    curves = [Curves("channel 3", {"one": [(START, 1.0)], "two": [(START, 2.0)]}), Curves("", {"channel 4": []})]
    page = render(two_flows(), curves)
    seen: dict[str, set[str]] = {}
    for look, name in re.findall(r'class="dot ([^"]+)"[^>]*><title>([^:]+):', page):
        seen.setdefault(name, set()).add(look)
    channels = {name: looks for name, looks in seen.items() if name.startswith("channel")}
    assert len(channels) == 9 == len({look for looks in channels.values() for look in looks})
    assert all(len(looks) == 1 for looks in channels.values())
    assert seen["2 others"] == {"c7"}
    [of_channel] = channels["channel 3"]
    assert (seen["one"], seen["two"]) == ({of_channel}, {f"{of_channel.split()[0]} d1"})
    assert len({tuple(seen[name]) for name in PERCENTILES}) == len(PERCENTILES)


def test_who_recorded_nothing_is_not_called_a_loss() -> None:
    page = "".join(Page(render(two_flows())).words)
    assert "lost = 7 · sent 17 · delivered 17" in page  # of those that both sides recorded
    assert "123 more were sent to c, which recorded nothing: how much of that arrived is not known." in page
    silent = render(two_flows()._replace(deliveries=Table(two_flows().deliveries.rows[1:2], more=False)))
    assert "nothing to compare" in silent


def test_sent_and_delivered_differ_by_what_the_page_says(findings: Findings) -> None:
    for row in findings.deliveries.rows:
        if row["lost"] is not None:
            kept = row["sent"] - row["lost"] - row["unproven"] - row["pending"]
            assert row["delivered"] == kept + row["unrecorded"]
    assert "delivered 10 = sent 3 + 7 that the sender's" in render(
        two_flows()._replace(
            deliveries=Table(
                [two_flows().deliveries.rows[0] | {"sent": 3, "unproven": 0, "pending": 0}],
                more=False,
            )
        )
    )


def light_and_dark() -> list[dict[str, str]]:
    style = Path(sys.modules[render.__module__].__file__ or "").with_name("report.css").read_text()
    schemes = re.findall(r":root \{([^}]*)\}", style)[:2]
    return [dict(re.findall(r"--(\w+): (#[0-9a-f]{3,8})", scheme)) for scheme in schemes]


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) > 4 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", light_and_dark(), ids=["light", "dark"])
def test_lines_and_texts_stand_out_from_the_card(colours: dict[str, str]) -> None:
    """As WCAG asks: 3 to 1 for lines, 4.5 to 1 for text."""
    lines = [name for name in colours if re.fullmatch(r"c\d|q\d*|bar|bad|good", name)]
    assert len(lines) == 14
    assert all(contrast(colours[name], colours["card"]) >= 3 for name in lines)
    assert all(contrast(colours[name], colours["card"]) >= 4.5 for name in ("ink", "soft", "bad"))


def test_names_stay_text() -> None:
    page = Page(render(made_up()))
    assert "script" not in page.tags
    assert not {"src", "onload", "onerror", "href"} & {name for name, _ in page.attributes}
    text = "".join(page.words)
    assert text.count("<script>") >= 10
    assert "\u202e" not in text
    assert "url(" not in render(made_up())
    assert page.tags.count("svg") == 3


def test_nothing_at_all_is_a_report_too() -> None:
    nothing = Table([], more=False)
    page = render(Findings({}, 1.0, nothing, nothing, nothing, nothing, nothing, nothing, nothing, [], []))
    assert "lost = 0" in page


@pytest.mark.parametrize("top", [0.003, 1.0, 7.0, 1234.5, 10.0])
def test_scales_are_round_and_wide_enough(top: float) -> None:
    steps = nice_steps(top)
    assert steps[0] == 0
    assert steps[-2] < top * 1.001 <= steps[-1] * 1.002
    assert 3 <= len(steps) <= 8
    powers = decades([top, top * 50])
    assert powers[0] <= top <= top * 50 <= powers[-1] * 1.001


MEASURE = """<script>
const drawn = [...document.querySelectorAll("figure")].map(figure => {
  const box = figure.querySelector("svg").getBoundingClientRect();
  const marks = [...figure.querySelectorAll(".line, .bar")].map(mark => mark.getBBox());
  const texts = [...figure.querySelectorAll("text")].map(text => text.getBoundingClientRect());
  const over = texts.filter((a, i) => texts.some((b, j) => i < j && a.left < b.right && b.left < a.right
    && a.top + 3 < b.bottom && b.top + 3 < a.bottom)).length;
  const outside = texts.filter(a => a.left < box.left - 1 || a.right > box.right + 1 || a.bottom > box.bottom + 1)
    .length;
  return {width: box.width, height: box.height, over, outside, said: figure.querySelector("svg").ariaLabel,
    marks: marks.filter(mark => mark.width + mark.height > 0).length};
});
document.title = JSON.stringify({drawn, title: document.title});
</script>"""


def browse(page: Path) -> tuple[str, str]:
    """The page as a browser has it in the end, and what it says in its console."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("no browser looks at the report: on Debian, apt-get install chromium-headless-shell")
    command = [browser, "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0", "--dump-dom"]
    home = {**os.environ, "HOME": str(page.parent)}
    seen = subprocess.run(
        [*command, page.as_uri()], capture_output=True, text=True, timeout=SECONDS, env=home, check=True
    )
    return seen.stdout, "\n".join(line for line in seen.stderr.splitlines() if "CONSOLE" in line)


def test_a_browser_draws_every_chart(findings: Findings, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(render(findings))
    document, said = browse(page)
    assert said == ""
    assert "<title>Delivery audit</title>" in document
    # A copy, in which a script of ours may measure.
    page.write_text(re.sub(r"<meta http-equiv[^\n]*\n", "", page.read_text()).replace("</main>", f"</main>{MEASURE}"))
    document, said = browse(page)
    assert said == ""
    title = re.search(r"<title>(\{.*?\})</title>", document)
    assert title is not None
    measured = json.loads(title[1].replace("&amp;", "&"))
    assert measured["title"] == "Delivery audit"
    assert len(measured["drawn"]) > 10
    assert all(chart["width"] > 500 and chart["height"] > 50 for chart in measured["drawn"])
    assert all(chart["marks"] and len(chart["said"]) > 20 for chart in measured["drawn"])
    assert not any(chart["over"] or chart["outside"] for chart in measured["drawn"])


def test_the_page_forbids_what_it_does_not_need(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(render(made_up()).replace("</main>", f"</main>{MEASURE}"))
    document, said = browse(page)
    assert "<title>Delivery audit</title>" in document
    assert "Content Security Policy" in said


# The demo: its recordings, and the table that a query wrote.


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first act, as it was played and recorded."""
    directory = tmp_path_factory.mktemp("demo") / "demo"
    command = [sys.executable, "-m", "examples.demo", "--no-audit", "--directory", str(directory)]
    subprocess.run([*command, "--seconds", "2", "--rate", "1000"], check=True, capture_output=True, timeout=DEMO)
    return directory


@pytest.fixture
def console() -> Console:
    return Console(soft_wrap=True, width=200)


@pytest.mark.thorough  # `make demo` shows it
def test_the_table_and_the_recordings_say_that_nothing_is_lost(
    spark: Any, played: Path, console: Console, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [(words[0],) for kind, *words in read_lines(played, PUBLISHER) if kind == "stored"]
    rows = spark.createDataFrame(ids, "id STRING")
    rows.write.parquet(str(played / TABLE))
    assert audit_with_spark(console, played) == 0
    said = capsys.readouterr().out
    assert f"the table has {len(ids):,} of {len(ids):,} stored readings: 0 lost, 0 twice, 0 never sent" in said
    assert re.search(r"^lost = 0$", said, re.MULTILINE)
    assert (played / "report.html").stat().st_mode & 0o777 == 0o600
    assert re.search(r"^ *alice +[\d,]+ +[\d,]{3,} ", said[said.index("as the recordings tell it") :], re.MULTILINE)
    report = (played / "report.html").read_text()
    assert "<b>lost = 0</b>" in report
    assert all(name in report for name in (PUBLISHER, *SUBSCRIBERS))
    assert report.count('class="gap"') >= 2  # for alice the publisher's kill; for bob his own, which that may fall into
    assert "Values over time" in report
    assert all(f"{name}: " in report for name in ("average, 1 min", "ram, percent"))  # a point of the curve at least

    rows.limit(1).union(spark.createDataFrame([("0-0",)], "id STRING")).write.mode("append").parquet(
        str(played / TABLE)
    )
    assert audit_table(console, spark, played) == 1
    assert ": 0 lost, 1 twice, 1 never sent" in capsys.readouterr().out
    rows.limit(len(ids) - 2).write.mode("overwrite").parquet(str(played / TABLE))
    assert audit_table(console, spark, played) == 1
    assert ": 2 lost, 0 twice, 0 never sent" in capsys.readouterr().out
