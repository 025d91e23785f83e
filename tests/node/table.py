"""Table of nodes, on which events come in any order.

There is no network, and no fault but those that a test asks for: every event is the next entry of one of many queues
(the bytes of a connection, the jobs of a disk, a dial). The dice say which queue is next, so one seed is one
interleaving; time only passes when all queues are empty. `at_store` is called before and after each store call and may
crash its owner.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable
from functools import partial
from random import Random
from typing import Any
from uuid import UUID

from tolliver_proto import (
    Abort,
    Commit,
    ConnectionLost,
    Deliver,
    Dial,
    Fetch,
    Limits,
    Node,
    PeerIdentity,
    Receipt,
    Role,
    ShutdownWrite,
    Stored,
    Subscription,
    Transmit,
)
from tolliver_proto._testing.inspection import inside
from tolliver_proto._testing.invariants import audit
from tolliver_proto.node import PeerInfo
from tolliver_proto.store import Find
from tolliver_proto.testing import BeginAt, MemoryStore

LIMITS = Limits(resend_max=8.0, redial_max=2.0)


class End:
    """One side of a connection."""

    def __init__(self, seat: Seat, cid: int) -> None:
        self.seat = seat
        self.cid = cid
        self.other = self
        self.shut = False


class Seat:
    """An instance: what survives a crash, and the node, which does not."""

    def __init__(self, table: Table, number: int) -> None:
        self.table = table
        self.number = number
        self.uuid = UUID(int=0x0189_0000_0000_7000_8000_0000_0000_0000 + table.dice.randrange(2**32) * 8 + number)
        self.store = MemoryStore()
        self.node: Node
        self.ends: dict[int, End] = {}
        self.wishes: list[int] = []
        self.handled: Counter[bytes] = Counter()
        self.stored: set[bytes] = set()
        self.unreported: dict[Receipt, list[bytes]] = {}
        self.life = 0
        self.first_id = 1
        self.clock = 0.0  # ahead of the table's
        self.start()

    def start(self) -> None:
        self.life += 1
        self.node = Node(
            instance_id=self.uuid,
            rng=BeginAt(self.table.dice, self.first_id),
            limits=LIMITS,
            retry_interval=1.0,
            loaded=self.store.reopen().load(),
            handlers=[("", "", "handler")],
            now=self.now,
        )

    @property
    def now(self) -> float:
        return self.table.now + self.clock

    def call(self, name: str, *arguments: Any) -> Any:
        result = getattr(self.node, name)(*arguments, now=self.now)
        life = self.life
        while life == self.life and (action := self.node.next_action()) is not None:
            self.table.perform(self, action)
        return result

    def send(self, channel: str, key: str, *bodies: bytes) -> None:
        receipt = self.node.send_many([(channel, key, body) for body in bodies], now=self.now)
        self.unreported[receipt] = list(bodies)
        self.call("handle_timeout")

    def connect(self, number: int) -> None:
        self.wishes.append(number)
        self.call("connect", number)

    def knows(self, other: Seat) -> set[Subscription]:
        return {one for peer in self.node.peers() if peer.uuid == other.uuid for one in peer.subscriptions}

    def sent_to(self, peer: PeerInfo) -> bool:
        """True if any of what waits for it is not held (T-61)."""
        return bool(self.store.fetch(peer.uuid, 0, 1, 1))

    def crash(self) -> None:
        """Only commits are left; it comes back at once and dials again."""
        self.unreported.clear()
        self.table.drop_all(self)
        self.start()
        for number in self.wishes:
            self.call("connect", number)


class Table:
    """`seats` instances, and what happens between them."""

    def __init__(self, seed: int, seats: int = 2) -> None:
        self.dice = Random(seed)
        self.now = 0.0
        self.dials = 0
        self.at_store: Callable[[Seat, str], None] = lambda seat, when: None
        self.on_transmit: Callable[[Seat, End, Transmit], None] = lambda seat, end, action: None
        self._queues: dict[Hashable, deque[Callable[[], None]]] = {}
        self.seats = [Seat(self, number) for number in range(seats)]

    # Time and transport.

    def steps(self, most: int) -> None:
        """So many things happen, or all that can without time passing."""
        for _ in range(most):
            if not self._queues:
                return
            key = self.dice.choice(list(self._queues))
            happens = self._queues[key].popleft()
            if not self._queues[key]:
                del self._queues[key]
            happens()

    def settle(self, done: Callable[[], bool], seconds: float = 60.0) -> None:
        """Until all is done and nothing happens any more. AssertionError if that takes more time."""
        end = self.now + seconds
        for _ in range(100_000):
            self.steps(10_000)
            if done():
                return
            due = min((seat.node.next_timeout() or 1e18) - seat.clock for seat in self.seats)
            assert due <= end, f"not done in {seconds:g} s"
            self._let_pass(due)
        raise AssertionError("things happen without end")

    def run_for(self, seconds: float) -> None:
        """All that happens in that time."""
        end = self.now + seconds
        for _ in range(100_000):
            self.steps(10_000)
            due = min((seat.node.next_timeout() or 1e18) - seat.clock for seat in self.seats)
            if due > end:
                self.now = end
                return
            self._let_pass(due)
        raise AssertionError("things happen without end")

    def _let_pass(self, due: float) -> None:
        self.now = max(self.now, due)
        for seat in self.seats:
            own = seat.node.next_timeout()
            if own is not None and own <= seat.now + 1e-6:
                seat.node.handle_timeout(own)  # two clocks never agree to the last bit
                seat.call("handle_timeout")

    def _put(self, key: Hashable, seat: Seat, happens: Callable[[], None]) -> None:
        life = seat.life
        self._queues.setdefault(key, deque()).append(lambda: happens() if seat.life == life else None)

    # Actions that a node asks for.

    def perform(self, seat: Seat, action: Any) -> None:
        if isinstance(action, Transmit | ShutdownWrite | Abort):
            end = seat.ends.get(action.cid)
            if end is not None:
                self._on_connection(seat, end, action)
        elif isinstance(action, Dial):
            self._put(("dial", seat, action.cid), seat, partial(self._dial, seat, action))
        elif isinstance(action, Commit | Fetch | Find):
            self._put(("disk", seat), seat, partial(self._store, seat, action))
        elif isinstance(action, Deliver):
            self._put(("handlers", seat), seat, partial(self._handle, seat, action))
        elif isinstance(action, Stored):
            for receipt in action.tokens:
                bodies = seat.unreported.pop(receipt, [])
                seat.stored.update(bodies if action.error is None else [])

    def _on_connection(self, seat: Seat, end: End, action: Transmit | ShutdownWrite | Abort) -> None:
        other = end.other
        if isinstance(action, Transmit):
            self.on_transmit(seat, end, action)
            for unit in action.units:
                self._put(("bytes", other), other.seat, partial(other.seat.call, "receive_data", other.cid, unit))
            self._put(("socket", end), seat, partial(seat.call, "sent", end.cid))
        elif isinstance(action, ShutdownWrite):
            end.shut = True
            self._put(("bytes", other), other.seat, partial(self._ended, other))
        else:
            self.drop(end)

    def _ended(self, end: End) -> None:
        end.seat.call("receive_eof", end.cid)
        if end.shut and end.other.shut:
            self.drop(end)

    def _dial(self, seat: Seat, action: Dial) -> None:
        assert isinstance(action.remote, int)
        target = self.seats[action.remote]
        self.dials += 1
        if action.cid not in inside(seat.node).context.links:
            return
        far_cid = target.node.new_cid(now=target.now)
        assert far_cid is not None, "too many handshakes (D-7)"
        near, far = End(seat, action.cid), End(target, far_cid)
        near.other, far.other = far, near
        for end, role in ((near, Role.CLIENT), (far, Role.SERVER)):
            end.seat.ends[end.cid] = end
            identity = PeerIdentity(address=str(end.other.seat.number))
            self._put(("bytes", end), end.seat, partial(end.seat.call, "opened", end.cid, role, identity))

    def drop(self, end: End) -> None:
        """The connection is gone, and both sides learn of it."""
        for side in (end, end.other):
            if side.seat.ends.pop(side.cid, None) is not None:
                self._put(("bytes", side), side.seat, partial(self._lost, side))

    def _lost(self, end: End) -> None:
        end.seat.call("lost", end.cid, ConnectionLost("reset"))

    def drop_all(self, seat: Seat) -> None:
        for end in list(seat.ends.values()):
            self.drop(end)

    def _store(self, seat: Seat, action: Commit | Fetch | Find) -> None:
        life = seat.life
        self.at_store(seat, "before")
        if seat.life != life:
            return
        if isinstance(action, Commit):
            seat.store.commit(action.operations)
        elif isinstance(action, Find):
            found = action.ask(seat.store)
        else:
            rows = seat.store.fetch(action.peer, action.after_seq, action.max_count, action.max_bytes)
        self.at_store(seat, "after")
        if seat.life != life:
            return
        if isinstance(action, Commit):
            seat.call("committed", action.batch_id)
        elif isinstance(action, Find):
            seat.call("found", action.search_id, found)
        else:
            seat.call("fetched", action.peer, rows)

    def _handle(self, seat: Seat, action: Deliver) -> None:
        seat.handled.update(delivery.body for delivery in action.deliveries)
        seat.call("acknowledge", action.deliveries)

    # Checks at the end.

    def is_quiet(self) -> bool:
        """Everybody is connected, everything stored and acknowledged."""
        for seat in self.seats:
            node = seat.node
            if seat.unreported or inside(node).commits.running or not inside(node).commits.batch.empty:
                return False
            peers = node.peers()
            if not peers or len(seat.ends) != len(peers) or not all(one.connected for one in peers):
                return False
            if any(one.pending and seat.sent_to(one) for one in peers):
                return False
            if any(
                link.lists.control is not None and link.lists.control.under_way
                for link in inside(node).context.up.values()
            ):
                return False
        return True

    def check(self) -> None:
        """Remote set equals local set, the stores agree with their nodes, nobody is owed anything."""
        for seat in self.seats:
            audit(seat.node, seat.store)
            assert not any(map(seat.sent_to, seat.node.peers())), f"still in the store of {seat.number}"
            for other in self.seats:
                if other is not seat:
                    assert seat.knows(other) == set(other.node.subscriptions()), f"{seat.number} about {other.number}"
