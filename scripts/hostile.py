"""What hostile and many peers cost an instance, on a loop of choice, against the aims of PROOF.md. Linux only.

    python scripts/hostile.py slowloris KIND     V13: 1,000 silent connections and 1,000 that do TLS and no more
    python scripts/hostile.py half-open KIND     V14: a peer that is stopped, and a line that drops every packet
    python scripts/hostile.py slow-reader KIND   V16: a peer that reads nothing, and what the others see of it
    python scripts/hostile.py many KIND          V19: 2,000 peers on one instance

KIND is asyncio, uvloop, trio, blocking ...; `--size N` is another number of strangers, messages or peers. The machine
should do nothing else: latencies are those of all that runs on it. Exit status 1 where an aim is missed.

The idea: the scenarios are the tests' own (`tests/adapters/scenarios.py`), only larger and with default figures.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

sys.path[:0] = [str(Path(__file__).parent.parent)]  # the scenarios are beside the tests that use them

from tests.adapters.crowd import raise_limit  # noqa: E402  # the line above comes first
from tests.adapters.facade import deadline  # noqa: E402  # as above
from tests.adapters.kinds import KINDS, make_world  # noqa: E402  # as above
from tests.adapters.member import Member  # noqa: E402  # as above
from tests.adapters.nodes import Nodes, subscribed  # noqa: E402  # as above
from tests.adapters.scenarios import Outage, many, outage, siege, slowness  # noqa: E402  # as above
from tests.adapters.silence import silence  # noqa: E402  # as above
from tests.certificates import Certificates  # noqa: E402  # as above
from tolliver_proto import Limits  # noqa: E402  # as above

KIB, MIB = 2**10, 2**20
ADDRESSES = 8  # of strangers
PATIENCE = 120.0  # seconds, above every aim


class Figure(NamedTuple):
    """What was measured, and what it may be at most: equal is good, too."""

    what: str
    value: float
    most: float
    unit: str = "s"

    @property
    def good(self) -> bool:
        return self.value <= self.most

    def __str__(self) -> str:
        verdict = "pass" if self.good else "FAIL"
        return f"  {self.what}: {self.value:,.4g} {self.unit}, at most {self.most:,.4g}: {verdict}"


def slowloris(nodes: Nodes, size: int) -> Iterator[Figure]:
    limits = Limits()
    seen = siege(nodes, size, size, ADDRESSES, limits)
    held = [shut for shut in (*seen.silent, *seen.only_tls) if shut > limits.handshake_timeout - 1]
    print(f"{2 * size} strangers of {ADDRESSES} addresses, default bounds (D-7): all but {len(held)} refused at once")
    yield Figure("let in", len(held), ADDRESSES * limits.max_handshakes_per_address, "connections")
    yield Figure("a good peer connects in", seen.joined, 1.0)
    yield Figure("the last is closed after", max(held), limits.handshake_timeout + 1)

    limits = Limits(max_handshakes=3 * size, max_handshakes_per_address=3 * size)
    seen = siege(nodes, size, size, ADDRESSES, limits)
    print(f"{2 * size} strangers and bounds that let all of them in")
    yield Figure("a good peer connects in", seen.joined, 1.0)
    for name, shut in (("silent", seen.silent), ("TLS-only", seen.only_tls)):
        off = max(abs(one - limits.handshake_timeout) for one in shut)
        yield Figure(f"{name} ones are closed at {limits.handshake_timeout:g} s, give or take", off, 1.0)
    yield Figure("nothing of them is left after another", seen.let_go, limits.close_timeout + 1)


def half_open(nodes: Nodes, size: int) -> Iterator[Figure]:
    for under_way in (0, size):
        member = Member(nodes.world.kind, nodes.directory / "member.db", nodes.certs.tls("member"))
        with member, nodes.open("left", probe="message") as left:
            left.new_connection(member.address)
            subscribed(left)
            print(f"a peer that is stopped, {under_way} messages under way (probes of 30 s and 30 s, T-80)")
            yield from _judge(outage(left, member, member.stopped(), under_way=under_way, most=PATIENCE))
        _forget(nodes)
        with nodes.pair() as (left, right, inbox):
            subscribed(left)
            print(f"a line that drops every packet, {under_way} messages under way (keepalive of the kernel, D-8)")
            yield from _judge(outage(left, inbox, silence(right.port or 0), under_way=under_way, most=PATIENCE))
        _forget(nodes)


def _forget(nodes: Nodes) -> None:
    for database in nodes.directory.glob("*.db*"):
        database.unlink()


def _judge(seen: Outage) -> Iterator[Figure]:
    yield Figure("noticed after", seen.noticed, 60.5)
    yield Figure("everything is there after another", seen.recovered, 60.0)
    yield Figure("lost", seen.lost, 0, "messages")


def slow_reader(nodes: Nodes, size: int) -> Iterator[Figure]:
    body = 64 * KIB
    seen = slowness(nodes, size, body, 2000)
    print(f"a peer that reads nothing, {size} messages of {body // KIB} KiB for it, and 2,000 round trips of another")
    yield Figure("held in memory", seen.held / KIB, (MIB + body + 100) / KIB, "KiB")
    yield Figure("not on disk", size - seen.waiting, 0, "messages")
    before, during = (quantiles(times, n=100)[98] * 1000 for times in (seen.before, seen.during))
    print(f"  p99 of the others before: {before:.2f} ms")
    yield Figure("p99 of the others meanwhile", during, 2 * before, "ms")


def many_peers(nodes: Nodes, size: int) -> Iterator[Figure]:
    seen = many(nodes, size)
    print(f"{size} peers over TLS: all are connected after {seen.connecting:.1f} s ({size / seen.connecting:.0f}/s)")
    yield Figure("memory of each", seen.each / KIB, 100.0, "KiB")
    yield Figure("one message is acknowledged by all after", seen.reaching, 10.0)


COMMANDS: dict[str, tuple[Callable[[Nodes, int], Iterator[Figure]], int]] = {
    "slowloris": (slowloris, 1000),
    "half-open": (half_open, 100),
    "slow-reader": (slow_reader, 500),
    "many": (many_peers, 2000),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--size", type=int, default=None)
    options = parser.parse_args()
    measure, size = COMMANDS[options.command]
    logging.getLogger("tolliver").setLevel(logging.ERROR)  # that strangers are refused is what is asked for
    raise_limit()
    deadline.LIMIT = float("inf")  # of a test
    deadline.restart()
    world, good, began = make_world(options.kind), True, time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        certs = Certificates(Path(directory))
        for figure in measure(Nodes(Path(directory), certs, world), options.size or size):
            print(figure, flush=True)
            good = good and figure.good
    world.close()
    print(
        f"{options.command} on {options.kind}: {'pass' if good else 'FAIL'}, {time.monotonic() - began:.0f} s, "
        f"load of this machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    print(f"again: python scripts/hostile.py {' '.join(sys.argv[1:])}")
    return not good


if __name__ == "__main__":
    sys.exit(main())
