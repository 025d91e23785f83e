"""Tutorials of docs/, tried as their readers would: the programs are saved, started, stopped and killed."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.certificates import Certificates
from tests.cli.commands import tolliver
from tests.ports import free_port

DOCS = Path(__file__).parent.parent / "docs"
SECONDS = 60.0
JOBS = 100
SAVED = re.compile(r"Save this as `(\w+\.py)`.*?```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


class Running:
    """A line that was typed in a folder, its output in a file."""

    def __init__(self, folder: Path, line: str) -> None:
        self._output = folder / f"{time.monotonic_ns()}.out"
        env = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
        with self._output.open("wb") as file:
            self.process = subprocess.Popen(
                line, shell=True, cwd=folder, env=env, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
            )

    def lines(self) -> list[str]:
        return self._output.read_text("utf-8").splitlines()

    def until(self, holds: Callable[[list[str]], bool]) -> list[str]:
        """Its lines, as soon as this is true of them."""
        deadline = time.monotonic() + SECONDS
        while not holds(said := self.lines()):
            assert time.monotonic() < deadline, said
            time.sleep(0.02)
        return said

    def until_said(self, line: str) -> list[str]:
        return self.until(lambda lines: line in lines)

    def stop(self, number: int) -> None:
        """The signal to all that the line has started, as a terminal sends it."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)
        self.process.wait(SECONDS)

    def interrupt(self) -> None:
        """Ctrl-C, which no program answers with a traceback."""
        self.stop(signal.SIGINT)
        assert not [line for line in self.lines() if "Traceback" in line]


@pytest.fixture
def folder(tmp_path: Path, certs: Certificates) -> Path:
    for member in ("alice", "bob", "carol"):
        certs.tls(member)
    (tmp_path / "certs").symlink_to(certs.directory)
    return tmp_path


@pytest.fixture
def types(tmp_path: Path) -> Iterator[Callable[[str], Running]]:
    """Types lines where `python` and `tolliver` are those of this test. All are killed in the end."""
    (tmp_path / "bin").mkdir()
    for name, module in (("python", ""), ("tolliver", "-m tolliver ")):
        program = tmp_path / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -W error {module}"$@"\n')
        program.chmod(0o755)
    with ExitStack() as stack:

        def start(line: str) -> Running:
            running = Running(tmp_path, line)
            stack.callback(running.stop, signal.SIGKILL)
            return running

        yield start


def save(page: str, folder: Path) -> None:
    """The programs of a page, on a port that is free."""
    port = str(free_port())
    for name, code in SAVED.findall((DOCS / page).read_text("utf-8")):
        (folder / name).write_text(code.replace("7011", port), "utf-8")


def squares(*workers: Running) -> list[int]:
    return [int(line.split()[1]) for worker in workers for line in worker.lines() if len(line.split()) == 3]


def test_a_message_waits_for_the_receiver_that_was_stopped(tmp_path: Path, types: Callable[[str], Running]) -> None:
    """All lines of `tolliver init` and of the page, but on a port that is free."""
    made = tolliver("init", tmp_path / "demo")
    as_bob, as_alice, as_service = re.findall(r"^  (\S.*?) +#", made.stdout, re.MULTILINE)
    port = str(free_port())
    for path in (tmp_path / "demo").glob("*.*"):
        path.write_text(path.read_text("utf-8").replace("7011", port), "utf-8")

    def say(text: str) -> Running:
        alice = types(as_alice.replace("hello", shlex.quote(text)))
        alice.until_said("stored for 1 peer")
        return alice

    bob = types(as_bob)
    say("hello").until_said("acknowledged")
    bob.until_said("first hello")
    bob.interrupt()

    say("still there?").interrupt()

    bob = types(as_bob)
    say("good morning").until_said("acknowledged")
    assert bob.until_said("first good morning")[:2] == ["first still there?", "first good morning"]
    bob.interrupt()

    service = types(as_service)
    say("good evening").until_said("acknowledged")
    service.until_said("first good evening")
    service.interrupt()


@pytest.mark.thorough
def test_jobs_survive_the_kills_of_a_worker_and_of_the_producer(folder: Path, types: Callable[[str], Running]) -> None:
    save("patterns.md", folder)
    producer = types("python producer.py")
    producer.until_said(f"stored {JOBS} jobs")
    bob, carol = types("python worker.py bob"), types("python worker.py carol")
    bob.until(lambda lines: len(lines) > 3)
    carol.until(lambda lines: len(lines) > 3)
    bob.stop(signal.SIGKILL)
    producer.stop(signal.SIGKILL)
    again = types("python producer.py")
    assert re.search(r"going on with \d+ jobs", again.until_said("all jobs are done")[0])
    assert {*squares(bob, carol)} == {*range(JOBS)}
