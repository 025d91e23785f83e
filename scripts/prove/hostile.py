"""Hostile and many peers: what they cost an instance. Linux only.

    python -m scripts.prove.hostile bombs KIND         V11: 1,000 heads that announce gigabytes
    python -m scripts.prove.hostile linear KIND        V12: a frame of 16 MiB in small pieces
    python -m scripts.prove.hostile slowloris KIND     V13: 1,000 silent connections and 1,000 that do TLS and no more
    python -m scripts.prove.hostile half-open KIND     V14: a peer that is stopped, and a line that drops every packet
    python -m scripts.prove.hostile slow-reader KIND   V16: a peer that reads nothing, and what the others see of it
    python -m scripts.prove.hostile many KIND          V19: 2,000 peers on one instance
    python -m scripts.prove.hostile handlers KIND      D-9: slow, stuck and dead handlers, and what others see of them
    python -m scripts.prove.hostile abuse KIND         D-12: members that go wrong in every way, and 1,000 visits
    python -m scripts.prove.hostile relays KIND        100,000 relays of streams whose subscribers leave
    python -m scripts.prove.hostile all KIND           all of these

KIND is asyncio, uvloop, trio, blocking ...; `--size N` is another number of strangers, messages, peers or visits, or of
MiB; `--of messages` or `--of streams` one of the two protocols, where a command has both. The machine should do nothing
else: latencies are those of all that runs on it. Exit status 1 where an aim is missed.

The scenarios are the tests' own (`tests/adapters/scenarios.py`, `abuse.py`), only larger and with default figures. In
the measurements of memory and time the victim is a process of its own.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

import anyio
import psutil

from tests.adapters import (
    abuse,
    abuse_streams,
    facade,
)
from tests.adapters.churn import left_behind
from tests.adapters.crowd import raise_limit
from tests.adapters.facade import deadline
from tests.adapters.kinds import KINDS, make_world
from tests.adapters.mallory import Mallory, Streamer, packed, streamed
from tests.adapters.member import Member
from tests.adapters.misbehaving import misbehaviour
from tests.adapters.nodes import Nodes, subscribed
from tests.adapters.relays import relay_and_leave
from tests.adapters.scenarios import (
    Outage,
    Siege,
    Slowness,
    many,
    outage,
    siege,
    siege_of_streams,
    slowness,
    slowness_of_streams,
)
from tests.adapters.silence import silence
from tests.adapters.streams import Stage
from tests.adapters.victim import AnyLimits, Apart, Of, Victim, Watched
from tests.certificates import Certificates
from tolliver_proto import Limits, Message, Policy
from tolliver_proto import reactive as rs

KIB, MIB = 2**10, 2**20
ADDRESSES = 8  # of strangers
AT_ONCE = 1.0  # seconds: a silent stranger that was let in stays for two, and one that does TLS for ten
PATIENCE = 300.0  # seconds, above every aim


class Figure(NamedTuple):
    """A measured figure, and its maximum: equal is good, too."""

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

    @property
    def short(self) -> str:
        return f"{self.what} {self.value:,.3g} {self.unit}{'' if self.good else f' (aim {self.most:,.3g}: MISSED)'}"


SIDES: dict[Of, Any] = {"messages": abuse, "streams": abuse_streams}
LIMITS: dict[Of, AnyLimits] = {"messages": Limits(), "streams": rs.Limits()}  # the default ones
MEMORY = 48.0
"""MiB that abuse may cost. A peer may have 1,000 streams open, each with a task of 6 to 8 KiB and its buffers."""
WARM_UP = 2000  # relays; what a process needs once is there then
KEPT = 1.0
"""MiB that any number of relays may leave: ten bytes for each of a hundred thousand."""
BUSY = 0.5
"""Seconds of the victim's CPU in a good peer's round trip, in which others have one turn before its request is read and
one before its answer goes out. A turn is bounded by its time, by 64 KiB and, as streams begin in the loop's next round,
by the 128 events of `max_turn`."""


@contextmanager
def victim(nodes: Nodes, of: Of) -> Iterator[Apart]:
    with TemporaryDirectory() as directory:
        kind, tls = nodes.world.kind, nodes.certs.tls("victim")
        with Apart(of, kind, Path(directory), tls, LIMITS[of]) as apart:
            yield apart


def connect(of: Of, nodes: Nodes, target: Victim, attack: abuse.Attack) -> Mallory:
    by = abuse.member if of == "messages" else abuse_streams.streamer
    return by(nodes.certs, target, attack)


def bombs(nodes: Nodes, size: int, of: Of) -> Iterator[Figure]:
    with victim(nodes, of) as target:
        attacks = SIDES[of].BOMBS
        wrong = _bombs(of, nodes, target, [*attacks.values()] * 3)  # all that comes once is there then
        before = target.usage().memory
        with target.watched() as watched:
            wrong += _bombs(of, nodes, target, islice(cycle(attacks.values()), size))
        after = target.usage().memory
    print(f"{of}: {size} bombs of {len(attacks)} sorts, {watched.cpu * 1000 / size:.2f} ms of CPU each with their TLS")
    yield Figure(f"{of}: let past", wrong, 0, "bombs")
    yield Figure(f"{of}: memory grew by at most", watched.peak / MIB, 8.0, "MiB")
    yield Figure(f"{of}: memory kept", (after - before) / MIB, 8.0, "MiB")


def _bombs(of: Of, nodes: Nodes, target: Victim, attacks: Iterable[abuse.Attack]) -> int:
    wrong = 0
    for attack in attacks:
        with connect(of, nodes, target, attack) as mallory:
            outcome = abuse.suffer(attack, mallory, target, 1)
            wrong += outcome != attack.outcome
            if outcome != attack.outcome:
                print(f"  {outcome}, not {attack.outcome}")
    return wrong


@contextmanager
def one_core() -> Iterator[None]:
    """This process, and those that it starts here, take turns on one core, which `os.sched_yield` hands on.

    Else it is chance how many pieces have gathered each time a reader wakes; as that costs ten times as much as to read
    one, two runs would not compare.
    """
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def linear(nodes: Nodes, size: int, of: Of) -> Iterator[Figure]:
    """A whole frame in pieces of so many bytes, a TLS record each: CPU of who reads it."""
    for piece in (64, 512):
        whole = size * MIB * piece // 512  # smaller pieces of a smaller frame: as many of them, and as long
        pairs = [[_reading(nodes, of, n, piece) for n in (whole // 2, whole)] for _ in range(3)]  # in turns
        short, long = (min(times) for times in zip(*pairs, strict=True))
        each = long * piece / whole * 1e6
        print(f"{of}: {whole / MIB:g} MiB in pieces of {piece} bytes: {long:.2f} s, {each:.1f} us each")
        ratio = long / short
        yield Figure(f"{of}: twice {whole / MIB / 2:g} MiB in pieces of {piece} B takes", ratio, 2.3, "times as long")


def _reading(nodes: Nodes, of: Of, size: int, piece: int) -> float:
    plain = abuse.Attack(lambda *_: None, abuse.HARMLESS)
    with one_core(), victim(nodes, of) as target, connect(of, nodes, target, plain) as mallory:
        if isinstance(mallory, Streamer):
            frame = streamed(rs.OnNext(abuse_streams.bait(mallory, target), bytes(size - 100)))
        else:
            frame = packed(Message("flood", "", bytes(size - 100), 5))
        mallory.sync()
        before = target.usage().cpu
        pieces = [frame[at : at + piece] for at in range(0, len(frame), piece)]
        for one in pieces:
            if not mallory.write(one):
                raise AssertionError("the victim has ended the connection")
            os.sched_yield()
        mallory.sync()
        return target.usage().cpu - before


class Beside:
    """A good peer and its round trips, one after the other, on a thread. Use it as a context manager.

    The CPU seconds of the victim meanwhile are the time that the trip would take if the machine had nothing else.
    """

    def __init__(self, good: Any, watched: Watched) -> None:
        self.times: list[float] = []
        self.cpu: list[float] = []
        self._watched = watched
        self._good = good
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            before = self._watched.now()
            self.times.append(self._good.round_trip())
            self.cpu.append(self._watched.now() - before)
            self._over.wait(0.002)


def abused(nodes: Nodes, size: int, of: Of) -> Iterator[Figure]:
    wrong, memory, worst, busy = 0, 0, 0.0, 0.0
    with victim(nodes, of) as target, SIDES[of].Good(nodes.certs, target) as good:
        quiet = [good.round_trip() for _ in range(200)]
        print(f"{of}: a good peer's round trip alone: median {median(quiet) * 1000:.1f} ms, worst {max(quiet):.3f} s")
        print("  outcome, seconds, CPU of the victim, most memory beyond before, the good peer's worst round trip")
        for name, attack in SIDES[of].ABUSES.items():
            wanted = SIDES[of].names(10_000) if attack.wish and len(attack.wish) > 1 else attack.wish
            with (
                connect(of, nodes, target, replace(attack, wish=wanted)) as mallory,
                target.watched() as seen,
                Beside(good, seen) as beside,
            ):
                outcome = abuse.suffer(attack, mallory, target, attack.large)
            good.round_trip()
            print(
                f"  {name} x {attack.large:,}: {outcome}, {seen.seconds:.1f} s, {seen.cpu:.1f} s, "
                f"{seen.peak / MIB:.1f} MiB, {max(beside.times):.3f} s of which {max(beside.cpu):.2f} s of CPU",
                flush=True,
            )
            wrong += outcome != attack.outcome
            memory, worst, busy = max(memory, seen.peak), max(worst, *beside.times), max(busy, *beside.cpu)
        yield Figure(f"{of}: unexpected outcomes", wrong, 0, f"of {len(SIDES[of].ABUSES)} attacks")
        yield Figure(f"{of}: memory at most", memory / MIB, MEMORY, "MiB")
        print(f"  {of}: a good peer's worst round trip: {worst:.3f} s, with all else that the machine did")
        yield Figure(f"{of}: CPU of the victim in a good peer's worst round trip", busy, BUSY)
        left = left_behind(of, nodes.certs, target, size)
        print(f"{of}: {size} visits that end in eight ways: {left.cpu * 1000 / size:.2f} ms of CPU each")
        yield Figure(f"{of}: visits leave", left.descriptors, 0, "descriptors")
        yield Figure(f"{of}: and", left.threads, 0, "threads")
        yield Figure(f"{of}: and of memory", left.memory / MIB, 4.0, "MiB")


def slowloris(nodes: Nodes, size: int, of: Of) -> Iterator[Figure]:
    limits, besiege = (Limits(), _siege) if of == "messages" else (rs.Limits(), _siege_of_streams)
    seen = besiege(nodes, size, limits)
    held = [sum(shut > AT_ONCE for shut in crowd) for crowd in (seen.silent, seen.only_tls)]
    print(f"{of}: {2 * size} strangers of {ADDRESSES} addresses, all but {sum(held)} refused at once (D-7)")
    yield Figure(f"{of}: a good peer connects beside them in", seen.joined, 1.0)
    most = ADDRESSES * limits.max_handshakes_per_address
    yield Figure(f"{of}: strangers that are not refused at once", max(held), most, f"of {size:,}, silent or TLS-only")
    yield Figure(f"{of}: the last is closed after", max(*seen.silent, *seen.only_tls), limits.handshake_timeout + 1)

    limits = replace(limits, max_handshakes=3 * size, max_handshakes_per_address=3 * size)
    seen = besiege(nodes, size, limits)
    print(f"{of}: {2 * size} strangers and bounds that let all of them in")
    yield Figure(f"{of}: a good peer connects in", seen.joined, 1.0)
    late = (("silent", seen.silent, 2.0), ("TLS-only", seen.only_tls, limits.handshake_timeout))
    for name, shut, due in late:
        off = max(abs(one - due) for one in shut)
        yield Figure(f"{of}: {name} ones are closed at {due:g} s, give or take", off, 1.0)
    yield Figure(f"{of}: nothing of them is left after another", seen.let_go, limits.close_timeout + 1)
    _forget(nodes)


def _siege(nodes: Nodes, size: int, limits: Any) -> Siege:
    return siege(nodes, size, size, ADDRESSES, limits)


def _siege_of_streams(nodes: Nodes, size: int, limits: Any) -> Siege:
    with Stage(nodes.world, nodes.certs) as stage:
        return siege_of_streams(stage, size, size, ADDRESSES, limits)


def half_open(nodes: Nodes, size: int, _of: Of) -> Iterator[Figure]:
    for under_way in (0, size):
        member = Member(nodes.world.kind, nodes.directory / "member.db", nodes.certs.tls("member"))
        with member, nodes.open("left", policy=Policy(probe="message")) as left:
            left.new_connection(member.address)
            subscribed(left)
            print(f"a peer that is stopped, {under_way} messages in flight (probes of 30 s and 30 s, T-80)")
            yield from _judge(outage(left, member, member.stopped(), under_way=under_way, most=PATIENCE))
        _forget(nodes)
        with nodes.pair() as (left, right, inbox):
            subscribed(left)
            print(f"a line that drops every packet, {under_way} messages in flight (keepalive of the kernel, D-8)")
            yield from _judge(outage(left, inbox, silence(right.port or 0), under_way=under_way, most=PATIENCE))
        _forget(nodes)


def _forget(nodes: Nodes) -> None:
    for database in nodes.directory.glob("*.db*"):
        database.unlink()


def _judge(seen: Outage) -> Iterator[Figure]:
    yield Figure("noticed after", seen.noticed, 60.5)
    yield Figure("everything is there after another", seen.recovered, 60.0)
    yield Figure("lost", seen.lost, 0, "messages")


def slow_reader(nodes: Nodes, size: int, of: Of) -> Iterator[Figure]:
    body = 64 * KIB
    if of == "streams":
        with Stage(nodes.world, nodes.certs) as stage:
            seen = slowness_of_streams(stage, 2000)
        print("streams: a subscriber that wants all of an endless source and reads nothing, 2,000 requests of another")
        yield Figure("streams: held in memory", seen.held / KIB, (MIB + 2 * body) / KIB, "KiB")
        yield _others(of, seen)
        return
    seen = slowness(nodes, size, body, 2000)
    print(f"messages: a peer that reads nothing, {size} of {body // KIB} KiB for it, 2,000 round trips of others")
    yield Figure("messages: held in memory", seen.held / KIB, (MIB + body + 100) / KIB, "KiB")
    yield Figure("messages: missing on disk", size - seen.waiting, 0, f"of {size}")
    yield _others(of, seen)


def _others(of: Of, seen: Slowness) -> Figure:
    before, during = (quantiles(times, n=100)[98] * 1000 for times in (seen.before, seen.during))
    print(f"  p99 of the others before: {before:.2f} ms")
    return Figure(f"{of}: p99 of the others meanwhile", during, 2 * before, "ms")


def many_peers(nodes: Nodes, size: int, _of: Of) -> Iterator[Figure]:
    seen = many(nodes, size)
    print(f"{size} peers over TLS: all are connected after {seen.connecting:.1f} s ({size / seen.connecting:.0f}/s)")
    yield Figure("memory of each", seen.each / KIB, 100.0, "KiB")
    yield Figure("one message is acknowledged by all after", seen.reaching, 10.0)


def handlers(nodes: Nodes, size: int, _of: Of) -> Iterator[Figure]:
    """Beside a handler that does not end, an iterator that nobody goes on reading, and a slow handler."""
    process = psutil.Process()
    seen = misbehaviour(nodes, size, lambda: int(process.memory_info().rss))
    before, beside_stuck, beside_slow = (
        quantiles(times, n=100)[98] * 1000 for times in (seen.before, seen.beside_stuck, seen.beside_slow)
    )
    print(f"a handler that does not end, an iterator that nobody reads on, p99 of another before: {before:.2f} ms")
    yield Figure("both are told after", seen.stuck_after, (Policy().stuck_after or 0.0) + 1)
    yield Figure("p99 of another channel beside them", beside_stuck, 2 * before, "ms")
    yield Figure("p99 of another peer beside a slow one", beside_slow, 2 * before, "ms")
    yield Figure("the sender's backoff set was full", seen.is_backoff_full, 0, "times")
    yield Figure("out of order", not seen.in_order, 0, "channels")
    yield Figure("held of who comes back", seen.held / MIB, Limits().inbox_bytes / MIB, "MiB")
    yield Figure("memory of both beyond before", seen.memory / MIB, MEMORY, "MiB")
    yield Figure("not handled when it goes on", seen.unhandled, 0, "messages")


def relays(nodes: Nodes, size: int, _of: Of) -> Iterator[Figure]:
    with victim(nodes, "streams") as relay:
        left = anyio.run(relay_and_leave, nodes.certs, relay, size, WARM_UP)
        stats = relay.stats()
    print(f"{size:,} relays whose subscribers left: {left.cpu * 1000 / size:.2f} ms of CPU each")
    yield Figure("they leave", stats["streams_given"] + stats["streams_taken"], 0, "streams")
    yield Figure("and", left.threads, 0, "threads")
    yield Figure("and", left.descriptors, 0, "descriptors")
    yield Figure("and of memory", left.memory / MIB, KEPT, "MiB")


class Command(NamedTuple):
    row: str
    measure: Callable[[Nodes, int, Of], Iterator[Figure]]
    size: int
    what: str
    both: bool = True
    """True if it is for streams, too."""


COMMANDS = {
    "bombs": Command("V11", bombs, 1000, "bombs"),
    "linear": Command("V12", linear, 16, "MiB in small pieces"),
    "slowloris": Command("V13", slowloris, 1000, "silent and as many TLS-only strangers"),
    "half-open": Command("V14", half_open, 100, "messages in flight", both=False),
    "slow-reader": Command("V16", slow_reader, 500, "messages of 64 KiB to who reads nothing"),
    "many": Command("V19", many_peers, 2000, "TLS peers of one process", both=False),
    "handlers": Command("D-9", handlers, 500, "round trips beside slow, stuck and dead handlers", both=False),
    "relays": Command("relays", relays, 100_000, "cancelled relays", both=False),
    "abuse": Command("D-12", abused, 1000, "visits, and every attack"),
}


def run(name: str, kind: str, size: int | None, sides: Sequence[Of]) -> bool:
    """Measure, and print the result. Returns True if every aim was met."""
    command, began = COMMANDS[name], time.monotonic()
    size = size or command.size
    figures = []
    world = make_world(kind)
    try:
        for of in sides if command.both else ("messages",):
            with TemporaryDirectory() as directory:
                nodes = Nodes(Path(directory), Certificates(Path(directory)), world)
                for figure in command.measure(nodes, size, of):
                    print(figure, flush=True)
                    figures.append(figure)
    finally:
        world.close()
    good = all(figure.good for figure in figures)
    print(
        f"{name} on {kind}: {'pass' if good else 'FAIL'}, {time.monotonic() - began:.0f} s, "
        f"load of this machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    said = "; ".join(figure.short for figure in figures)
    print(f"result: {command.row} | {size:,} {command.what}, {kind} | {said}", flush=True)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=[*COMMANDS, "all"])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--size", type=int, default=None)
    parser.add_argument("--of", choices=SIDES, default=None)
    options = parser.parse_args()
    logging.getLogger("tolliver").setLevel(logging.ERROR)  # that strangers are refused is what is asked for
    raise_limit()
    facade.PATIENCE = PATIENCE  # other work here may be slow, too
    deadline.LIMIT = float("inf")  # of a test
    Mallory.patience = PATIENCE
    deadline.restart()
    names = COMMANDS if options.command == "all" else [options.command]
    sides = [options.of] if options.of else [*SIDES]
    good = [run(name, options.kind, options.size, sides) for name in names]
    return not all(good)


if __name__ == "__main__":
    sys.exit(main())
