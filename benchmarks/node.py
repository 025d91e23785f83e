"""Costs of the node, and their growth.

Nothing should grow with the number of subscriptions, of peers, or of messages in the backlog.

    python benchmarks/node.py [--most 1000000] [--repetitions 5]

No network and no disk: commits are reported at once, and peers are bytes made beforehand. Each figure stands beside a
bare loop of the same run, so ratios hold on a busy machine where nanoseconds do not; figures are the best of the
repetitions. Exit status 1 where the biggest of a row costs more than four times the smallest: with a million of
anything, the processor's caches alone cost three (the bare dictionary shows it).
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from random import Random
from uuid import UUID

from tolliver_proto import (
    Ack,
    Action,
    Commit,
    HandshakeRequest,
    Limits,
    Message,
    Node,
    Role,
    Subscription,
    Transmit,
    encode,
)
from tolliver_proto.store import Loaded, LoadedPeer, StoreMessages

OURS = UUID(int=1)
BODY = bytes(100)
RUN = 200  # messages of one send_many: within one window (T-52)
NAMES = 8192  # more than the node remembers, and so each is looked up anew
POLLS = 10_000
FLAT = 4.0  # biggest against smallest


def best(job: Callable[[], object], calls: int, repetitions: int) -> float:
    """Nanoseconds a call."""
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        job()
        times.append(time.perf_counter() - start)
    return min(times) / calls * 1e9


def row(name: str, figures: list[float], head: bool = False) -> None:
    cells = "".join(f"{figure:>12,.0f}" for figure in figures)
    print(f"  {name:<34}{cells}{'' if head else f'{figures[-1] / figures[0]:>10.2f}'}")


def node_with(peers: dict[UUID, LoadedPeer]) -> Node:
    limits = Limits(outbox_messages=2**40, outbox_bytes=2**60, max_handshakes=10_000)
    return Node(instance_id=OURS, rng=Random(0), limits=limits, loaded=Loaded(peers=peers))


def uuid_of(number: int) -> UUID:
    return UUID(int=1000 + number)


def turn(node: Node, take: Callable[[Action], None] = lambda action: None) -> None:
    """All that it asks for; whatever it is, it succeeds at once."""
    while (action := node.next_action()) is not None:
        take(action)
        if isinstance(action, Commit):
            node.committed(action.batch_id)
        elif isinstance(action, Transmit):
            node.sent(action.cid)


def connect(node: Node, count: int, *subscriptions: Subscription) -> list[int]:
    """That many peers dial the node; returns their cids."""
    cids = []
    for number in range(count):
        cid = node.new_cid()
        assert cid is not None, "more than Limits.max_handshakes"
        node.opened(cid, Role.SERVER)
        node.receive_data(cid, encode(HandshakeRequest(1, uuid_of(number), subscriptions)))
        cids.append(cid)
    turn(node)
    assert node.stats()["peers_up"] == count
    return cids


# Measurements.


def routing(subscriptions: int, repetitions: int) -> tuple[float, float, float]:
    """A match that is remembered, one that is not, a bare dictionary's."""
    wanted = [Subscription(f"channel {number}", "key") for number in range(subscriptions)]
    routes = node_with({uuid_of(0): LoadedPeer(frozenset(wanted))})._routing.routes  # the routing alone, without a send
    dice = Random(1)
    asked = [(f"channel {dice.randrange(subscriptions)}", f"key {number}") for number in range(NAMES)]
    few = asked[:1000]
    bare = dict.fromkeys(wanted)
    keys = [Subscription(channel, "key") for channel, _ in asked]

    def match(names: list[tuple[str, str]]) -> None:
        for channel, key in names:
            routes.match(channel, key)

    def look_up() -> None:
        for key in keys:
            bare.get(key)

    match(few)
    remembered = best(lambda: match(few), len(few), repetitions)
    anew = best(lambda: match(asked), len(asked), repetitions)
    return remembered, anew, best(look_up, len(keys), repetitions)


def idle(peers: int, repetitions: int) -> tuple[float, float, float]:
    """`next_action` with nothing to do, `handle_timeout` with nothing due, a bare method call."""
    node = node_with({})
    connect(node, peers, Subscription("readings", ""))
    node.send("readings", "", BODY)  # unacknowledged everywhere: a timeout for each is running
    turn(node)

    def poll() -> None:
        for _ in range(POLLS):
            node.next_action()

    def wait() -> None:
        for _ in range(POLLS):
            node.handle_timeout()
            node.next_timeout()

    class Bare:
        def method(self) -> None:
            return None

    def call(bare: Bare) -> None:
        for _ in range(POLLS):
            bare.method()

    figures = [best(job, POLLS, repetitions) for job in (poll, wait, lambda: call(Bare()))]
    return figures[0], figures[1], figures[2]


def fan_out(peers: int, repetitions: int) -> tuple[float, float, float]:
    """Nanoseconds a message: from the send to the last Transmit, from the acks to their Commit, a bare loop."""
    node = node_with({})
    cids = connect(node, peers, Subscription("readings", ""))
    items = [("readings", "cpu0", BODY)] * RUN
    ids: list[int] = []

    def take(action: Action) -> None:
        if isinstance(action, Commit):
            for operation in action.operations:
                if isinstance(operation, StoreMessages):
                    ids.extend(message.wire_id for message in operation.messages)

    def send() -> None:
        node.send_many(items)
        turn(node, take)

    def acknowledge(acks: bytes, now: float) -> None:
        for cid in cids:
            node.receive_data(cid, acks)
        turn(node)
        node.handle_timeout(now)  # removals are due
        turn(node)

    def bare() -> None:
        gathered: list[list[bytes]] = [[] for _ in range(peers)]
        for number, (channel, key, body) in enumerate(items, 1):
            frame = encode(Message(channel, key, body, number))
            for parts in gathered:
                parts.append(frame)
        for parts in gathered:
            b"".join(parts)

    sending, settling = [], []
    for number in range(repetitions):
        ids.clear()
        sending.append(best(send, RUN, 1))
        acks = b"".join(encode(Ack(one)) for one in ids)
        settling.append(best(partial(acknowledge, acks, 1.0 + number), RUN, 1))
        assert node.stats()["pending"] == 0
    return min(sending), min(settling), best(bare, RUN, repetitions)


def memory(peers: int, messages: int) -> tuple[float, float, float]:
    """Bytes for each: a peer that is connected, one that is away, a message queued for one that is away."""
    tracemalloc.start()
    connected = node_with({})
    before = tracemalloc.get_traced_memory()[0]
    connect(connected, peers, Subscription("readings", ""))
    here = (tracemalloc.get_traced_memory()[0] - before) / peers

    wants = frozenset([Subscription("readings", "")])
    before = tracemalloc.get_traced_memory()[0]
    node = node_with({uuid_of(number): LoadedPeer(wants) for number in range(peers)})
    away = (tracemalloc.get_traced_memory()[0] - before) / peers

    node = node_with({uuid_of(0): LoadedPeer(wants)})
    before = tracemalloc.get_traced_memory()[0]
    for number in range(messages // RUN):
        node.send_many([("readings", "cpu0", number.to_bytes(8, "big") * 128) for number in range(RUN)])
        turn(node)
    queued = (tracemalloc.get_traced_memory()[0] - before) / messages
    tracemalloc.stop()
    return here, away, queued


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=1_000_000, help="subscriptions")
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    ratios = []

    def table(
        title: str, sizes: list[int], names: list[str], measure: Callable[[int, int], tuple[float, ...]]
    ) -> list[tuple[float, ...]]:
        print(f"{title}\n  {'':<34}{''.join(f'{size:>12,}' for size in sizes)}   biggest/smallest")
        columns = [measure(size, options.repetitions) for size in sizes]
        for name, figures in zip(names, zip(*columns, strict=True), strict=True):
            row(name, [*figures])
        return columns

    print(f"CPython {platform.python_version()}, nanoseconds, the best of {options.repetitions}")
    sizes = [size for size in (10, 1000, 100_000, 1_000_000) if size <= options.most]
    columns = table("A match, by subscriptions", sizes, ["remembered", "looked up", "a bare dictionary"], routing)
    ratios += [columns[-1][at] / columns[0][at] for at in (0, 1)]
    sizes = [10, 100, 1000, 10_000]
    columns = table("With nothing to do, by peers", sizes, ["next_action", "handle_timeout", "a bare method"], idle)
    ratios += [columns[-1][at] / columns[0][at] for at in (0, 1)]
    sizes = [1, 10, 100]
    names = ["a message, send to Transmit", "its acks, to their Commit", "a bare loop: encode, append, join"]
    columns = table("Fan-out, by recipients", sizes, names, fan_out)
    for name, at in (("send to Transmit, a recipient", 0), ("acks to Commit, a recipient", 1)):
        row(name, [figures[at] / size for size, figures in zip(sizes, columns, strict=True)])
    row("send to Transmit, of a bare loop", [figures[0] / figures[2] for figures in columns])
    here, away, queued = memory(1000, 100_000)
    print(
        f"Bytes of memory: {here:,.0f} a connected peer, {away:,.0f} a known one, {queued:.3f} a queued message of 1 kB"
    )
    print(f"again with: python benchmarks/node.py --most {options.most} --repetitions {options.repetitions}")
    return int(max(ratios) > FLAT)


if __name__ == "__main__":
    sys.exit(main())
