"""Tutorials of docs/, tried as their readers would: the programs are saved, started, stopped and killed."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.certificates import Certificates
from tests.ports import free_port

DOCS = Path(__file__).parent.parent / "docs"
SECONDS = 60.0
JOBS = 100
SAVED = re.compile(r"Save this as `(\w+\.py)`.*?```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


class Running:
    """A program of a page, its output in a file."""

    def __init__(self, folder: Path, *command: str) -> None:
        self._output = folder / f"{'-'.join(command)}.{time.monotonic_ns()}.out"
        with self._output.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "error", *command], cwd=folder, stdout=file, stderr=subprocess.STDOUT
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
        self.process.send_signal(number)
        self.process.wait(SECONDS)


@pytest.fixture
def folder(tmp_path: Path, certs: Certificates) -> Path:
    for member in ("alice", "bob", "carol"):
        certs.tls(member)
    (tmp_path / "certs").symlink_to(certs.directory)
    return tmp_path


@pytest.fixture
def starts(folder: Path) -> Iterator[Callable[..., Running]]:
    """Starts programs, which are killed in the end."""
    with ExitStack() as stack:

        def start(*command: str) -> Running:
            running = Running(folder, *command)
            stack.callback(running.stop, signal.SIGKILL)
            return running

        yield start


def save(page: str, folder: Path) -> None:
    """The programs of a page, on a port that is free."""
    port = str(free_port())
    for name, code in SAVED.findall((DOCS / page).read_text("utf-8")):
        (folder / name).write_text(code.replace("7011", port).replace("timeout=10)", "timeout=2)"), "utf-8")


def squares(*workers: Running) -> list[int]:
    return [int(line.split()[1]) for worker in workers for line in worker.lines() if len(line.split()) == 3]


def test_a_message_waits_for_the_receiver_that_was_stopped(folder: Path, starts: Callable[..., Running]) -> None:
    save("first-message.md", folder)
    bob = starts("bob.py")
    alice = starts("alice.py", "hello")
    alice.until_said("acknowledged")
    bob.until_said("first hello")
    bob.stop(signal.SIGINT)

    alice = starts("alice.py", "still there?")
    said = alice.until(lambda lines: any(line.startswith("TimeoutError") for line in lines))
    assert "stored for 1 peer" in said
    alice.process.wait(SECONDS)

    bob = starts("bob.py")
    alice = starts("alice.py", "good morning")
    alice.until_said("acknowledged")
    assert bob.until_said("first good morning")[:2] == ["first still there?", "first good morning"]


@pytest.mark.thorough
def test_jobs_survive_the_kills_of_a_worker_and_of_the_producer(folder: Path, starts: Callable[..., Running]) -> None:
    save("first-queue.md", folder)
    producer = starts("producer.py")
    producer.until_said(f"stored {JOBS} jobs")
    bob, carol = starts("worker.py", "bob"), starts("worker.py", "carol")
    bob.until(lambda lines: len(lines) > 3)
    carol.until(lambda lines: len(lines) > 3)
    bob.stop(signal.SIGKILL)
    producer.stop(signal.SIGKILL)
    again = starts("producer.py")
    assert re.search(r"going on with \d+ jobs", again.until_said("all jobs are done")[0])
    assert {*squares(bob, carol)} == {*range(JOBS)}
