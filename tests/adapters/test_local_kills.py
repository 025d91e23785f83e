"""Kills of an instance and of the local programs that hand over to it: each send that returned is handled, once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
from tolliver import blocking

from tolliver_proto import Policy

from .facade import until

KILLS = int(os.environ.get("TOLLIVER_LOCAL_KILLS", "4"))
MESSAGES = 150  # of each program
PROGRAMS = 2

INSTANCE = """
import sys, time
from tolliver.blocking import InstanceOptions, create_instance
database, path, remote = sys.argv[1:]
options = InstanceOptions(
    database=database, plaintext=True, accept="unix:" + path, remotes=[remote], retry_interval=0.2
)
with create_instance(options) as instance:
    instance.wait_subscribed("news", "")
    print("ready", flush=True)
    sys.stdin.read()
"""
PROGRAM = """
import sys, time
from pathlib import Path
from tolliver import ConnectionLost, local
path, name, count, notes = sys.argv[1:]
known = [*Path(notes).read_text().splitlines()] if Path(notes).exists() else []
def connected():
    while True:
        try:
            return local.connect(path, timeout=60).__enter__()
        except ConnectionLost:
            time.sleep(0.02)
me = connected()
with open(notes, "a") as out:
    for number in range(len(known), int(count)):
        key = f"{name} {number}"
        while not me.send("news", "", key.encode(), message_key=key).recipients:
            time.sleep(0.02)
        print(key, file=out, flush=True)
        time.sleep(0.005)
"""


@contextmanager
def process(program: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills with SIGKILL")
def test_each_send_that_returned_is_handled_once_whatever_is_killed(tmp_path: Path) -> None:
    handled: Counter[str] = Counter()
    path, database, chance = tmp_path / "s", tmp_path / "left.db", random.Random(1)
    options = blocking.InstanceOptions(
        database=tmp_path / "right.db", plaintext=True, listen="127.0.0.1:0", policy=Policy(dedupe=10_000)
    )
    notes = [tmp_path / f"notes {number}" for number in range(PROGRAMS)]

    def told() -> list[str]:
        return [line for one in notes if one.exists() for line in one.read_text().splitlines()]

    def is_told(count: int) -> bool:
        return len(told()) >= count

    with blocking.create_instance(options) as right, ExitStack() as running:
        right.subscribe("news", handler=lambda delivery: handled.update([delivery.body.decode()]))

        def instance() -> subprocess.Popen[str]:
            started = running.enter_context(process(INSTANCE, database, path, f"127.0.0.1:{right.port}"))
            assert started.stdout is not None
            assert started.stdout.readline() == "ready\n"
            return started

        def program(number: int) -> subprocess.Popen[str]:
            return running.enter_context(process(PROGRAM, path, number, MESSAGES, notes[number]))

        left = instance()
        programs = [program(number) for number in range(PROGRAMS)]
        for kill in range(KILLS):
            before = len(told())
            goal = min(before + chance.randint(1, 20), MESSAGES * PROGRAMS)
            until(partial(is_told, goal))
            victim = kill % PROGRAMS
            left.kill()
            if chance.random() < 0.5:
                programs[victim].kill()
                programs[victim].wait()
                programs[victim] = program(victim)
            left.wait()
            left = instance()
        for one in programs:
            assert one.wait(60) == 0
        expected = {f"{number} {one}" for number in range(PROGRAMS) for one in range(MESSAGES)}
        assert set(told()) == expected
        until(lambda: handled.keys() >= expected)
    assert {*handled.values()} == {1}
