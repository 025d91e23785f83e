"""A program that sends with message keys, and is killed again and again: one message for each key (P-60)."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from random import Random

import pytest
from tolliver.blocking import InstanceOptions, create_instance

from tolliver_proto import Delivery

KILLS = 6
SENDER = """
import os
import sys
from pathlib import Path

from tolliver.blocking import InstanceOptions, create_instance

database, remote = Path(sys.argv[1]), sys.argv[2]
log = database.with_suffix(".acked")
done = set(log.read_text().split()) if log.exists() else set()
with create_instance(InstanceOptions(database=database, plaintext=True, remotes=[remote])) as sender:
    sender.wait_subscribed("orders", timeout=60)
    for number in range(100_000):
        key = str(number)
        if key not in done:
            receipt = sender.send("orders", "", f"{key} {os.getpid()}".encode(), message_key=key)
            if receipt.state == "acknowledged":
                with log.open("a") as lines:
                    lines.write(f"{key}\\n")
            print(key, flush=True)
"""
"""Each life sends everything anew, with other bodies, but for what it was told is acknowledged."""


@pytest.mark.thorough
def test_a_sender_that_is_killed_sends_one_message_for_each_key(tmp_path: Path) -> None:
    seen: defaultdict[bytes, set[bytes]] = defaultdict(set)
    chance = Random(1)

    def see(order: Delivery) -> bool:
        seen[order.body.split()[0]].add(order.body)
        return True

    options = InstanceOptions(database=tmp_path / "receiver.db", listen="127.0.0.1:0", plaintext=True)
    with create_instance(options) as receiver:
        receiver.subscribe("orders", handler=see)
        for _ in range(KILLS):
            command = [sys.executable, "-c", SENDER, str(tmp_path / "sender.db"), f"127.0.0.1:{receiver.port}"]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as sender:
                assert sender.stdout is not None
                assert sender.stdout.readline()  # it is at work
                time.sleep(chance.random() * 0.5)
                sender.send_signal(signal.SIGKILL)
    assert len({body.split()[1] for bodies in seen.values() for body in bodies}) > 1, "one life alone has sent"
    assert {key: bodies for key, bodies in seen.items() if len(bodies) > 1} == {}
