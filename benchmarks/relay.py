"""Rows a second that a relay moves from an outbox in SQLite into the store of an instance.

The table is full when the relay begins, its rows have 100 bytes, and the peer is away, so that nothing but the relay
works. Beside it: how many rows a second `put` takes, and `once` notes, 100 in a transaction.

    python benchmarks/relay.py [--rows 50000] [--channels 1] [--directory DIR]
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path
from uuid import UUID

from tolliver.blocking import InstanceOptions, create_instance
from tolliver.inbox import Inbox
from tolliver.outbox import Outbox

from tolliver_proto import Delivery, Limits, Message

PEER = UUID(int=7)
BODY = bytes(100)
IN_ONE = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--channels", type=int, default=1)
    parser.add_argument("--directory", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as name:
        measure(Path(name), options.rows, [f"channel {number}" for number in range(options.channels)])


def measure(directory: Path, rows: int, channels: list[str]) -> None:
    def connect() -> sqlite3.Connection:
        return sqlite3.connect(directory / "program.db")

    outbox, inbox = Outbox(connect), Inbox(connect)
    outbox.create()
    inbox.create()
    with closing(connect()) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        began = time.perf_counter()
        for number in range(rows):
            outbox.put(connection, channels[number % len(channels)], "", BODY)
            if number % IN_ONE == IN_ONE - 1:
                connection.commit()
        connection.commit()
        say("put", rows, began)
        began = time.perf_counter()
        for number in range(rows):
            inbox.once(connection, Delivery(1, PEER, Message("channel", "", BODY, number)))
            if number % IN_ONE == IN_ONE - 1:
                connection.commit()
        connection.commit()
        say("once", rows, began)
    limits = Limits(outbox_messages=2 * rows, outbox_bytes=2**32)
    instance = InstanceOptions(database=directory / "instance.db", plaintext=True, listen="127.0.0.1:0", limits=limits)
    with create_instance(instance) as sender:
        with create_instance(InstanceOptions(plaintext=True, database=directory / "peer.db")) as peer:
            for channel in channels:
                peer.subscribe(channel)
            peer.new_connection(f"127.0.0.1:{sender.port}")
            for channel in channels:
                sender.wait_subscribed(channel)
        began, spent = time.perf_counter(), time.process_time()
        with sender.relay(outbox) as relay:
            while relay.status.moved < rows:
                time.sleep(0.005)
        say("relay", rows, began)
        print(f"{1e6 * (time.process_time() - spent) / rows:.1f} us of the processor for a row")


def say(what: str, rows: int, began: float) -> None:
    print(f"{what}: {rows / (time.perf_counter() - began):,.0f} rows/s")


if __name__ == "__main__":
    main()
