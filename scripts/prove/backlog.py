"""Memory and start time of a long backlog. Linux only.

    python -m scripts.prove.backlog [MESSAGES] [--mixed] [--held] [--directory DIR]

1,000,000 messages of 1 kB by default: 1.2 GB of disk.

The real store and the real node run with no network between them and the peers. The peer that the messages are for is
away. One process stores the messages as an application would, by `send_many`; another one, which has seen none of them,
starts with the database. Memory is that of the process at its highest, above what it was as an empty instance. With
`--mixed` each message for the peer that is away is followed by one for a peer that acknowledges at once, so that the
backlog is full of holes. With `--held` the peer comes back with an empty list, so that all of it is held (T-61), goes,
and comes back with that list once more: no statement may ask the database for a body, and when the peer subscribes
again, all that waits goes out from the first on. Exit status 1 where an aim is missed: 64 MiB, and two seconds for the
start.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from random import Random
from uuid import UUID

from tolliver.sqlite import SQLiteStore

from tolliver_proto import Ack, Commit, Connection, Fetch, Limits, Message, Node, Role, Subscription, Transmit
from tolliver_proto.store import ReplacePeerSubscriptions

OURS, AWAY, HERE = (UUID(int=number) for number in (1, 2, 3))
BODY = 1024  # bytes
RUN = 1000  # messages of one send_many
MOST_MEMORY, LONGEST_START = 64, 2.0  # MiB, seconds
READS_BODIES = re.compile(r"\s*SELECT\b.*\bbodies\b", re.DOTALL)  # a statement
NO_QUOTA = Limits(outbox_messages=2**40, outbox_bytes=2**60)  # D-10 is not what is measured


class Instance:
    """A node, its store, and at most one peer that is connected and acknowledges, but for what is `AWAY`'s."""

    def __init__(self, path: Path) -> None:
        self.store = SQLiteStore(path, instance_id=OURS)
        self.node = Node(instance_id=OURS, rng=Random(0), limits=NO_QUOTA, loaded=self.store.load())
        self.peer: Connection | None = None
        self.cid = 0
        self.bodies_read = 0
        self.received: list[bytes] = []

    def connect(self, peer: UUID, subscriptions: Iterable[str]) -> None:
        self.peer = Connection(
            Role.CLIENT, instance_id=peer, subscriptions=[Subscription(one, "") for one in subscriptions]
        )
        cid = self.node.new_cid()
        assert cid is not None  # there is no other
        self.cid = cid
        self.node.opened(self.cid, Role.SERVER)
        self.run()

    def lose(self) -> None:
        """The connection is gone."""
        self.peer = None
        self.node.lost(self.cid, None)
        self.run()

    def count_bodies(self) -> None:
        """From now on, statements that read some."""

        def look(statement: str) -> None:
            self.bodies_read += READS_BODIES.match(statement) is not None

        self.store._file.connection.set_trace_callback(look)

    def run(self) -> None:
        """All that is to be done now."""
        while True:
            while (action := self.node.next_action()) is not None:
                if isinstance(action, Commit):
                    self.store.commit(action.operations)
                    self.node.committed(action.batch_id)
                elif isinstance(action, Fetch):
                    rows = self.store.fetch(action.peer, action.after_seq, action.max_count, action.max_bytes)
                    self.node.fetched(action.peer, rows)
                elif isinstance(action, Transmit) and self.peer is not None:
                    for unit in action.units:
                        self.peer.receive_data(unit)
                    self.node.sent(action.cid)
            replies = b"".join(self._replies())
            if not replies:
                return
            self.node.receive_data(self.cid, replies)

    def _replies(self) -> list[bytes]:
        if self.peer is None:
            return []
        for event in self.peer.events():
            if isinstance(event, Message) and event.message_id is not None:
                if event.channel == "here":
                    self.peer.send(Ack(event.message_id))
                else:
                    self.received.append(event.body)
        return self.peer.data_to_send()


def memory(what: str) -> float:
    """MiB of this process: VmRSS now, VmHWM at most so far."""
    lines = Path("/proc/self/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith(f"{what}:")]
    return int(line.split()[1]) / 2**10


def verdict(passed: bool) -> str:
    return "pass" if passed else "FAIL"


def fill(path: Path, messages: int, mixed: bool) -> bool:
    instance = Instance(path)
    with closing(instance.store):
        instance.store.commit([ReplacePeerSubscriptions(AWAY, [Subscription("away", "")])])
    instance = Instance(path)  # which knows the peer
    with closing(instance.store):
        if mixed:
            instance.connect(HERE, ["here"])
        channels = ["away", "here"] if mixed else ["away"]
        empty, start = memory("VmRSS"), time.perf_counter()
        for first in range(0, messages, RUN):
            numbers = range(first, min(first + RUN, messages))
            instance.node.send_many([(channel, "key", body(number)) for number in numbers for channel in channels])
            instance.run()
        instance.node.handle_timeout(1.0)  # removals are due
        instance.run()
        spent, grown = time.perf_counter() - start, memory("VmHWM") - empty
        waiting = {peer.uuid: peer.pending for peer in instance.node.peers()}
    assert waiting == {AWAY: messages} | ({HERE: 0} if mixed else {}), waiting
    good = grown <= MOST_MEMORY
    print(
        f"storing {messages:,}: {spent:.1f} s, at most {grown:.1f} MiB above {empty:.1f}: {verdict(good)}", flush=True
    )
    return good


def start(path: Path, messages: int) -> bool:
    empty, began = memory("VmRSS"), time.perf_counter()
    instance = Instance(path)
    spent, grown = time.perf_counter() - began, memory("VmHWM") - empty
    with closing(instance.store):
        [pending] = [peer.pending for peer in instance.node.peers() if peer.uuid == AWAY]
        assert pending == messages, pending
        good = grown <= MOST_MEMORY and spent < LONGEST_START
        print(f"starting with {pending:,}: {spent:.2f} s, at most {grown:.1f} MiB above {empty:.1f}: {verdict(good)}")
        del instance.node
        tracemalloc.start()
        instance.node = Node(instance_id=OURS, rng=Random(0), limits=NO_QUOTA, loaded=instance.store.load())
        kept, peak = tracemalloc.get_traced_memory()
    print(f"Python objects: {kept / 2**20:.2f} MiB kept, {peak / 2**20:.2f} MiB at most while loading")
    return good


def body(number: int) -> bytes:
    return number.to_bytes(8, "big") * (BODY // 8)


def reconnect(path: Path, messages: int) -> bool:
    """With an empty list, twice, and then with what it wanted."""
    instance = Instance(path)
    with closing(instance.store):
        instance.count_bodies()
        empty, began = memory("VmRSS"), time.perf_counter()
        instance.connect(AWAY, [])
        spent = [time.perf_counter() - began]
        [peer] = [peer for peer in instance.node.peers() if peer.uuid == AWAY]
        assert (peer.pending, len(peer.held), peer.connected) == (messages, 1, True), peer
        instance.lose()
        began = time.perf_counter()
        instance.connect(AWAY, [])
        spent.append(time.perf_counter() - began)
        grown, read = memory("VmHWM") - empty, instance.bodies_read
        good = not (read or instance.received) and grown <= MOST_MEMORY
        figures = (
            f"{read} bodies read, reconnected in {spent[0]:.2f} s and again in {spent[1]:.2f} s, at most "
            f"{grown:.1f} MiB above {empty:.1f}"
        )
        print(f"reconnecting twice, {messages:,} held: {figures}: {verdict(good)}")
        instance.lose()
        began = time.perf_counter()
        instance.connect(AWAY, ["away"])
        soon = time.perf_counter() - began
        first = instance.received
        follows = bool(instance.bodies_read and first) and first == [body(number) for number in range(len(first))]
        print(f"subscribing again: the first {len(first)} are sent after {soon:.2f} s: {verdict(follows)}")
    print(f"result: held | {messages:,} messages of 1 kB | {figures}, the first to go out after {soon:.2f} s")
    return good and follows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("messages", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--mixed", action="store_true", help="as many messages between them, which are acknowledged")
    parser.add_argument("--held", action="store_true", help="then the peer comes back and has not subscribed")
    parser.add_argument("--directory", type=Path, default=None, help="on the disk to be used")
    parser.add_argument("--fill", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--start", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--reconnect", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fill:
        return int(not fill(options.fill, options.messages, options.mixed))
    if options.start:
        return int(not start(options.start, options.messages))
    if options.reconnect:
        return int(not reconnect(options.reconnect, options.messages))
    failed = 0
    with tempfile.TemporaryDirectory(dir=options.directory) as scratch:
        path = Path(scratch) / "backlog.db"
        command = [sys.executable, "-m", "scripts.prove.backlog", str(options.messages), *["--mixed"] * options.mixed]
        for step in ("--fill", "--start", *["--reconnect"] * options.held):
            failed |= subprocess.run([*command, step, path], check=False).returncode
        print(f"on disk: {os.path.getsize(path) / 2**20:,.0f} MiB")
    return failed


if __name__ == "__main__":
    sys.exit(main())
