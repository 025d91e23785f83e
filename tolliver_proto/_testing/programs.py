"""Simulated network of a user's own programs, with every fault.

A story has programs, which are functions of an `App`, and a question: is all work done?

State: an `Actor` for each instance, with its store, its `disk`, its `hands` and the App of its present life. In a run
connections break, the network is split, disks are full, and instances crash and start again. Then the faults stop, and
the question must become true. Invariants: one seed is one trace, and a failing story is made short; the programs are on
trial, so that no reader checks the bytes (`NoWitness`); each job of a queue has one owner after every commit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from .._common.transport import Abort, Dial, PauseReading, ResumeReading, ShutdownWrite, Transmit
from .._node.actions import (
    Acked,
    Answer,
    Answered,
    Commit,
    Deliver,
    Delivery,
    Fetch,
    Find,
    GiveUp,
    HandleAgain,
    Receipt,
    Stored,
    TakeBack,
    Verdict,
)
from .._node.node import Node, PatternKind
from .._node.pattern import Pattern
from .._node.policy import Policy
from .._node.store import Operation, StoreMessages
from .._patterns.answers import JobAnswers
from .._patterns.kinds import PATTERNS
from .._wire.events import Subscription
from .._wire.limits import Limits
from .adapter_loop import CALM, BaseHost, End, Weather, drawn
from .app import App, Ballot, Calls, ProcessOver, Settlement
from .faults import Faults
from .hands import Hands
from .invariants import check, check_owners
from .memory_store import MemoryStore
from .randomness import Dice
from .virtual_clock import Report

Program = Callable[[App], object]
Question = Callable[[], object]
HARM = ("break", "crash", "restart", "split", "fill", "dial_fails", "store_fails", "slow", "half_open", "late_drain")
"""Names that `never` may have."""
_DOWN = 8.0  # seconds until a crashed instance starts again, at most


class NoWitness:
    """Checker of a connection's bytes that accepts all: the programs are tested, not the node."""

    def transmit(self, units: Sequence[bytes], now: float, resend_after: float) -> None: ...

    def taken(self, now: float) -> None: ...

    def receive(self, data: bytes) -> None: ...


class Actor(BaseHost):
    """A simulated instance with a user's program, and the connections, handlers and calls of its present life."""

    def __init__(self, name: str, uuid: UUID, program: Program, limits: Limits, policy: Policy, crashes: bool) -> None:
        super().__init__(name, uuid, MemoryStore(), limits, 1)
        self.program = program
        self.policy = policy
        self.crashes = crashes
        self.remotes: tuple[str, ...] = ()
        self.subscriptions: tuple[Subscription, ...] = ()
        self.disk: dict[Any, Any] = {}
        self.hands = Hands()
        self.app: App | None = None
        self.ends: dict[int, End[Actor]] = {}
        self.calls: deque[tuple[Settlement, Calls]] = deque()  # deliveries that wait for their handlers
        self.shared: set[int] = set()  # seqs of messages to several peers

    def apply(self, operations: Sequence[Operation], now: float) -> None:
        """Checks the owners of jobs after a commit."""
        for stored in (one for one in operations if isinstance(one, StoreMessages)):
            pairs = zip(stored.messages, stored.recipients, strict=True)
            self.shared.update(message.seq for message, recipients in pairs if len(recipients) > 1)
        check_owners(self.store, self.shared)


class Programs(Faults[Actor]):
    """Network of instances with programs: `run()` is their whole life."""

    def __init__(
        self,
        seed: int,
        dice: Dice,
        story: Callable[[Any], Question | None],
        *,
        seconds: float = 30.0,
        operations: int = 20,
        patience: float = 600.0,
        weather: Weather | None = None,
        never: Collection[str] = (),
        trace: bool = False,
    ) -> None:
        super().__init__(seed, dice, drawn(dice, never, weather), trace)
        self._seconds = seconds
        self._operations = operations
        self._patience = patience
        self._do = {
            Transmit: self._with_end(self._transmit),
            Dial: self._dial,
            Commit: self._store_job,
            Fetch: self._store_job,
            Find: self._store_job,
            Deliver: self._deliver,
            TakeBack: self._take_back,
            ShutdownWrite: self._with_end(self._shutdown_write),
            Abort: self._with_end(self._abort),
            PauseReading: self._with_end(self._pause_reading),
            ResumeReading: self._with_end(self._resume_reading),
            Stored: partial(self._tell, "stored"),
            Acked: partial(self._tell, "acked"),
            Answered: self._tell_answered,
        }
        operations_by_weight = [
            (4, self._op_break),
            (2, self._op_crash),
            (1, self._op_restart),
            (1, self._op_split),
            (1, self._op_fill),
        ]
        unwanted = {f"_op_{name}" for name in never}
        self._operate_by = [(weight, do) for weight, do in operations_by_weight if do.__name__ not in unwanted]
        self._question = story(self)

    def instance(
        self,
        name: str,
        program: Program,
        *,
        remotes: Iterable[str] = (),
        subscriptions: Iterable[tuple[str, str]] = (),
        limits: Limits | None = None,
        policy: Policy | None = None,
        crashes: bool = True,
    ) -> None:
        """Adds an instance called `name`. `program(app)` is called at each start, before the instance dials `remotes`,
        the names of other instances, which may be added later. `subscriptions` are (channel, key) pairs. With
        `crashes=False` it has faults of connections and disk alone.
        """
        check(all(name != one.name for one in self._hosts), "there are two instances with the name {}", name)
        uuid = UUID(f"01890000-0000-7000-8000-{len(self._hosts):012x}")
        actor = Actor(name, uuid, program, limits or Limits(), policy or Policy(), crashes)
        actor.remotes = tuple(remotes)
        actor.subscriptions = tuple(Subscription(*one) for one in subscriptions)
        self._hosts.append(actor)

    def disk(self, name: str) -> dict[Any, Any]:
        """Returns the `disk` of the instance called `name`: data that its program keeps apart from the store."""
        return self._actor(name).disk

    # The run.

    def run(self) -> Report:
        """Runs the simulation: a time with faults, then without, until the story is done.

        Raises SimFailure if that never happens, or if a program or a promise fails.
        """
        try:
            for actor in self._hosts:
                self._start(actor)
            for _ in range(self._operations if self._operate_by else 0):
                self._at(self._rng.random() * self._seconds, self._operate)
            self._run_until(self._seconds)
            self._become_calm()
            self._run_until(self.now + self._patience, self._is_done)
            check(self._is_done(), f"not done {self._patience:g} s after the faults have stopped: {self._unfinished()}")
        except Exception as error:
            raise self._failure(error) from error
        return self._told()

    def _is_done(self) -> bool:
        return bool(self._question()) if self._question is not None else not self._pending()

    def _pending(self) -> dict[str, int]:
        """Returns the number of messages without an ack, by instance."""
        counted = {one.name: one.node.stats().pending for one in self._hosts if one.node is not None}
        return {name: pending for name, pending in counted.items() if pending}

    def _unfinished(self) -> str:
        return ", ".join(f"{name} has {count} pending" for name, count in self._pending().items()) or "nothing pending"

    def _become_calm(self) -> None:
        self._trace("the faults stop")
        self._calm = True
        self._weather = replace(CALM, late_drain=self._weather.late_drain)
        for actor in self._hosts:
            self._free(actor)
            if actor.closing:
                self._stop(actor)
            self._start(actor)

    # Lives.

    def _start(self, actor: Actor) -> None:
        if actor.node is not None:
            return
        actor.born += 1
        actor.clock = self._rng.random() * 1000 - self.now
        actor.closing = False
        actor.dials.clear()
        actor.calls.clear()
        actor.store.now = self.now
        actor.node = Node(
            instance_id=actor.uuid,
            rng=self._rng,
            limits=actor.limits,
            loaded=replace(actor.store.reopen().load(), suspects=actor.hands.suspects(actor.store)),
            subscriptions=actor.subscriptions or None,
            policy=actor.policy,
            patterns=PATTERNS,
            now=actor.time(self.now),
        )
        self._trace(f"{actor.name} starts, life {actor.born}, {actor.node.stats().pending} pending")
        actor.app = app = App(self, actor.name, actor.node, actor.disk)
        app.clock = actor.time(self.now)
        actor.program(app)
        for name in actor.remotes:
            self.connect(app, name)
        self._call(actor, "handle_timeout")

    def _stop(self, actor: Actor) -> None:
        if actor.closing and actor.node is not None and actor.node.idle:
            actor.hands.end_in_order()
        else:
            actor.hands.die()
        self._end_program(actor)
        self._halt(actor)
        if not self._calm:
            self._at(self._rng.random() * _DOWN, self._start, actor)

    def _end_program(self, actor: Actor) -> None:
        """Ends the present life of an instance: functions and handlers of its program are called no more."""
        assert actor.app is not None
        actor.app.over = True
        actor.calls.clear()

    def _operate(self) -> None:
        actor = self._rng.choice(self._hosts)
        if actor.node is not None and not actor.closing:
            weights, operations = zip(*self._operate_by, strict=True)
            self._rng.choices(operations, weights)[0](actor)

    def _op_crash(self, actor: Actor) -> None:
        """Kills a program, and starts it again a little later."""
        if actor.crashes:
            self.counts["crashes"] += 1
            self._stop(actor)

    def _op_restart(self, actor: Actor) -> None:
        """Ends a program in order, and starts it again."""
        if actor.crashes:
            self.counts["restarts"] += 1
            actor.closing = True
            self._trace(f"{actor.name} is restarted")
            self._end_program(actor)
            self._call(actor, "close")
            self._at(self._rng.random() * _DOWN, self._ended, actor, actor.born)

    def _ended(self, actor: Actor, born: int) -> None:
        if actor.born == born:
            self._stop(actor)

    # Called by Apps.

    def call(self, app: App, name: str, *arguments: Any, of: PatternKind[Pattern] | None = None, **named: Any) -> Any:
        actor = self._actor(app.name)
        app.clock = actor.time(self.now)
        called = app.node if of is None else app.node.use(of)
        result = getattr(called, name)(*arguments, now=app.clock, **named)
        self._at(0.0, self._drain_actions, actor, actor.born)
        return result

    def later(self, app: App, seconds: float, function: Callable[..., object], *arguments: object) -> None:
        self._at(seconds, self._do_later, app, function, arguments)

    def _do_later(self, app: App, function: Callable[..., object], arguments: tuple[object, ...]) -> None:
        if not app.over:
            app.clock = self._actor(app.name).time(self.now)
            try:
                function(*arguments)
            except ProcessOver:
                return  # the process has ended: what was left to do goes with it

    def die(self, app: App) -> None:
        actor = self._actor(app.name)
        self.counts["deaths"] += 1
        self._trace(f"{actor.name} ends its process")
        self._stop(actor)
        if self._calm:
            self._at(self._rng.random() * _DOWN, self._start, actor)

    def connect(self, app: App, peer: str) -> None:
        self.call(app, "connect", (self._index(peer), 0))

    def disconnect(self, app: App, peer: str) -> None:
        self.call(app, "disconnect", (self._index(peer), 0))

    def name_of(self, peer: UUID) -> str:
        return next((one.name for one in self._hosts if one.uuid == peer), str(peer))

    def uuid_of(self, peer: str) -> UUID:
        return self._actor(peer).uuid

    def _index(self, name: str) -> int:
        names = [one.name for one in self._hosts]
        if name not in names:
            raise ValueError(f"there is no instance {name!r} in this story: it has {', '.join(names)}")
        return names.index(name)

    def _actor(self, name: str) -> Actor:
        return self._hosts[self._index(name)]

    # Inputs and outputs.

    def _witness(self, host: Actor, is_client: bool) -> NoWitness:
        return NoWitness()

    def _tell(self, what: str, actor: Actor, action: Stored | Acked) -> None:
        assert actor.app is not None
        receipts = [one for one in action.tokens if isinstance(one, Receipt)]
        self._at(0.0, self._do_later, actor.app, actor.app.tell, (what, receipts, action.error))

    def _tell_answered(self, actor: Actor, action: Answered) -> None:
        assert actor.app is not None
        self._at(0.0, self._do_later, actor.app, actor.app.tell_answered, (action,))

    def _deliver(self, actor: Actor, action: Deliver) -> None:
        """Queues the calls of handlers, in the order in which messages have come."""
        handlers = [one for one in action.handlers if isinstance(one, Calls)]
        for delivery in action.deliveries:
            settlement = Settlement(delivery, len(handlers), partial(self._settle, actor, actor.born))
            for calls in handlers:
                if calls.lanes is not None:
                    calls.lanes.add(settlement)
                    self._at(self._delay(), self._begin_calls, actor, actor.born, calls)
                else:
                    actor.calls.append((settlement, calls))
                    self._at(self._delay(), self._handle, actor, actor.born)

    def _take_back(self, actor: Actor, action: TakeBack) -> None:
        """Lets go of the queued messages of a peer, because the handler is stuck."""
        gone = [one for one, calls in actor.calls if calls is action.handler and one.delivery.peer_id == action.peer]
        actor.calls = deque(one for one in actor.calls if one[0] not in gone)
        calls = action.handler
        if isinstance(calls, Calls) and calls.lanes is not None:
            gone += calls.lanes.take_out(lambda one: one.delivery.peer_id == action.peer)
        self._call(actor, "let_go", [one.delivery for one in gone])

    def _handle(self, actor: Actor, born: int) -> None:
        """Makes the next queued call of a handler, if the life `born` goes on."""
        if actor.born == born and actor.calls:
            self._handle_one(actor, born, *actor.calls.popleft())

    def _begin_calls(self, actor: Actor, born: int, calls: Calls) -> None:
        """Makes all calls that may begin for a handler with `lanes`, if the life `born` goes on."""
        assert calls.lanes is not None
        while actor.born == born and (settlement := calls.lanes.begin()) is not None:
            self._handle_one(actor, born, settlement, calls)

    def _handle_one(self, actor: Actor, born: int, settlement: Settlement, calls: Calls) -> None:
        """Calls a handler for one delivery in the life `born`; the result is a verdict for `settlement`. An exception
        is a failed attempt (T-45), but a test's own AssertionError ends the run.
        """
        ballot = Ballot(settlement, partial(self._end, actor, born, calls))
        delivery = replace(settlement.delivery, settler=ballot)
        assert actor.app is not None
        actor.app.clock = actor.time(self.now)
        self._call(actor, "begin", calls, [settlement.delivery])
        actor.hands.begin(settlement.delivery)
        self._trace(f"{actor.name} handles {delivery.channel}/{delivery.key} of {self.name_of(delivery.peer_id)}")
        try:
            result = calls.function(delivery)
            well = result is None or bool(result)
        except AssertionError:
            raise
        except ProcessOver:
            return
        except Exception as error:
            self._trace(f"{calls} of {actor.name} raised {error!r:.200}")
            ballot.settle([], False)
            return
        if not calls.settles or not well:
            ballot.settle([], well)

    def _end(self, actor: Actor, born: int, calls: Calls, settlement: Settlement) -> None:
        if actor.born != born:
            return
        actor.hands.end(settlement.delivery)
        self._call(actor, "end", calls, [settlement.delivery])
        if calls.lanes is not None:
            calls.lanes.end(settlement)
            self._at(self._delay(), self._begin_calls, actor, born, calls)

    def _settle(self, actor: Actor, born: int, delivery: Delivery, verdict: Verdict) -> None:
        if actor.born != born:
            return
        if isinstance(verdict, HandleAgain):
            self._call(actor, "handle_again", [delivery], verdict.seconds)
        elif isinstance(verdict, GiveUp):
            self._call(actor, "give_up", [delivery], verdict.reason)
        elif isinstance(verdict, Answer):
            self._call(actor, "answer", [delivery], verdict.body, of=JobAnswers)
        else:
            self._call(actor, "acknowledge" if verdict else "fail", [delivery])
