"""`tolliver bench`: each kind of work, with the other end in this process and in another, and what is told of it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
from pathlib import Path

import pytest
from tolliver._cli.measures import Kind, Measure, Times

from tests.cli.commands import COMMAND, SECONDS, running, tolliver
from tests.cli.conftest import Who

MESSAGES = ("publish", "send", "request")


def test_each_kind_at_each_size_is_measured_against_a_peer_of_its_own() -> None:
    ended = tolliver("bench", "--count", 25, "--batch", 10, "--senders", 2, "--size", 3, "--size", "2KiB", "--json")
    assert ended.exit_code == 0, ended
    told = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [(one["kind"], one["size_bytes"]) for one in told] == [
        (kind.value, size) for kind in Kind for size in (3, 2048)
    ]
    for one in told:
        assert (one["messages"], one["done"], one["lost"], one["complete"], one["senders"]) == (25, 25, 0, True, 2)
        assert one["messages_per_second"] * one["size_bytes"] == pytest.approx(one["bytes_per_second"], rel=0.01)
        stamped = {"arrival"} if one["size_bytes"] >= 8 else set()
        times = {"send": {"disk", "acknowledgement"}, "request": {"answer"}}.get(one["kind"], stamped)
        assert set(one["times"]) == times
        for time in one["times"].values():
            assert 0 < time["p50_seconds"] <= time["p99_seconds"] <= time["p999_seconds"] <= time["max_seconds"]


def test_the_other_end_may_be_another_process(who: Who, tmp_path: Path) -> None:
    peer, _, _ = who("peer"), who("sender-1"), who("sender-2")
    with (
        running(tmp_path / "messages", "bench", "--serve", "--listen", "127.0.0.1:0", *peer) as messages,
        running(tmp_path / "streams", "bench", "stream", "--serve", "--listen", "127.0.0.1:0", *peer) as streams,
    ):
        sender = (*peer[:2], "--name", "sender", "--senders", 2, "--count", 30)
        ended = tolliver("bench", "--connect", messages.address, *sender, "--json")
        assert ended.exit_code == 0, ended
        told = [json.loads(line) for line in ended.stdout.splitlines()]
        assert [(one["kind"], one["done"], one["lost"]) for one in told] == [(kind, 30, 0) for kind in MESSAGES]
        shown = tolliver("bench", "stream", "--connect", streams.address, *peer[:2], "--name", "sender-1",
                         "--count", 30)  # fmt: skip
        heads, values = (line.split("\t") for line in shown.stdout.splitlines())
        assert dict(zip(heads, values, strict=True))["messages"] == "30"
        unsuited = tolliver("bench", "stream", "send", "--connect", messages.address, *sender)
        assert "stream has a port of its own" in unsuited.stderr
        missing = tolliver("bench", "send", "--connect", messages.address, *sender[:4], "--senders", 3)
        assert "sender-3.pem cannot be read" in missing.stderr
        assert [one.interrupt() for one in (messages, streams)] == [0, 0]


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    alone = tolliver("bench", "--database", tmp_path / "mine.db")
    assert (alone.exit_code, alone.stdout) == (1, "")
    assert "alone it makes its own" in alone.stderr
    assert "a port of its own" in tolliver("bench", "stream", "send", "--serve", "--listen", "127.0.0.1:0").stderr


def test_interrupted_it_tells_what_was_measured_so_far(tmp_path: Path) -> None:
    theirs, ours = pty.openpty()
    arguments = ("bench", "send", "--count", "100000000", "--batch", "2")
    with (tmp_path / "out").open("wb") as file:
        process = subprocess.Popen(
            [*COMMAND, *arguments], stdout=file, stderr=ours, env={**os.environ, "TERM": "xterm"}
        )
    os.close(ours)
    try:
        shown = ""
        while not re.search("send, 128 bytes: [1-9]", shown):
            shown += os.read(theirs, 65536).decode("utf-8", "replace")
        process.send_signal(signal.SIGINT)
        try:
            while os.read(theirs, 65536):
                pass
        except OSError:  # Linux says so at the end of a terminal
            pass
        assert process.wait(SECONDS) == 130
    finally:
        process.kill()
        process.wait()
        os.close(theirs)
    heads, *rows = (line.split("\t") for line in (tmp_path / "out").read_text().splitlines())
    assert [row[heads.index("time to")] for row in rows] == ["disk", "acknowledgement"]
    for row in rows:
        assert re.fullmatch("[1-9][0-9,]* of 100,000,000", row[heads.index("messages")])


def test_percentiles_are_those_of_all_times() -> None:
    times = Times()
    for value in range(1, 1001):
        times.add(value / 1000)
    assert times.facts() == pytest.approx(
        {"mean": 0.5005, "p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1.0}
    )
    assert Times().facts() == {}
    assert next(Measure(Kind.SEND, 5, 10, 1).lines())[3:5] == ["0 of 10", "-"]
