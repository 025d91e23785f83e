"""A program that sends later, and on a channel that keeps, killed again and again: nothing lost, twice or early."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from random import Random

from tolliver.blocking import InstanceOptions, create_instance

from tolliver_proto import Delivery

from ..adapters.facade import until

KILLS = 4
WAIT = 0.5  # seconds
SENDER = f"""
import os
import sys
import time

from tolliver.blocking import InstanceOptions, create_instance

options = InstanceOptions(database=sys.argv[1], plaintext=True, remotes=[sys.argv[2]])
with create_instance(options) as sender:
    sender.channel("letters", keep=True)
    for number in range(100_000 if sys.argv[3] == "send" else 0):
        key = f"{{os.getpid()}}-{{number}}"
        body = f"{{key}} {{time.time()}}".encode()
        for _ in range(2):
            sender.send("letters", "", body, message_key=key)
            sender.send("orders", "", body, message_key=key, after={WAIT})
        print(key, flush=True)
    print("open", flush=True)
    sys.stdin.read()
"""
"""Each key is sent twice, and said once both have returned. `orders` has a subscriber before its messages are due."""


def test_a_sender_that_is_killed_loses_nothing_and_is_never_early(tmp_path: Path) -> None:
    seen: defaultdict[tuple[str, str], set[bytes]] = defaultdict(set)
    early: list[bytes] = []
    chance = Random(1)
    said: set[str] = set()

    def see(one: Delivery) -> bool:
        key, sent_at = one.body.decode().split()
        seen[one.channel, key].add(one.body)
        if one.channel == "orders" and time.time() < float(sent_at) + WAIT:
            early.append(one.body)
        return True

    def life(what: str, seconds: float) -> None:
        command = [sys.executable, "-c", SENDER, str(tmp_path / "sender.db"), f"127.0.0.1:{receiver.port}", what]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as sender:
            assert sender.stdout is not None
            said.add(sender.stdout.readline().strip())  # it is at work
            if what == "send":
                time.sleep(seconds)
            else:
                wanted = {(channel, key) for channel in ("letters", "orders") for key in said - {"open"}}
                until(lambda: seen.keys() >= wanted, "the rest")
            sender.send_signal(signal.SIGKILL)
            said.update(sender.stdout.read().rpartition("\n")[0].split())

    options = InstanceOptions(database=tmp_path / "receiver.db", listen="127.0.0.1:0", plaintext=True)
    with create_instance(options) as receiver:
        receiver.subscribe("orders", handler=see)
        for number in range(KILLS):
            life("send", chance.random() * 0.5)
            if number == KILLS // 2:
                receiver.subscribe("letters", handler=see)
        life("open", 60.0)
    assert {name: bodies for name, bodies in seen.items() if len(bodies) > 1} == {}
    assert early == []
