"""Simulated world of nodes: hosts with ledgers, weather, bounds and policies."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from uuid import UUID

from .._node.access import Acl
from .._node.actions import Delivery, Receipt
from .._node.node import Node
from .._node.policy import Policy, QuotaPolicy
from .._node.store import AddOwnSubscription, Operation
from .._wire.events import Subscription
from .._wire.limits import Limits
from .adapter_loop import BaseHost, End, Weather, drawn
from .faults import Faults
from .inspection import inside
from .invariants import Ledger, Sent, WireWitness
from .memory_store import MemoryStore
from .randomness import Dice
from .receipt_checks import Answers, check_drops
from .value_checks import ValueLedger

TIGHT = Limits(
    high_water=1500,
    low_water=400,
    inbox_messages=4,
    inbox_bytes=500,
    window_messages=6,
    window_bytes=600,
    backoff_messages=5,
    outbox_messages=60,
    resend_max=8.0,
    keep_bytes=400,
    redial_max=5.0,
    attempts_remembered=3,
)
"""Bounds that a short simulation meets too."""

_WATCHFUL = Policy(
    dedupe=10_000,
    dedupe_durable=True,
    probe="message",
    probe_interval=3.0,
    probe_timeout=10.0,
    max_connection_age=40.0,
)
LOSSY = Policy(quota_policy=QuotaPolicy.DROP_OLDEST)
"""Policy that drops messages at a peer's quota; a simulation draws the way of dropping for each peer."""
_IMPATIENT = Policy(stuck_after=2.0, handling_timeout=8.0)
POLICIES = (Policy(), _IMPATIENT, Policy(dedupe=10_000), _WATCHFUL)
_LOSSY_EACH = 9  # every ninth world is LOSSY
SMALL_QUOTA = {"outbox_messages": 31}  # one more than the largest send

ROOMY = Limits(resend_max=20.0)
RETRY_INTERVAL = 1.0  # seconds; a short simulation meets it


class Copy:
    """Copy of a store at one moment, with the messages that it owed to each peer."""

    def __init__(self, store: MemoryStore, peers: Iterable[UUID]) -> None:
        self.store = store.snapshot()
        self.owed = {peer: store.owed(peer) for peer in peers}


class Host(BaseHost):
    """One simulated instance with its ledger, which survives crashes as its store does."""

    def __init__(self, name: str, ledger: Ledger, store: MemoryStore, limits: Limits, version: int) -> None:
        super().__init__(name, ledger.uuid, store, limits, version)
        self.ledger = ledger
        self.answers = Answers(ledger)
        self.copy: Copy | None = None
        self.ends: dict[int, End[Host]] = {}
        self.acl = Acl()
        self.opening: dict[int, tuple[int, int]] = {}  # by cid: numbers of sent and not kept messages then (T-62)
        self.asked: dict[object, tuple[float, int, int]] = {}  # by remote: time of `connect`, and the same numbers
        self.log: list[Sent] = []
        self.store_failed = False  # True if a job of the store has failed in this life
        self.retired = False  # True if the instance never comes back
        self.twin: Host | None = None  # a second instance with this identity
        self.wants = ledger.permanent
        self.leaving: dict[Receipt, list[tuple[UUID, Subscription]]] = {}  # unsubscribes that are not stored yet
        self.queued: list[list[Delivery]] = []  # pieces whose call has not begun
        self.calls: dict[tuple[UUID, bytes], float] = {}  # messages in a call, with its beginning
        self.again: set[bytes] = set()  # messages in a call that were handed out a second time
        self.hanging: list[tuple[int, Sequence[Delivery]]] = []  # calls without an end, with the life they began in
        self.values: ValueLedger | None = None  # None if the application retains no values

    def apply(self, operations: Sequence[Operation], now: float) -> None:
        for peer, body in self.ledger.applied(operations, now):
            self.answers.given_up(peer, body)
        if self.values is not None:
            self.values.applied(operations, self.node is not None and inside(self.node).context.counts["skipped"] > 0)

    def not_applied(self, operations: Sequence[Operation]) -> None:
        self.ledger.not_applied(operations)


class World(Faults[Host]):
    """Simulated instances, with their ledgers of expected messages; severity of faults, limits and policies are drawn
    at random."""

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
        rng = dice
        super().__init__(seed, dice, drawn(dice, never, weather), trace)
        self._twins: list[Host] = []  # second instances with the UUID of a host
        drawn_policy = rng.choice(POLICIES) if policy is None else policy
        is_lossy = policy is None and seed % _LOSSY_EACH == _LOSSY_EACH - 1
        self._policy = LOSSY if is_lossy else drawn_policy
        bounds = limits or rng.choice((TIGHT, TIGHT, ROOMY))
        bounds = replace(bounds, **(SMALL_QUOTA if is_lossy and limits is None else {}))
        count = nodes or rng.choice((2, 2, 2, 3, 3, 3, 4, 5, 6, 7))
        self._hosts = [self._make_host(index, bounds) for index in range(count)]
        self._set_policy(self._policy)
        self._ledgers = {host.ledger.uuid: host.ledger for host in self._hosts}
        for host in self._hosts:
            host.ledger.others = self._ledgers

    def _set_policy(self, policy: Policy) -> None:
        """Sets the nodes' policy; with one that may lose messages, each peer gets a random QuotaPolicy."""
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

    def _witness(self, host: Host, is_client: bool) -> WireWitness:
        return WireWitness(host.ledger, is_client, self._revision)

    def _reached(self, remote: tuple[int, int]) -> Host:
        """Returns the host that a dial of this address reaches; a second program of the same identity has an address of
        its own.
        """
        host = self._hosts[remote[0]]
        return host.twin if remote[1] and host.twin is not None else host

    def _begun(self, end: End[Host]) -> None:
        host = end.host
        assert host.node is not None
        host.opening[end.cid] = len(host.log), inside(host.node).context.counts["not_kept"]

    def _look_at(self, host: Host, node: Node) -> None:
        check_drops(node, host.ledger)
        super()._look_at(host, node)
