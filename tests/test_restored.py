"""Databases put back from a copy, on real processes: nothing new is taken for old (T-40)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tolliver.blocking import InstanceOptions, create_instance

from tests.cli.commands import tolliver
from tests.restored import PATIENCE
from tolliver_proto import Delivery, Policy

ROOT = Path(__file__).parent.parent
BEYOND = 5000  # messages: more than ids are reserved ahead, so that counting on behind the copy's would meet them


class Sender:
    """A process of `tests.restored`."""

    def __init__(self, database: Path, address: str) -> None:
        command = [sys.executable, "-m", "tests.restored", str(database), address]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answered()

    def _answered(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "\n", "the sender has failed"

    def call(self, *call: str | int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(call) + "\n")
        self.process.stdin.flush()
        self._answered()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


@contextmanager
def sender(database: Path, address: str) -> Iterator[Sender]:
    one = Sender(database, address)
    try:
        yield one
    finally:
        one.kill()


def put_back(copy: Path, database: Path) -> None:
    for beside in ("-wal", "-shm"):
        Path(f"{database}{beside}").unlink(missing_ok=True)
    shutil.copy(copy, database)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills with SIGKILL")
@pytest.mark.parametrize("said", [False, True], ids=["put back", "and said so"])
def test_receivers_get_all_that_a_restored_sender_sends(said: bool, tmp_path: Path) -> None:
    """It ran on after the copy was made; the receiver knows every id that it gave since, and drops copies."""
    handled: Counter[bytes] = Counter()

    def handle(delivery: Delivery) -> None:
        handled[delivery.body] += 1

    options = InstanceOptions(
        database=tmp_path / "receiver.db",
        listen="127.0.0.1:0",
        plaintext=True,
        policy=Policy(dedupe=100_000, dedupe_durable=True),
    )
    database, copy = tmp_path / "sender.db", tmp_path / "copy.db"
    with create_instance(options) as receiver:
        receiver.subscribe("news", "", handle, timeout=PATIENCE)
        address = f"127.0.0.1:{receiver.port}"
        with sender(database, address) as first:
            first.call("send", "before", 50)
            first.call("backup", str(copy))
            first.call("send", "since", BEYOND)
        put_back(copy, database)
        if said:
            assert "another place" in tolliver("outbox", "restored", str(database)).stderr
        with sender(database, address) as second:
            second.call("send", "afterwards", BEYOND)
        expected = {f"{name} {n}".encode() for name, count in SENT.items() for n in range(count)}
        assert set(handled) == expected
        assert set(handled.values()) == {1}, "what the copy still owed was known"


SENT = {"before": 50, "since": BEYOND, "afterwards": BEYOND}
