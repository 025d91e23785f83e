"""Simulated world of nodes: instances, and the loop that drives one.

Everything that happens is an entry of one heap. An input to a node goes through `_call`, which then carries out what
the node asks for, as an adapter does: at once, or late, with more input in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from .._common.transport import Transmit
from .._node.access import Acl
from .._node.actions import Action, Commit, Deliver, Delivery, Fetch, Find, Receipt, Stored
from .._node.node import Node
from .._node.policy import Policy, QuotaPolicy
from .._node.store import AddOwnSubscription, Operation
from .._wire.events import Revision, Subscription
from .._wire.limits import Limits
from .answers import Answers, check_drops
from .checks import Ledger, Sent, WireWitness, audit, check_memory
from .clockwork import Clockwork
from .dice import Dice
from .memory import MemoryStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """Severity of faults: chances from 0 to 1, times in seconds of the virtual clock."""

    delay: float = 0.02  # of bytes, writes and commits, at most and usually
    slow: float = 0.05  # chance that a delay is a hundred times that
    dial_fails: float = 0.2
    store_fails: float = 0.03
    handler_fails: float = 0.1
    handler_slow: float = 0.03
    handler_patience: float = 12.0  # the slowest handler
    handler_hangs: float = 0.01  # chance that it says nothing until the faults stop
    half_open: float = 0.3  # chance that a lost connection is noticed late
    half_open_for: float = 25.0
    late_drain: float = 0.2  # chance that actions wait for more input
    late_handlers: float = 0.1  # chance that an instance registers its handlers late


CALM = Weather(
    slow=0.0,
    dial_fails=0.0,
    store_fails=0.0,
    handler_fails=0.0,
    handler_slow=0.0,
    handler_hangs=0.0,
    half_open=0.0,
    late_handlers=0.0,
)

TIGHT = Limits(
    high_water=1500,
    low_water=400,
    inbox_messages=4,
    inbox_bytes=500,
    window_messages=6,
    window_bytes=600,
    backoff_messages=5,
    outbox_messages=60,
    resend_first=1.0,
    resend_max=8.0,
    keep_bytes=400,
    redial_max=5.0,
    attempts_remembered=3,
)
"""Bounds that even a short simulation meets."""

_WATCHFUL = Policy(
    dedupe=10_000,
    dedupe_durable=True,
    probe="message",
    probe_interval=3.0,
    probe_timeout=10.0,
    max_connection_age=40.0,
)
LOSSY = Policy(quota_policy=QuotaPolicy.DROP_OLDEST)
"""At the quota of a peer something goes; a simulation draws for each peer what."""
_IMPATIENT = Policy(stuck_after=2.0, handling_timeout=8.0)
POLICIES = (Policy(), _IMPATIENT, Policy(dedupe=10_000), _WATCHFUL)
_LOSSY_EACH = 9  # every ninth world is LOSSY
SMALL_QUOTA = {"outbox_messages": 31}  # and room for no more than the most that is sent at once

ROOMY = Limits(resend_first=2.0, resend_max=20.0)


class End:
    """One side of a connection: what is on its way to it, and what has happened to it."""

    def __init__(self, host: Host, cid: int, witness: WireWitness) -> None:
        self.host = host
        self.born = host.born
        self.cid = cid
        self.witness = witness
        self.other: End = self
        self.arriving: deque[bytes | None] = deque()  # None is the end of the stream
        self.moving = False
        self.open = False
        self.broken = False  # nothing that is written arrives any more
        self.paused = False
        self.in_transit = False
        self.shut = False
        self.eof = False
        self.over = False

    @property
    def alive(self) -> bool:
        return not self.over and self.host.born == self.born


class Copy:
    """Store as it was at a moment, and what it owed then, by peer."""

    def __init__(self, store: MemoryStore, peers: Iterable[UUID]) -> None:
        self.store = store.snapshot()
        self.owed = {peer: store.owed(peer) for peer in peers}


class Host:
    """One instance: its store and ledger, which survive, and its node, which may not."""

    def __init__(self, name: str, ledger: Ledger, store: MemoryStore, limits: Limits, version: int) -> None:
        self.name = name
        self.ledger = ledger
        self.answers = Answers(ledger)
        self.store = store
        self.copy: Copy | None = None
        self.limits = limits
        self.version = version
        self.node: Node | None = None
        self.born = 0
        self.clock = 0.0  # its monotonic clock's lead over the world's
        self.stopped: float | None = None  # where its clock stands still
        self.acl = Acl()
        self.island = 0  # hosts on other islands cannot be reached while the network is split
        self.ends: dict[int, End] = {}
        self.jobs: deque[Commit | Fetch | Find] = deque()
        self.opening: dict[int, tuple[int, int]] = {}  # cid -> how many were sent, and not kept, when it opened (T-62)
        self.log: list[Sent] = []
        self.wishes: set[tuple[int, int]] = set()  # remotes
        self.timer = float("inf")
        self.draining = False
        self.closing = False
        self.retired = False  # it never comes back
        self.twin: Host | None = None  # a second instance with this identity
        self.wants = ledger.permanent
        self.leaving: dict[Receipt, list[tuple[UUID, Subscription]]] = {}  # unsubscribes that are not stored yet
        self.dials: dict[tuple[int, int], list[float]] = {}  # since it began to dial each remote
        self.quiet_points = 0
        self.queued: list[list[Delivery]] = []  # handlers have not begun these
        self.calls: dict[tuple[UUID, bytes], float] = {}  # and what they are at, since when
        self.again: set[bytes] = set()  # of these, what was handed out once more
        self.hanging: list[tuple[int, Sequence[Delivery]]] = []  # handlers say nothing about these, and their life

    def apply(self, operations: Sequence[Operation], now: float) -> None:
        """Its store took these."""
        for peer, body in self.ledger.applied(operations, now):
            self.answers.given_up(peer, body)

    def time(self, now: float) -> float:
        """Its monotonic clock, when the world's says `now`."""
        return now + self.clock if self.stopped is None else self.stopped


class World(Clockwork):
    """Instances, and what drives them. `_do` says what becomes of each kind of action."""

    _do: dict[type, Callable[[Host, Any], None]]

    def __init__(
        self,
        seed: int,
        dice: Dice,
        nodes: int | None,
        limits: Limits | None,
        weather: Weather | None,
        policy: Policy | None,
        never: Collection[str],
        trace: bool,
    ) -> None:
        super().__init__(seed, dice, trace)
        rng = dice
        drawn = Weather(
            **{name: getattr(Weather(), name) * rng.choice((0.0, 0.3, 1.0, 2.0)) for name in Weather.__slots__}
        )
        self._weather = replace(weather or drawn, **{name: 0.0 for name in Weather.__slots__ if name in never})
        self._split_until = 0.0
        self._twins: list[Host] = []  # second instances with the UUID of a host
        self._calm = False
        drawn_policy = rng.choice(POLICIES) if policy is None else policy
        is_lossy = policy is None and seed % _LOSSY_EACH == _LOSSY_EACH - 1
        self._policy = LOSSY if is_lossy else drawn_policy
        self._revision = Revision.DRAFT_2
        bounds = limits or rng.choice((TIGHT, TIGHT, ROOMY))
        bounds = replace(bounds, **(SMALL_QUOTA if is_lossy and limits is None else {}))
        count = nodes or rng.choice((2, 2, 2, 3, 3, 3, 4, 5, 6, 7))
        self._hosts = [self._make_host(index, bounds) for index in range(count)]
        self._set_policy(self._policy)
        self._ledgers = {host.ledger.uuid: host.ledger for host in self._hosts}
        for host in self._hosts:
            host.ledger.others = self._ledgers

    def _set_policy(self, policy: Policy) -> None:
        """Of a lossy one each peer has its own way."""
        self._policy = policy
        if policy.quota_policy is LOSSY.quota_policy and not policy.quota_policies:
            policies = {host.ledger.uuid: self._rng.choice(tuple(QuotaPolicy)) for host in self._hosts}
            self._policy = replace(policy, quota_policies=policies)
        for host in self._hosts:
            host.ledger.policy = self._policy

    def _make_host(self, index: int, limits: Limits) -> Host:
        rng = self._rng
        uuid = UUID(f"01890000-0000-7000-8000-{rng.randrange(2**32):08x}{index:04x}")
        permanent = [Subscription("p", rng.choice(("", "a", "b"))) for _ in range(rng.choice((0, 1, 1, 2)))]
        host = Host(f"n{index}", Ledger(uuid, permanent), MemoryStore(), limits, rng.choice((1, 1, 1, 2)))
        host.store.commit([AddOwnSubscription(subscription) for subscription in permanent])
        host.ledger.remembers = self._policy.dedupe_durable
        if rng.random() < self._weather.late_handlers:
            host.ledger.ordered = False
        return host

    def _everybody(self) -> list[Host]:
        return self._hosts + self._twins

    def _delay(self) -> float:
        stretch = 100.0 if self._chance(self._weather.slow) else 1.0
        return self._rng.random() * (self._weather.delay + 0.001) * stretch

    # The loop of an adapter.

    def _call(self, host: Host, name: str, *arguments: Any) -> Any:
        """One input to the node, then what it asks for."""
        assert host.node is not None
        result = getattr(host.node, name)(*arguments, now=host.time(self.now))
        if self._chance(self._weather.late_drain):
            if not host.draining:
                host.draining = True
                self._at(self._delay(), self._drain_actions, host, host.born)
        else:
            self._drain_actions(host, host.born)
        return result

    def _drain_actions(self, host: Host, born: int) -> None:
        node = host.node
        if node is None or host.born != born:
            return
        host.draining = False
        while (action := node.next_action()) is not None:
            self._trace(f"{host.name} {_line(action)}")
            act = self._do.get(type(action))
            if act is not None:
                act(host, action)
        check_memory(node, host.limits)
        check_drops(node, host.ledger)
        self._look_at(host, node)
        due = node.next_timeout()
        if due is not None and due < host.timer:
            host.timer = due
            if host.stopped is None:
                self._at(max(0.0, due - host.clock - self.now), self._timeout, host, born, due)

    def _look_at(self, host: Host, node: Node) -> None:
        if host.jobs or node._keeping or node._running or not node._batch.empty:
            return
        host.quiet_points += 1
        if host.quiet_points % 8 == 0 or self._calm:
            audit(node, host.store)

    def _timeout(self, host: Host, born: int, due: float) -> None:
        if host.born != born or host.timer != due or host.node is None or host.time(self.now) < due - 1e-6:
            return  # of another life, or set anew since, or its clock stood still in between
        host.timer = float("inf")
        host.node.handle_timeout(max(due, host.time(self.now)))  # two clocks never agree to the last bit
        self._call(host, "handle_timeout")


def _line(action: Action) -> str:
    """An action in a line of the trace."""
    if isinstance(action, Transmit):
        return f"Transmit {action.cid}: {sum(map(len, action.units))} bytes in {len(action.units)}"
    if isinstance(action, Commit):
        return f"Commit {action.batch_id}: {' '.join(map(_operation_line, action.operations))}"
    if isinstance(action, Deliver):
        return f"Deliver {' '.join(f'{one.cid}:{one.message_id}#{one.attempt}' for one in action.deliveries)}"
    if isinstance(action, Stored):
        return f"Stored {len(action.tokens)} {action.error or ''}"
    return str(action)


def _operation_line(operation: object) -> str:
    spans = getattr(operation, "spans", None)
    messages = getattr(operation, "messages", None)
    if spans is None and messages is not None:
        spans = [getattr(one, "seq", one) for one in messages]
    return f"{type(operation).__name__}{spans or ''}"
