"""Crowd: many nodes in one process, joined by a faultless network.

`scripts/prove/scale.py` measures it. Each member is the real node over a store in memory, and one heap carries out
what the nodes ask for, with a fixed latency in virtual time. Nothing is checked on the way, as the simulator does: at
the end all lists are compared. A connection that ends is an error: in this network there is no reason for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from tolliver_proto import (
    Abort,
    Action,
    Commit,
    ConnectionLost,
    Deliver,
    Dial,
    Node,
    PeerDown,
    PeerIdentity,
    Role,
    ShutdownWrite,
    Transmit,
)
from tolliver_proto.recording import whole_frames
from tolliver_proto.testing import MemoryStore

LATENCY = 0.001  # virtual seconds, one way
COMMIT = 0.001  # virtual seconds of a commit
PATIENCE = 600.0  # virtual seconds in which it must be quiet
_ENDS = (Abort, PeerDown, ShutdownWrite)

Edges = Iterable[tuple[int, int]]
"""Dials, as pairs of numbers: from, to."""


class Distance(NamedTuple):
    """Amount of everything that had happened by some moment."""

    seconds: float
    """Virtual ones."""
    frames: int
    bytes: int


class Member:
    """One node, and who is at the other end of its connections."""

    __slots__ = ("node", "number", "others", "store", "timer")

    def __init__(self, number: int, rng: Random) -> None:
        self.number = number
        self.store = MemoryStore()
        self.node = Node(instance_id=uuid_of(number), rng=rng, now=0.0)
        self.others: dict[int, tuple[Member, int]] = {}
        self.timer = float("inf")


def uuid_of(number: int) -> UUID:
    return UUID(int=0x01890000_0000_7000_8000 << 48 | number + 1)


class Crowd:
    """`size` nodes with `subscriptions` together, one channel for each; `join` connects them."""

    def __init__(self, size: int, subscriptions: int, seed: int = 0) -> None:
        self.now = 0.0
        self.frames = self.bytes = self.refused = 0
        self.last_arrival = 0.0
        rng = Random(seed)
        self.members = [Member(number, rng) for number in range(size)]
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = 0
        self._do: dict[type, Callable[[Member, Any], None]] = {
            Transmit: self._transmit,
            Dial: lambda member, action: self._later(LATENCY, self._connect, member, action.cid, action.remote),
            Commit: lambda member, action: self._later(COMMIT, self._commit, member, action),
            Deliver: lambda member, action: member.node.acknowledge(action.deliveries),
        }
        for at in range(subscriptions):
            self.members[at % size].node.subscribe(f"channel {at}", "")
        self._act_all()
        self.run()

    # Calls of an application.

    def join(self, edges: Edges) -> Distance:
        """Everybody dials at once; returns when all is quiet. Raises RuntimeError where a connection ends."""
        for dialler, listener in edges:
            self.members[dialler].node.connect(listener, self.now)
        return self._distance(self._act_all)

    def change(self) -> Distance:
        """Everybody gives up one subscription and takes another; returns when all is quiet again."""
        for member in self.members:
            for gone in member.node.subscriptions()[:1]:
                member.node.unsubscribe(*gone, self.now)
            member.node.subscribe(f"another of {member.number}", "", self.now)
        return self._distance(self._act_all)

    def strangers(self) -> Iterator[str]:
        """Differences between a remote list and the local one, and missing connections: none, once they have
        converged."""
        for member in self.members:
            known = {peer.uuid: peer for peer in member.node.peers() if peer.connected}
            if len(known) != len(member.others):
                yield f"{member.number} has {len(member.others)} connections to {len(known)} peers"
            for other, _ in member.others.values():
                peer = known.get(uuid_of(other.number))
                if peer is None or set(peer.subscriptions) != set(other.node.subscriptions()):
                    yield f"{member.number} does not know what {other.number} wants"

    @property
    def ends(self) -> int:
        """Ends of connections: two for each."""
        return sum(len(member.others) for member in self.members)

    # Private parts.

    def run(self) -> None:
        end = self.now + PATIENCE
        while self._events:
            at, _, function, arguments = heappop(self._events)
            if at > end:
                raise RuntimeError(f"not quiet after {PATIENCE:g} virtual seconds: {function.__name__}{arguments}")
            self.now = max(self.now, at)
            function(*arguments)

    def _distance(self, begin: Callable[[], None]) -> Distance:
        before = (self.now, self.frames, self.bytes)
        self.last_arrival = self.now
        begin()
        self.run()
        return Distance(self.last_arrival - before[0], self.frames - before[1], self.bytes - before[2])

    def _later(self, seconds: float, function: Callable[..., None], *arguments: Any) -> None:
        self._order += 1
        heappush(self._events, (self.now + seconds, self._order, function, arguments))

    def _act_all(self) -> None:
        for member in self.members:
            self._act(member)

    def _act(self, member: Member) -> None:
        """Carry out what the node asks for, and set its timer."""
        node = member.node
        while (action := node.next_action()) is not None:
            self._apply(member, action)
        due = node.next_timeout()
        if due is not None and due < member.timer:
            member.timer = due
            self._later(max(0.0, due - self.now), self._wake, member, due)

    def _apply(self, member: Member, action: Action) -> None:
        if isinstance(action, _ENDS):
            raise RuntimeError(f"in a network without faults {member.number} has {action}")
        do = self._do.get(type(action))
        if do is not None:
            do(member, action)

    def _wake(self, member: Member, due: float) -> None:
        if member.timer == due:
            member.timer = float("inf")
            member.node.handle_timeout(max(self.now, due))
            self._act(member)

    def _connect(self, member: Member, cid: int, listener: int) -> None:
        target = self.members[listener]
        address = f"of {member.number}"
        far = target.node.new_cid(self.now, address)
        if far is None:  # more strangers than D-7 allows at once: it will dial again
            self.refused += 1
            member.node.dial_failed(cid, ConnectionLost("too many handshakes in progress (D-7)"), self.now)
            self._act(target)
            self._act(member)
            return
        member.others[cid], target.others[far] = (target, far), (member, cid)
        for one, number, role in ((member, cid, Role.CLIENT), (target, far, Role.SERVER)):
            one.node.opened(number, role, PeerIdentity(address=address), self.now)
            self._act(one)

    def _transmit(self, member: Member, action: Transmit) -> None:
        data = b"".join(action.units)
        self.frames += sum(whole_frames(unit).frames for unit in action.units)
        self.bytes += len(data)
        self._later(LATENCY, self._arrive, *member.others[action.cid], data)
        member.node.sent(action.cid, self.now)

    def _arrive(self, member: Member, cid: int, data: bytes) -> None:
        self.last_arrival = self.now
        member.node.receive_data(cid, data, self.now)
        self._act(member)

    def _commit(self, member: Member, commit: Commit) -> None:
        member.store.commit(commit.operations)
        member.node.committed(commit.batch_id, self.now)
        self._act(member)


# Connections.


def star(size: int) -> Edges:
    """Hubs, one for each hundred nodes, that all know each other; every other node dials one of them."""
    hubs = max(1, size // 100)
    yield from ((one, other) for one in range(hubs) for other in range(one))
    yield from ((leaf, leaf % hubs) for leaf in range(hubs, size))


def regular(size: int, degree: int = 8, seed: int = 0) -> Edges:
    """Everybody with `degree` others, by chance: the sum of random rings (a pair that comes twice counts once)."""
    rng, pairs = Random(seed), set()
    for _ in range(degree // 2):
        ring = list(range(size))
        rng.shuffle(ring)
        pairs |= {(max(pair), min(pair)) for pair in zip(ring, [*ring[1:], ring[0]], strict=True)}
    return sorted(pairs)


def mesh(size: int) -> Edges:
    """Everybody with everybody."""
    return ((one, other) for one in range(size) for other in range(one))


TOPOLOGIES: dict[str, Callable[[int], Edges]] = {"star": star, "regular": regular, "mesh": mesh}
