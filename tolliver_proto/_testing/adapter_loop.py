"""Loop of the simulated adapters, which drives the nodes of the hosts.

Each input to a node goes through `_call`, which carries out the node's actions as an adapter does: at once, or later
with more input in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar
from uuid import UUID

from .._common.transport import Transmit
from .._node.actions import Action, Commit, Deliver, Fetch, Find, Stored
from .._node.node import Node, PatternKind
from .._node.pattern import Pattern
from .._node.store import Operation
from .._wire.limits import Limits
from .inspection import inside
from .invariants import AnyWitness, audit, check_memory
from .memory_store import MemoryStore
from .randomness import Dice
from .steps import NO_STEPS, Steps
from .virtual_clock import VirtualClock

StoreJob = Commit | Fetch | Find


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """Severity of faults: chances from 0 to 1, times in seconds of the virtual clock."""

    delay: float = 0.02  # the longest usual delay of bytes, writes and commits
    slow: float = 0.05  # chance that a delay is a hundred times longer
    dial_fails: float = 0.2
    store_fails: float = 0.03
    handler_fails: float = 0.1
    handler_slow: float = 0.03
    handler_patience: float = 12.0  # the slowest handler
    handler_hangs: float = 0.01  # chance that a handler does not return until the faults stop
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


def drawn(dice: Dice, never: Collection[str], given: Weather | None = None) -> Weather:
    """Returns `given`, or a severity drawn with `dice`; the chance of each fault that is named in `never` is 0."""
    usual = Weather()
    scaled = {name: getattr(usual, name) * dice.choice((0.0, 0.3, 1.0, 2.0)) for name in Weather.__slots__}
    return replace(given or Weather(**scaled), **{name: 0.0 for name in Weather.__slots__ if name in never})


class BaseHost:
    """One simulated instance. It owns a store, which survives crashes, and a node, which is made again at each start.
    `born` is the number of the present life, the time from a start to the next end: functions that get `born` ignore
    events of an earlier life.
    """

    def __init__(self, name: str, uuid: UUID, store: MemoryStore, limits: Limits, version: int) -> None:
        self.name = name
        self.uuid = uuid
        self.store = store
        self.limits = limits
        self.version = version
        self.node: Node | None = None
        self.born = 0
        self.clock = 0.0  # seconds by which its monotonic clock is ahead of the world's
        self.stopped: float | None = None  # the time at which its clock stands still
        self.island = 0  # hosts on other islands cannot be reached while the network is split
        self.ends: dict[int, Any] = {}  # each an End of this class of hosts
        self.jobs: deque[StoreJob] = deque()
        self.wishes: set[tuple[int, int]] = set()  # remotes to be connected
        self.timer = float("inf")
        self.draining = False
        self.closing = False
        self.dials: dict[tuple[int, int], list[float]] = {}  # times of the last dials of each remote
        self.quiet_points = 0

    def apply(self, operations: Sequence[Operation], now: float) -> None:
        """Called with the operations of a commit that the store of this host has applied."""

    def not_applied(self, operations: Sequence[Operation]) -> None:
        """Called with the operations of a commit that the store of this host has refused."""

    def time(self, now: float) -> float:
        """Returns this host's monotonic clock, in seconds, at the world's time `now`."""
        return now + self.clock if self.stopped is None else self.stopped


H = TypeVar("H", bound=BaseHost)


class End(Generic[H]):
    """One end of a simulated connection: the bytes on their way to this end, and its state."""

    def __init__(self, host: H, cid: int, witness: AnyWitness) -> None:
        self.host = host
        self.born = host.born
        self.cid = cid
        self.witness = witness
        self.other: End[H] = self
        self.arriving: deque[bytes | None] = deque()  # None is the end of the stream
        self.moving = False
        self.open = False
        self.broken = False  # written bytes arrive no more
        self.paused = False
        self.in_transit = False
        self.shut = False
        self.eof = False
        self.over = False

    @property
    def alive(self) -> bool:
        return not self.over and self.host.born == self.born


class AdapterLoop(VirtualClock, Generic[H]):
    """Simulated adapters: the hosts, and the loop that carries out their nodes' actions. `_do` has a function for each
    class of action."""

    _do: dict[type, Callable[[H, Any], None]]

    def __init__(self, seed: int, dice: Dice, weather: Weather, trace: bool) -> None:
        super().__init__(seed, dice, trace)
        self._weather = weather
        self._split_until = 0.0
        self._calm = False
        self._hosts: list[H] = []
        self._writer: Steps = NO_STEPS

    def _everybody(self) -> list[H]:
        return self._hosts

    def _delay(self) -> float:
        stretch = 100.0 if self._chance(self._weather.slow) else 1.0
        return self._rng.random() * (self._weather.delay + 0.001) * stretch

    # The loop of an adapter.

    def _call(self, host: H, name: str, *arguments: Any, of: PatternKind[Pattern] | None = None) -> Any:
        """Calls the method `name` of the host's node, or of its pattern of the kind `of`, and carries out the actions.
        Returns the method's result."""
        assert host.node is not None
        called = host.node if of is None else host.node.use(of)
        self._writer.called(host, name, arguments)
        result = getattr(called, name)(*arguments, now=host.time(self.now))
        if self._chance(self._weather.late_drain):
            if not host.draining:
                host.draining = True
                self._at(self._delay(), self._drain_actions, host, host.born)
        else:
            self._drain_actions(host, host.born)
        return result

    def _drain_actions(self, host: H, born: int) -> None:
        node = host.node
        if node is None or host.born != born:
            return
        host.draining = False
        while (action := node.next_action()) is not None:
            self._trace(f"{host.name} {_line(action)}")
            self._writer.acted(host, action)
            act = self._do.get(type(action))
            if act is not None:
                act(host, action)
        self._look_at(host, node)
        due = node.next_timeout()
        if due is not None and due < host.timer:
            host.timer = due
            if host.stopped is None:
                self._at(max(0.0, due - host.clock - self.now), self._timeout, host, born, due)

    def _look_at(self, host: H, node: Node) -> None:
        check_memory(node, host.limits)
        if host.jobs or inside(node).commits.running or not inside(node).commits.batch.empty:
            return
        host.quiet_points += 1
        if host.quiet_points % 10 == 0 or self._calm:
            audit(node, host.store)

    def _timeout(self, host: H, born: int, due: float) -> None:
        if host.born != born or host.timer != due or host.node is None or host.time(self.now) < due - 1e-6:
            return  # a timeout of another life, or one that was replaced, or one that a stopped clock has not reached
        host.timer = float("inf")
        host.node.handle_timeout(max(due, host.time(self.now)))  # the sum of two clocks may be rounded down
        self._call(host, "handle_timeout")


def _line(action: Action) -> str:
    """Returns the line that the trace of the run has for an action of a node."""
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
