"""Scale: growth of time, frames and memory with the network.

    python -m scripts.prove.scale [--nodes 1000] [--subscriptions 10000] [--connections 10000]

Real nodes over stores in memory, joined by a network without faults (`crowd.py`), run until all know what all others
want, in sizes up to the one that is asked for; a power law is fitted to how each figure grows. Every size runs
in a process of its own, as memory is that of a process. One node alone is measured too: with many connections, and
routing with many subscriptions. CPU seconds are those of all nodes together, on one core. Exit status 1 if a remote
list is not the local one.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from random import Random
from statistics import linear_regression
from typing import NamedTuple

import psutil

from scripts.prove.crowd import TOPOLOGIES, Crowd, uuid_of
from tolliver_proto import (
    Commit,
    HandshakeRequest,
    Limits,
    Node,
    PeerIdentity,
    Role,
    Subscription,
    Transmit,
    encode,
)

SHARES = (0.1, 0.3, 1.0)  # of the nodes that are asked for
LARGEST_MESH = 100  # nodes: its connections grow with the square
KIB = 2**10


class Row(NamedTuple):
    """One network, from the first dial to quiet, and then one change of everybody's list."""

    topology: str
    nodes: int
    connections: int
    refused: int
    wrong: int
    seconds: float  # virtual
    cpu: float
    frames: int
    bytes: int
    change_seconds: float
    change_cpu: float
    change_frames: int
    memory: int  # bytes of the process, above what it had before


def measure(topology: str, size: int, subscriptions: int) -> Row:
    """In a process of its own."""
    process = psutil.Process()
    before = process.memory_info().rss
    crowd = Crowd(size, subscriptions)
    began = time.process_time()
    joined = crowd.join(TOPOLOGIES[topology](size))
    met = time.process_time()
    memory = process.memory_info().rss - before
    wrong = sum(1 for _ in crowd.strangers())
    changing = time.process_time()
    changed = crowd.change()
    done = time.process_time()
    wrong += sum(1 for _ in crowd.strangers())
    return Row(
        topology,
        size,
        crowd.ends // 2,
        crowd.refused,
        wrong,
        joined.seconds,
        met - began,
        joined.frames,
        joined.bytes,
        changed.seconds,
        done - changing,
        changed.frames,
        memory,
    )


def exponent(pairs: Sequence[tuple[float, float]]) -> float:
    """k of y = c * x^k, fitted to points on logarithmic scales."""
    return linear_regression([math.log(x) for x, _ in pairs], [math.log(max(y, 1e-9)) for _, y in pairs]).slope


def sizes(topology: str, nodes: int) -> list[int]:
    most = min(nodes, LARGEST_MESH) if topology == "mesh" else nodes
    return sorted({max(4, round(most * share)) for share in SHARES})


def networks(nodes: int, subscriptions: int) -> Iterator[Row]:
    """Each topology in growing sizes, with as many subscriptions for each node in all of them."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        for topology in TOPOLOGIES:
            for size in sizes(topology, nodes):
                yield pool.submit(measure, topology, size, max(1, subscriptions * size // nodes)).result()


HEAD = (
    "network    nodes  connections  refused  virtual s  CPU s  frames   MB     MiB   KiB/node"
    "  | change: virtual s  CPU s  frames"
)


def line(row: Row) -> str:
    return (
        f"{row.topology:9}{row.nodes:7,}{row.connections:13,}{row.refused:9,}{row.seconds:11.3f}{row.cpu:7.2f}"
        f"{row.frames:8,}{row.bytes / 1e6:6.1f}{row.memory / KIB**2:8.1f}{row.memory / KIB / row.nodes:11.1f}"
        f"{row.change_seconds:22.3f}{row.change_cpu:7.2f}{row.change_frames:8,}"
    )


def growth(rows: Sequence[Row]) -> str:
    """By what power of the number of nodes each figure grows."""
    fitted = {
        name: exponent([(row.nodes, getattr(row, name)) for row in rows])
        for name in ("connections", "cpu", "frames", "bytes", "memory", "change_cpu", "change_frames")
    }
    return f"{rows[0].topology:9}grows with nodes^k: " + ", ".join(
        f"{name.replace('_', ' of a ').replace('change of a', 'change:')} {k:.2f}" for name, k in fitted.items()
    )


# One node.


def crowded_node(connections: int) -> tuple[float, float, float]:
    """Bytes for each connection (traced), the same of the process, and CPU seconds for each."""
    node = Node(instance_id=uuid_of(0), rng=Random(0), limits=Limits(max_handshakes=connections), now=0.0)
    hellos = [encode(HandshakeRequest(1, uuid_of(one + 1), (Subscription("c", ""),))) for one in range(connections)]
    process = psutil.Process()
    rss = process.memory_info().rss
    began = time.process_time()
    for one in range(connections // 2):
        connect(node, hellos[one], one)
    cpu = (time.process_time() - began) / (connections // 2)
    resident = (process.memory_info().rss - rss) / (connections // 2)
    tracemalloc.start()
    for one in range(connections // 2, connections):
        connect(node, hellos[one], one)
    traced = tracemalloc.get_traced_memory()[0] / (connections - connections // 2)
    tracemalloc.stop()
    up = node.stats()["peers_up"]
    if up != connections:
        raise SystemExit(f"{up} of {connections} connections are up: the rest was refused or lost")
    return traced, resident, cpu


def connect(node: Node, hello: bytes, one: int) -> None:
    """A peer dials in, and says what it wants."""
    cid = node.new_cid(0.0, f"of {one}")
    assert cid is not None, "the limit is as high as there are connections"
    node.opened(cid, Role.SERVER, PeerIdentity(address=f"of {one}"), 0.0)
    node.receive_data(cid, hello, 0.0)
    while (action := node.next_action()) is not None:
        if isinstance(action, Commit):
            node.committed(action.batch_id, 0.0)
        elif isinstance(action, Transmit):
            node.sent(action.cid, 0.0)


ROUTED = (100, 1_000, 10_000, 100_000)  # subscriptions


def routing(count: int, messages: int = 20_000) -> float:
    """CPU seconds to route one message, where that many are subscribed to and every name is a new one."""
    peers = max(1, count // 1000)
    node = Node(instance_id=uuid_of(0), rng=Random(0), limits=Limits(max_handshakes=peers), now=0.0)
    for one in range(peers):
        names = tuple(Subscription(f"channel {at}", "") for at in range(one, count, peers))
        connect(node, encode(HandshakeRequest(1, uuid_of(one + 1), names)), one)
    channels = [f"channel {at % count}" for at in range(messages)]
    began = time.process_time()
    for at, channel in enumerate(channels):
        node.unreliable_send(channel, f"key {at}", b"")
        if at % 1000 == 999:
            while (action := node.next_action()) is not None:
                if isinstance(action, Transmit):
                    node.sent(action.cid, 0.0)
    return (time.process_time() - began) / messages


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--subscriptions", type=int, default=10_000, help="of all nodes together")
    parser.add_argument("--connections", type=int, default=10_000, help="of one node")
    options = parser.parse_args()
    rows: list[Row] = []
    print(HEAD)
    for row in networks(options.nodes, options.subscriptions):
        rows.append(row)
        print(line(row), flush=True)
    print()
    for topology in TOPOLOGIES:
        print(growth([row for row in rows if row.topology == topology]))
    traced, resident, cpu = crowded_node(options.connections)
    print(f"\none node, {options.connections:,} connections: {traced / KIB:.1f} KiB each (traced), ", end="")
    print(f"{resident / KIB:.1f} KiB (process), {cpu * 1e3:.2f} ms of CPU to make one")
    costs = [(count, routing(count)) for count in ROUTED]
    told = ", ".join(f"{seconds * 1e6:.1f} us with {count:,}" for count, seconds in costs)
    print(f"routing one message by subscriptions: {told}: grows with subscriptions^{exponent(costs):.2f}")
    wrong = sum(row.wrong for row in rows)
    largest = next(row for row in reversed(rows) if row.topology == "regular")
    print(
        f"result: scale | {largest.nodes:,} nodes, {options.subscriptions:,} subscriptions | converged in "
        f"{largest.seconds:.3f} virtual s, {largest.cpu:.1f} CPU s and {largest.frames:,} frames over "
        f"{largest.connections:,} connections, {wrong} lists wrong; {options.connections:,} connections on one node at "
        f"{traced / KIB:.1f} KiB each"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
