"""Scenarios of hostile and many peers, which return figures.

A scenario takes its size and its bounds. The tests run it small and assert what must hold at any size;
`scripts/prove/hostile.py` runs it as large as docs/proof.md says, on a machine of its own, and judges the figures.
"""

from __future__ import annotations

import gc
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Protocol

import psutil
from tolliver._tls.policy import client_context

from tests.raw import RawPeer
from tolliver_proto import Limits
from tolliver_proto import reactive as rs
from tolliver_proto._testing.inspection import inside

from .crowd import Crowd, raise_limit
from .facade import STEP, Facade, until
from .mallory import Streamer
from .nodes import SOMEBODY, Nodes, address, connected
from .strangers import Stranger, Watch, source
from .streams import Stage, StreamsFacade

LOOK_EVERY = 50  # strangers
MOST_BUFFERED = 2**26  # bytes, above what the kernel and an instance hold for one connection


def seconds_until(true: Callable[[], object], most: float) -> float:
    """Seconds that it took; `most` where it did not come."""
    began = time.monotonic()
    while not true() and time.monotonic() < began + most:
        time.sleep(STEP)
    return time.monotonic() - began


# V13: strangers that say nothing.


@dataclass
class Siege:
    """In seconds: how long a good peer took to connect, and how long each stranger was let be."""

    joined: float
    silent: list[float]
    only_tls: list[float]
    let_go: float
    """From when the last one was closed until nothing of any was left."""


def siege(nodes: Nodes, silent: int, only_tls: int, sources: int, limits: Limits) -> Siege:
    """Strangers from so many addresses, and then a good peer from another one."""
    context = client_context(nodes.certs.tls("mallory"))
    most = limits.handshake_timeout + limits.close_timeout + 10.0
    with nodes.open("right", limits=limits) as right, nodes.open("left") as left:
        seen = _besiege(right, lambda: left.new_connection(address(right)), silent, only_tls, sources, context, most)
        assert connected(left) == 1
        return seen


def siege_of_streams(stage: Stage, silent: int, only_tls: int, sources: int, limits: rs.Limits) -> Siege:
    """The same in the other protocol: who does TLS and says no hello."""
    context = client_context(stage.certs.tls("mallory"))
    most = limits.handshake_timeout + limits.close_timeout + 10.0
    right, left = stage.open(tls="right", limits=limits), stage.open(tls="left", listen=None)
    seen = _besiege(right, lambda: left.connect(right), silent, only_tls, sources, context, most)
    assert len(left.peers()) == 1
    return seen


def _besiege(
    right: Facade | StreamsFacade,
    join: Callable[[], object],
    silent: int,
    only_tls: int,
    sources: int,
    context: ssl.SSLContext,
    most: float,
) -> Siege:
    with Watch() as watch:

        def come(count: int, tls: ssl.SSLContext | None) -> list[Stranger]:
            crowd = []
            for number in range(count):
                crowd.append(watch.add(Stranger(right.port or 0, source(number % sources), tls)))
                if number % LOOK_EVERY == 0:
                    watch.look()  # the first may be closed before the last have come
            return crowd

        without, within = come(silent, None), come(only_tls, context)
        began = time.monotonic()
        join()
        joined = time.monotonic() - began
        watch.look(most)
        let_go = seconds_until(lambda: right.stats()["connections"] == 1, most)
        return Siege(joined, _times(without, most), _times(within, most), let_go)


def _times(crowd: list[Stranger], most: float) -> list[float]:
    return [most if one.shut is None else one.shut for one in crowd]


# V14: lines and peers that no longer answer, and do not say so.


@dataclass
class Outage:
    """In seconds: until it was noticed, and until all was there once it was over; and how many messages were not."""

    noticed: float
    recovered: float
    lost: int


class DedupeCache(Protocol):
    """An inbox, wherever it is."""

    @property
    def bodies(self) -> list[bytes]: ...


def outage(
    left: Facade,
    there: DedupeCache,
    broken: AbstractContextManager[None],
    *,
    under_way: int,
    most: float,
) -> Outage:
    """Messages before it, so many when it begins, and some while it lasts."""
    sent: set[bytes] = set()

    def send(what: str, count: int) -> None:
        bodies = [b"%s %d" % (what.encode(), number) for number in range(count)]
        sent.update(bodies)
        for body in bodies:
            left.send("news", "", body)

    send("before", 5)
    until(lambda: sent <= set(there.bodies) and not left.stats()["pending"])
    with broken:
        send("under way", under_way)
        noticed = seconds_until(lambda: not connected(left), most)
        send("meanwhile", 20)
    recovered = seconds_until(lambda: connected(left) and not left.stats()["pending"], most)
    seconds_until(lambda: sent <= set(there.bodies), 1.0)
    return Outage(noticed, recovered, len(sent - set(there.bodies)))


# V16: a peer that reads nothing.


@dataclass
class Slowness:
    """Its costs, and what the others see of it. Bytes and seconds."""

    held: int
    """In this process for that peer: what was taken from the store or sent unreliably, and is not the kernel's yet."""
    waiting: int
    """Reliable messages that are on disk for it; of streams, the elements that were taken from the source."""
    arrived: int
    before: list[float]
    during: list[float]
    """From `send` to the other peer's ack, each."""


def slowness(nodes: Nodes, messages: int, size: int, samples: int) -> Slowness:
    with (
        nodes.pair() as (left, _, inbox),
        RawPeer(left.port or 0, nodes.certs.tls("mallory"), nodes.certs.uuid("mallory"), ["bulk"]) as raw,
    ):
        before = [_round_trip(left) for _ in range(samples)]
        sent = left.stats()["sent_bytes"]
        raw.establish()
        until(lambda: connected(left) == 2)
        _fill(left, raw, bytes(size))
        for _ in range(messages):
            left.send("bulk", "", bytes(size))
        underway = _at_rest(lambda: in_kernel(raw, left))  # bytes read, but not yet acknowledged, would count twice
        held = left.stats()["sent_bytes"] - sent - underway + _queued(left)
        during = [_round_trip(left) for _ in range(samples)]
        waiting = {peer.uuid: peer.pending for peer in left.peers()}[nodes.certs.uuid("mallory")]
        return Slowness(held, waiting, len(inbox.bodies), before, during)


def _fill(node: Facade, raw: RawPeer, body: bytes) -> None:
    """Until the kernel's buffers and ours are full: ours alone may be, while the kernel takes what is in them."""
    for _ in range(MOST_BUFFERED // len(body)):
        if not node.unreliable_send("bulk", "", body):
            _at_rest(lambda: in_kernel(raw, node))
            if not node.unreliable_send("bulk", "", body):
                return


def slowness_of_streams(stage: Stage, samples: int) -> Slowness:
    """In the other protocol: a subscriber that wants all of an endless source and reads nothing (R-32)."""
    size, pulled = 64 * 2**10, 0

    def endless(_name: str) -> Iterator[bytes]:
        nonlocal pulled
        while True:
            pulled += 1
            yield bytes(size)

    right, left = stage.open(tls="right"), stage.open(tls="left", listen=None)
    right.publish("bulk", endless)
    right.publish("news", lambda _name: repeat(b"x"))
    taken = left.connect(right).subscribe("news", prefetch=0)

    def round_trip() -> float:
        began = time.perf_counter()
        taken.request(1)
        next(taken)
        return time.perf_counter() - began

    before = [round_trip() for _ in range(samples)]
    with Streamer(right.port or 0, client_context(stage.certs.tls("mallory"))) as deaf:
        deaf.say(rs.Subscribe("bulk", 1, rs.UNBOUNDED))
        held = 0

        def stuck() -> bool:
            """A source that stands still may only wait for its turn: it is stuck when bytes wait for the kernel."""
            nonlocal held
            _at_rest(lambda: pulled)
            held = right.stats()["unsent_bytes"]
            return held > 0

        until(stuck)
        during = [round_trip() for _ in range(samples)]
        return Slowness(held, pulled, 0, before, during)


def _at_rest(look: Callable[[], int]) -> int:
    """The number that was seen twenty times in a row."""
    seen, still = look(), 0
    while still < 20:
        time.sleep(STEP)
        before, seen = seen, look()
        still = still + 1 if seen == before else 0
    return seen


def _round_trip(left: Facade) -> float:
    began = time.perf_counter()
    left.wait_acked(left.send("news", "", b"x"))
    return time.perf_counter() - began


def _queued(node: Facade) -> int:
    """Bytes in the connections' own buffers, that the transport was not given."""

    def look(instance: object) -> int:
        links = inside(instance.node).context.links.values()  # type: ignore[attr-defined]  # any adapter's
        return sum(link.connection.unsent_bytes for link in links if link.connection is not None)

    return int(node._look(look))


def in_kernel(raw: RawPeer, node: Facade) -> int:
    """Bytes on the way from the node to the peer that its process no longer has and the peer has not read.

    As they are in TLS, which adds two in a thousand to what is large.
    """
    ours = raw._socket.getsockname()[1]
    total = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        local, remote = (int(end.rpartition(":")[2], 16) for end in fields[1:3])
        unacknowledged, unread = (int(queue, 16) for queue in fields[4].split(":"))
        if (local, remote) == (node.port, ours):
            total += unacknowledged
        elif (local, remote) == (ours, node.port):
            total += unread
    return total


# V19: many peers.


@dataclass
class Many:
    """In seconds: until all were connected, and until all had acknowledged one message. Memory in bytes."""

    connecting: float
    reaching: float
    each: float
    """Of this process, for each connection."""


def many(nodes: Nodes, count: int) -> Many:
    """So many peers, from another process."""
    raise_limit()
    with nodes.open("node", limits=Limits(handshake_timeout=60.0, peers_per_key=2 * count)) as node:
        tls = nodes.certs.tls("anonymous")
        with RawPeer(node.port or 0, tls, SOMEBODY, ["news"]) as first:  # all that comes once is there then
            first.establish()
            until(lambda: connected(node) == 1)
        node.forget_peer(SOMEBODY)
        until(lambda: not connected(node))
        gc.collect()
        empty, began = _memory(), time.monotonic()
        with Crowd(node.port or 0, count, tls):
            until(lambda: connected(node) == count)
            connecting = time.monotonic() - began
            gc.collect()
            each = (_memory() - empty) / count
            assert len({peer.uuid for peer in node.peers() if peer.connected}) == count
            began = time.monotonic()
            receipt = node.send("news", "", b"to all")
            assert receipt.recipients == count
            node.wait_acked(receipt)
            return Many(connecting, time.monotonic() - began, each)


def _memory() -> int:
    return int(psutil.Process().memory_info().rss)
