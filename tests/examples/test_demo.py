"""`make demo` in a few seconds, and its verdict on made-up logs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from examples.demo import spark_audit
from examples.demo.child import PUBLISHER, SUBSCRIBERS
from examples.demo.log import Log, read_lines
from examples.demo.processes import Child, DemoError
from examples.demo.progress import Bar
from examples.demo.readings import readings
from examples.demo.verdict import explained, judge
from tests.cli.commands import SECONDS, Result, run_process

DEMO = (sys.executable, "-m", "examples.demo")


def demo(*arguments: object, java: str = os.environ.get("JAVA_HOME", "")) -> Result:
    return run_process(*arguments, command=DEMO, JAVA_HOME=java)


def processes_with(word: str) -> list[psutil.Process]:
    """Processes that have this in their command line."""
    return [one for one in psutil.process_iter(["cmdline"]) if any(word in part for part in one.info["cmdline"] or ())]


def test_nothing_is_lost_and_a_loss_is_seen(tmp_path: Path) -> None:
    """Without its Spark, which `tests/spark/test_audit.py` and `make demo` have."""
    directory = tmp_path / "demo"
    played = demo("--directory", directory, "--no-audit", "--seconds", 2.5, "--rate", 2000)
    assert played.exit_code == 0, played.stdout + played.stderr
    assert "No reliable message was lost." in played.stdout
    assert re.search(r"bob: [\d,]+ sent and not [\d,]+, as bob wants cpu and memory alone", played.stdout)
    for tally in judge(directory):
        assert tally.sent >= tally.stored > 0
        assert tally.delivered >= tally.stored
    for name in (PUBLISHER, "bob"):
        assert f"{name} with SIGKILL" in played.stdout
        assert (directory / f"{name}.2.log").stat().st_size > 0

    log = directory / "alice.1.log"
    lines = log.read_text().splitlines(keepends=True)
    gone = lines[len(lines) // 2].split()[1]
    log.write_text("".join(line for line in lines if line.split()[1] != gone))
    judged = demo("--directory", directory, "--check", "--no-audit")
    assert judged.exit_code == 1
    assert f"alice: 1 lost: {gone}" in judged.stdout


def test_without_java_the_demo_says_what_to_install(tmp_path: Path) -> None:
    for name in SUBSCRIBERS:
        log_of(tmp_path, PUBLISHER, len(name), [f"sent 1-1 cpu{name}", "sent 1 cpu", "stored 1 cpu"])
        log_of(tmp_path, name, 1, ["got 1 cpu 1"])
    judged = demo("--directory", tmp_path, "--check", java=str(tmp_path))
    assert judged.exit_code == 0
    assert re.search(r"^No audit of the recordings by Spark: .*install", judged.stdout, re.MULTILINE)


def test_ctrl_c_leaves_no_process_behind(tmp_path: Path) -> None:
    command = [*DEMO, "--no-audit", "--directory", str(tmp_path / "demo"), "--seconds", str(SECONDS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while b"readings flow" not in (line := process.stdout.readline()):
            assert line
        processes = processes_with(str(tmp_path))
        try:
            assert len(processes) == 4
            subscriber = next(one for one in processes if "demo.subscriber" in " ".join(one.info["cmdline"]))
            subscriber.suspend()  # deaf to every request
            process.send_signal(signal.SIGINT)
            words, _ = process.communicate(timeout=SECONDS)
            assert process.returncode == 130
            assert b"interrupted" in words
            assert not processes_with(str(tmp_path))
        finally:
            for one in processes:
                with suppress(psutil.NoSuchProcess):
                    one.kill()


def test_a_directory_that_is_not_the_demos_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    result = demo("--directory", tmp_path)
    assert result.exit_code == 1
    assert "is not empty and not the demo's" in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_process_that_ends_by_itself_is_reported(tmp_path: Path) -> None:
    child = Child(tmp_path, "alice", "subscriber", ["no port"])
    child.start()
    with pytest.raises(DemoError, match=r"alice ended with status 1: ValueError.*no port.*alice\.1\.err"):
        child.stop(SECONDS)
    child.kill()


def test_every_machine_has_readings() -> None:
    kinds = {reading.kind for reading in readings()}
    assert {"cpu", "memory"} <= kinds
    assert all(isinstance(reading.value, float) and reading.part for reading in readings())


def log_of(directory: Path, name: str, run: int, lines: Sequence[str]) -> None:
    Log(directory, name, run).write(lines)


ids = st.sets(st.integers(0, 30).map(str))


@given(
    sent=ids,
    stored=ids,
    got=st.lists(st.integers(0, 30).map(str), max_size=40),
    channel=st.sampled_from(["cpu", "load"]),
)
def test_sets_are_compared(sent: set[str], stored: set[str], got: list[str], channel: str) -> None:
    stored &= sent
    with TemporaryDirectory() as made:
        directory = Path(made)
        log_of(directory, PUBLISHER, 1, [f"sent {one} {channel}" for one in sent])
        log_of(directory, PUBLISHER, 2, [f"stored {one} {channel}" for one in stored])
        for name in SUBSCRIBERS:
            log_of(directory, name, 1, [f"got {one} {channel} {number}" for number, one in enumerate(got)])
        tallies = {tally.name: tally for tally in judge(directory)}
    alice, bob = tallies["alice"], tallies["bob"]
    wanted = stored if channel == "cpu" else set()
    assert set(alice.lost) == stored - set(got)
    assert set(bob.lost) == wanted - set(got)
    assert set(alice.invented) == set(got) - sent
    assert alice.delivered == bob.delivered == len(set(got))
    assert alice.resent == len(got) - len(set(got))
    assert alice.duplicates == len({one for one in got if got.count(one) > 1})
    assert alice.unlogged == len(set(got) - stored)
    assert alice.good == (bool(got) and stored <= set(got) <= sent)
    said = " ".join(explained([alice]))
    assert ("alice: sent" in said) == (sent != stored)
    assert ("alice: delivered" in said) == (len(set(got)) != len(stored))
    assert ("came beyond the first" in said) == (len(got) > len(set(got)))


def test_a_line_torn_by_a_kill_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "alice.1.log").write_bytes(b"got 1-1 cpu 1\ngot 1-2 cp")
    (tmp_path / "alice.10.log").write_bytes(b"got 3-1 cpu 3\n")
    (tmp_path / "alice.2.log").write_bytes(b"got 2-1 cpu 2\n")
    assert [words[1] for words in read_lines(tmp_path, "alice")] == ["1-1", "2-1", "3-1"]


def test_the_bar_is_full_when_all_parts_are_over() -> None:
    console = Console(width=80, force_terminal=True, file=StringIO())
    with Bar(console, {"first": 1000.0, "second": 3000.0}) as bar:
        with bar.part("first"):
            bar.move("going on")
            assert bar.done < 0.25
        assert bar.done == 0.25
        with bar.part("second"):
            bar.move()
        assert bar.done == 1.0
    assert not Bar(Console(file=StringIO()), {"first": 1.0}).shown


def test_numbers_of_recordings_are_explained() -> None:
    alike = {"sent": 5, "delivered": 5, "unrecorded": 0, "unproven": 0, "pending": 0, "lost": 0, "resent": 0}
    killed = {"sent": 10, "delivered": 9, "unrecorded": 1, "unproven": 2, "pending": 0, "lost": 0, "resent": 3}
    said = [*spark_audit.explained({"alice": alike, "bob": killed})]
    assert [line.split(":")[0] for line in said] == ["bob", "bob"]
    assert said[0].startswith("bob: delivered 9 = sent 10 + 1 that the publisher's recording lacks")
