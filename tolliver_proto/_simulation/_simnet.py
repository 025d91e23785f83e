"""A network of nodes in one thread: virtual clock, one random generator, every fault there is.

The idea: the simulator is the adapter, the disk, the network and the application of every node at once, and as unkind
as each of them may be. A step is one event of a heap; after it the node's actions are carried out. At the end the
faults stop, connections are restored, handlers succeed, and what was promised is compared with what was handled. One
seed is one trace: the same seed fails the same way.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Any
from uuid import UUID
from zlib import crc32

from .._actions import (
    Abort,
    Action,
    Commit,
    Deliver,
    Delivery,
    Dial,
    Fetch,
    Find,
    PauseReading,
    PeerIdentity,
    PeerUp,
    ResumeReading,
    ShutdownWrite,
    Stored,
    Transmit,
)
from .._errors import ConnectionLost, OutboxFull, StoreError, TolliverError
from .._events import Revision, Role, Subscription
from .._limits import Limits
from .._node import Node
from .._policy import Policy
from .._store import AddOwnSubscription
from ._checks import Ledger, Sent, SimFailure, WireWitness, audit, check, check_memory
from ._dice import Dice
from ._memory import MemoryStore

_TAIL = 60  # lines of the trace in a failure's text


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """How bad it is: chances from 0 to 1, times in seconds of the virtual clock."""

    delay: float = 0.02  # of bytes, writes and commits, at most and usually
    slow: float = 0.05  # chance that a delay is a hundred times that
    dial_fails: float = 0.2
    store_fails: float = 0.03
    handler_fails: float = 0.1
    handler_slow: float = 0.03
    handler_patience: float = 12.0  # the slowest handler
    half_open: float = 0.3  # chance that a lost connection is noticed late
    half_open_for: float = 25.0
    late_drain: float = 0.2  # chance that actions wait for more input
    late_handlers: float = 0.1  # chance that an instance registers its handlers late


CALM = Weather(
    slow=0.0, dial_fails=0.0, store_fails=0.0, handler_fails=0.0, handler_slow=0.0, half_open=0.0, late_handlers=0.0
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

POLICIES = (Policy(), Policy(), Policy(dedupe=10_000), Policy(dedupe=10_000, dedupe_durable=True))

ROOMY = Limits(resend_first=2.0, resend_max=20.0)


@dataclass(frozen=True, slots=True)
class Report:
    """What a run came to. `trace_hash` is the same for the same seed."""

    seed: int
    trace_hash: int
    steps: int
    virtual_seconds: float
    counts: dict[str, int]


class _End:
    """One side of a connection: what is on its way to it, and what has happened to it."""

    def __init__(self, host: _Host, cid: int, witness: WireWitness) -> None:
        self.host = host
        self.born = host.born
        self.cid = cid
        self.witness = witness
        self.other: _End = self
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


class _Host:
    """One instance: its store and ledger, which survive, and its node, which may not."""

    def __init__(self, name: str, ledger: Ledger, store: MemoryStore, limits: Limits, version: int) -> None:
        self.name = name
        self.ledger = ledger
        self.store = store
        self.limits = limits
        self.version = version
        self.node: Node | None = None
        self.born = 0
        self.clock = 0.0  # what its monotonic clock is ahead of the world's
        self.ends: dict[int, _End] = {}
        self.jobs: deque[Commit | Fetch | Find] = deque()
        self.opening: dict[int, int] = {}  # cid -> how many messages had been sent when it opened (T-62)
        self.log: list[Sent] = []
        self.wishes: set[tuple[int, int]] = set()  # remotes
        self.timer = float("inf")
        self.draining = False
        self.closing = False
        self.quiet_points = 0


class Simulation:
    """A whole life of a few nodes: `run()`. Raises SimFailure where a promise is broken.

    `dice` decides everything; `seed` only names it. `seconds` is how long the faults go on, `operations` how much
    the applications do in that time. With `trace` every line is kept in `lines`, else the last few.
    """

    def __init__(
        self,
        seed: int,
        dice: Dice,
        *,
        nodes: int | None = None,
        seconds: float = 30.0,
        operations: int = 80,
        limits: Limits | None = None,
        weather: Weather | None = None,
        policy: Policy | None = None,
        trace: bool = False,
    ) -> None:
        self.seed = seed
        self.now = 0.0
        self.lines: deque[str] = deque(maxlen=None if trace else _TAIL)
        self.counts: Counter[str] = Counter()
        self._rng = rng = dice
        self._weather = weather or Weather(
            **{name: getattr(Weather(), name) * rng.choice((0.0, 0.3, 1.0, 2.0)) for name in Weather.__slots__}
        )
        self._hash = 0
        self._steps = 0
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = 0
        self._calm = False
        self._seconds = seconds
        self._operations = operations
        self._policy = policy or rng.choice(POLICIES)
        tight = limits or rng.choice((TIGHT, TIGHT, ROOMY))
        count = nodes or rng.choice((2, 2, 3, 3, 4, 5))
        self._hosts = [self._make_host(index, tight) for index in range(count)]
        self._by_uuid = {host.ledger.uuid: host for host in self._hosts}
        self._ledgers = {host.ledger.uuid: host.ledger for host in self._hosts}
        self._do: dict[type, Callable[[_Host, Any], None]] = {
            Transmit: self._transmit,
            Dial: self._dial,
            Commit: self._store_job,
            Fetch: self._store_job,
            Find: self._store_job,
            Deliver: self._deliver,
            ShutdownWrite: self._shutdown_write,
            Abort: self._abort,
            PauseReading: self._pause_reading,
            ResumeReading: self._resume_reading,
            Stored: self._stored,
            PeerUp: self._peer_up,
        }
        self._operate_by: list[tuple[int, Callable[[_Host], None]]] = [
            (12, self._op_send),
            (5, self._op_send_many),
            (2, self._op_unreliable),
            (2, self._op_subscribe),
            (2, self._op_unsubscribe),
            (3, self._op_connect),
            (1, self._op_disconnect),
            (3, self._op_break),
            (1, self._op_crash),
            (1, self._op_close),
            (1, self._op_corrupt),
            (1, self._op_retry),
        ]

    def _make_host(self, index: int, limits: Limits) -> _Host:
        rng = self._rng
        uuid = UUID(f"01890000-0000-7000-8000-{rng.randrange(2**32):08x}{index:04x}")
        permanent = [Subscription("p", rng.choice(("", "a", "b"))) for _ in range(rng.choice((0, 1, 1, 2)))]
        start = rng.choice((1, 2**31 - 2 - rng.randrange(60), rng.randrange(1, 2**31 - 1)))
        host = _Host(f"n{index}", Ledger(uuid, permanent), MemoryStore(start), limits, rng.choice((1, 1, 1, 2)))
        host.store.commit([AddOwnSubscription(subscription) for subscription in permanent])
        host.ledger.remembers = self._policy.dedupe_durable
        if rng.random() < self._weather.late_handlers:
            host.ledger.ordered = False
        return host

    def never(self, *operations: str) -> None:
        """Leave these out of what happens: "crash", "break", "close", "corrupt", "disconnect" ..."""
        unwanted = {f"_op_{operation}" for operation in operations}
        self._operate_by = [(weight, do) for weight, do in self._operate_by if do.__name__ not in unwanted]

    # The run.

    def run(self) -> Report:
        """Faults, then calm, then the reckoning."""
        try:
            for host in self._hosts:
                self._start(host)
            for _ in range(self._operations):
                self._at(self._rng.random() * self._seconds, self._operate)
            self._run_until(self._seconds)
            self._become_calm()
            self._drain()
            self._reckon()
        except Exception as error:
            tail = "\n".join(list(self.lines)[-_TAIL:])
            raise SimFailure(
                f"seed {self.seed} at {self.now:.4f} s: {type(error).__name__}: {error}\n{tail}"
            ) from error
        self.counts["messages"] = sum(len(host.log) for host in self._hosts)
        self.counts["owed"] = sum(len(sent.due_to) for host in self._hosts for sent in host.log if sent.stored)
        self.counts["handled"] = sum(host.ledger.handled.total() for host in self._hosts)
        self.counts["duplicates"] = self.counts["handled"] - sum(len(host.ledger.handled) for host in self._hosts)
        return Report(self.seed, self._hash, self._steps, self.now, dict(self.counts))

    def _run_until(self, end: float, done: Callable[[], bool] = lambda: False) -> None:
        while self._events and self._events[0][0] <= end:
            self.now, _, function, arguments = heappop(self._events)
            self._steps += 1
            check(self._steps < 200_000, "the simulation does not end: somebody is busy for ever")
            function(*arguments)
            if self._steps % 32 == 0 and done():
                return
        self.now = max(self.now, end) if not done() else self.now

    def _at(self, delay: float, function: Callable[..., None], *arguments: Any) -> None:
        self._order += 1
        heappush(self._events, (self.now + delay, self._order, function, arguments))

    def _trace(self, line: str) -> None:
        line = f"{self.now:9.4f} {line}"
        self._hash = crc32(line.encode(), self._hash)
        self.lines.append(line)

    def _chance(self, probability: float) -> bool:
        return probability > 0 and self._rng.random() < probability

    def _delay(self) -> float:
        stretch = 100.0 if self._chance(self._weather.slow) else 1.0
        return self._rng.random() * (self._weather.delay + 0.001) * stretch

    # Lives.

    def _start(self, host: _Host) -> None:
        if host.node is not None:
            return
        host.born += 1
        host.clock = self._rng.random() * 1000 - self.now
        host.closing = False
        host.ledger.handled_in_this_life.clear()
        host.ledger.receipts.clear()  # nobody is left to be told
        late = not host.ledger.ordered and not self._calm
        host.node = Node(
            instance_id=host.ledger.uuid,
            rng=self._rng,
            limits=host.limits,
            loaded=host.store.reopen().load(),
            handlers=() if late else [("", "", "handler")],
            version=host.version,
            speaks=lambda _version: True,
            policy=self._policy,
            now=self.now + host.clock,
        )
        self._trace(f"{host.name} starts, life {host.born}, {host.node.stats()['pending']} pending")
        if late:
            self._at(self._rng.random() * 5, self._register_late, host, host.born)
        for remote in sorted(host.wishes):
            self._call(host, "connect", remote)

    def _register_late(self, host: _Host, born: int) -> None:
        if host.born == born and host.node is not None:
            host.node.register("", "", "handler")

    def _stop(self, host: _Host) -> None:
        """A crash: the commit that runs was applied or was not, as it happens."""
        if host.node is None:
            return
        self._trace(f"{host.name} is gone")
        host.node = None
        host.born += 1
        host.jobs.clear()
        host.opening.clear()
        host.timer = float("inf")
        host.draining = False
        ends, host.ends = host.ends, {}
        for end in ends.values():
            end.over = True
            if end.other is not end:
                self._lose_later(end.other)
        if not self._calm:
            self._at(self._rng.random() * 8, self._start, host)

    # The loop of an adapter.

    def _call(self, host: _Host, name: str, *arguments: Any) -> Any:
        """One input to the node, then what it asks for."""
        if host.node is None:
            return None
        result = getattr(host.node, name)(*arguments, now=self.now + host.clock)
        if self._chance(self._weather.late_drain):
            if not host.draining:
                host.draining = True
                self._at(self._delay(), self._drain_actions, host, host.born)
        else:
            self._drain_actions(host, host.born)
        return result

    def _drain_actions(self, host: _Host, born: int) -> None:
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
        self._look_at(host, node)
        due = node.next_timeout()
        if due is not None and due < host.timer:
            host.timer = due
            self._at(max(0.0, due - host.clock - self.now), self._timeout, host, born, due)

    def _look_at(self, host: _Host, node: Node) -> None:
        if host.jobs or node._keeping or node._running or not node._batch.empty:
            return
        host.quiet_points += 1
        if host.quiet_points % 8 == 0 or self._calm:
            audit(node, host.store)

    def _timeout(self, host: _Host, born: int, due: float) -> None:
        if host.born != born or host.timer != due or host.node is None:
            return
        host.timer = float("inf")
        host.node.handle_timeout(max(due, self.now + host.clock))  # two clocks never agree to the last bit
        self._call(host, "handle_timeout")

    # The network.

    def _dial(self, host: _Host, action: Dial) -> None:
        self._at(self._delay(), self._connect, host, host.born, action.cid, action.remote)

    def _connect(self, host: _Host, born: int, cid: int, remote: tuple[int, int]) -> None:
        if host.born != born or cid not in host.node._links:  # type: ignore[union-attr]  # alive: same birth
            return
        target = self._hosts[remote[0]]
        if target.node is None or target.closing or self._chance(self._weather.dial_fails):
            self._call(host, "dial_failed", cid, ConnectionLost("connection refused"))
            return
        server_cid = target.node.new_cid(now=self.now + target.clock)
        near = _End(host, cid, WireWitness(host.ledger, True, Revision.DRAFT_2))
        far = _End(target, server_cid, WireWitness(target.ledger, False, Revision.DRAFT_2))
        near.other, far.other = far, near
        host.ends[cid], target.ends[server_cid] = near, far
        self.counts["connections"] += 1
        for end, role in ((near, Role.CLIENT), (far, Role.SERVER)):
            self._at(self._delay(), self._open, end, role)

    def _open(self, end: _End, role: Role) -> None:
        if not end.alive:
            return
        end.open = True
        host = end.host
        if role is Role.CLIENT:
            host.opening[end.cid] = len(host.log)
        self._trace(f"{host.name} {end.cid} open, {role}, to {end.other.host.name} {end.other.cid}")
        self._call(host, "opened", end.cid, role, PeerIdentity(address=end.other.host.name))
        self._move(end)

    def _transmit(self, host: _Host, action: Transmit) -> None:
        end = host.ends.get(action.cid)
        if end is None:
            return
        check(not end.in_transit, f"a second Transmit for {action.cid} while one is outstanding")
        check(not end.shut, f"a Transmit for {action.cid} after ShutdownWrite")
        end.in_transit = True
        end.witness.transmit(action.units, self.now, host.limits.resend_first)
        if not end.broken:
            end.other.arriving.extend(action.units)
            self._move(end.other)
        self._at(self._delay(), self._taken, end)

    def _taken(self, end: _End) -> None:
        if end.alive:
            end.in_transit = False
            end.witness.taken(self.now)
            self._call(end.host, "sent", end.cid)

    def _move(self, end: _End) -> None:
        if end.arriving and end.open and not end.moving and not end.paused and end.alive:
            end.moving = True
            self._at(self._delay(), self._arrive, end)

    def _arrive(self, end: _End) -> None:
        end.moving = False
        if not end.alive or end.paused or not end.arriving:
            return
        data = end.arriving.popleft()
        if data is None:
            end.eof = True
            self._call(end.host, "receive_eof", end.cid)
            self._finish(end)
            return
        while self._chance(0.5) and end.arriving and end.arriving[0] is not None:
            data += end.arriving.popleft()  # type: ignore[operator]  # not None, as was just seen
        size = self._rng.randint(1, len(data)) if self._chance(0.5) else len(data)
        if size < len(data):
            end.arriving.appendleft(data[size:])
        end.witness.receive(data[:size])
        self._call(end.host, "receive_data", end.cid, data[:size])
        self._move(end)

    def _shutdown_write(self, host: _Host, action: ShutdownWrite) -> None:
        end = host.ends.get(action.cid)
        if end is None:
            return
        check(not end.in_transit, f"ShutdownWrite for {action.cid} while a Transmit is outstanding")
        end.shut = True
        if not end.broken:
            end.other.arriving.append(None)
            self._move(end.other)
        self._finish(end)

    def _finish(self, end: _End) -> None:
        """Both halves are over: an orderly end."""
        if end.shut and end.eof and end.alive:
            self._at(self._delay(), self._lose, end, None)

    def _abort(self, host: _Host, action: Abort) -> None:
        end = host.ends.pop(action.cid, None)
        if end is not None:
            end.over = True
            end.other.broken = True
            self._lose_later(end.other)

    def _lose_later(self, end: _End) -> None:
        """The other side is gone: this one notices soon, or much later where nothing tells it."""
        end.broken = True
        late = self._chance(self._weather.half_open)
        wait = self._rng.random() * (self._weather.half_open_for if late else 0.5)
        self._at(wait, self._lose, end, ConnectionLost("reset"))

    def _lose(self, end: _End, error: TolliverError | None) -> None:
        if not end.alive:
            return
        end.over = True
        end.broken = end.other.broken = True
        end.host.ends.pop(end.cid, None)
        self._trace(f"{end.host.name} {end.cid} lost: {error}")
        self._call(end.host, "lost", end.cid, error)

    def _pause_reading(self, host: _Host, action: PauseReading) -> None:
        if action.cid in host.ends:
            host.ends[action.cid].paused = True

    def _resume_reading(self, host: _Host, action: ResumeReading) -> None:
        if action.cid in host.ends:
            host.ends[action.cid].paused = False
            self._move(host.ends[action.cid])

    # The disk: one job at a time, in order, reported in order.

    def _store_job(self, host: _Host, action: Commit | Fetch | Find) -> None:
        host.jobs.append(action)
        if len(host.jobs) == 1:
            self._at(self._delay(), self._perform, host, host.born)

    def _perform(self, host: _Host, born: int) -> None:
        if host.born != born:
            return
        job = host.jobs[0]
        result: Any = None
        error = StoreError("disk full") if self._chance(self._weather.store_fails) else None
        if isinstance(job, Commit):
            host.store.fail_next_commit = error
            try:
                host.store.commit(job.operations)
                host.ledger.applied(job.operations)
            except StoreError as raised:
                check(raised is error, f"the store refused a commit: {raised}")
        elif isinstance(job, Find):
            result = [] if error else host.store.find(job.peer, job.after_seq, job.max_count, job.min_age)
        elif error is None:
            result = host.store.fetch(job.peer, job.after_seq, job.max_count, job.max_bytes)
        self._at(self._delay(), self._report, host, born, result, error)

    def _report(self, host: _Host, born: int, result: Any, error: StoreError | None) -> None:
        if host.born != born:
            return
        job = host.jobs.popleft()
        if host.jobs:
            self._at(self._delay(), self._perform, host, born)
        self._trace(f"{host.name} {type(job).__name__} done{f', failed: {error}' if error else ''}")
        if isinstance(job, Commit):
            if error is None:
                self._call(host, "committed", job.batch_id)
            else:
                self._call(host, "store_failed", job.batch_id, error)
        elif isinstance(job, Find):
            self._call(host, "found", job.search_id, result, error)
        elif error is None:
            self._call(host, "fetched", job.peer, result)
        else:
            self._call(host, "fetch_failed", job.peer, error)

    # The application.

    def _deliver(self, host: _Host, action: Deliver) -> None:
        for delivery in action.deliveries:
            host.ledger.delivery(delivery, self._ledgers)
        start = 0
        while start < len(action.deliveries):
            size = self._rng.randint(1, len(action.deliveries) - start)
            wait = self._delay()
            if self._chance(self._weather.handler_slow):
                wait = self._rng.random() * self._weather.handler_patience
            self._at(wait, self._handle, host, host.born, action.deliveries[start : start + size])
            start += size

    def _handle(self, host: _Host, born: int, deliveries: list[Delivery]) -> None:
        if host.born != born:
            return
        failed = [one for one in deliveries if self._chance(self._weather.handler_fails)]
        handled = [one for one in deliveries if one not in failed]
        for one in handled:
            host.ledger.handled[one.body] += 1
            if self._policy.dedupe and one.reliable:
                check(one.body not in host.ledger.handled_in_this_life, f"{one} was handled before (T-48)")
                host.ledger.handled_in_this_life.add(one.body)
            end = host.ends.get(one.cid)
            if end is not None and one.message_id is not None:
                end.witness.acknowledged.add(one.message_id)
        if failed:
            self._call(host, "fail", failed)
        if handled and host.born == born:
            self._call(host, "acknowledge", handled)
        if handled and self._chance(0.02):
            self._call(host, "acknowledge", handled)  # twice does no harm

    def _stored(self, host: _Host, action: Stored) -> None:
        for receipt in action.tokens:
            for sent in host.ledger.receipts.pop(receipt, ()):
                sent.stored = action.error is None

    def _peer_up(self, host: _Host, action: PeerUp) -> None:
        """What was sent since the dial's request was queued is for this peer too, if it wants it (T-62)."""
        since = host.opening.pop(action.cid, None)
        peer = self._ledgers.get(action.peer)
        if since is None or peer is None:
            return
        for sent in host.log[since:]:
            if sent.wanted_by(peer.permanent) and not sent.damaged:
                sent.due_to.add(peer.uuid)

    def _operate(self) -> None:
        host = self._rng.choice(self._hosts)
        if host.node is None or host.closing:
            return
        weights, operations = zip(*self._operate_by, strict=True)
        self._rng.choices(operations, weights)[0](host)

    def _names(self) -> tuple[str, str]:
        return self._rng.choice(("p", "p", "v")), self._rng.choice(("a", "b"))

    def _new_message(self, host: _Host) -> Sent:
        body = b"%s/%d%s" % (host.name.encode(), len(host.log), b"." * self._rng.choice((0, 10, 40, 150)))
        sent = Sent(len(host.log), *self._names(), body)
        host.log.append(sent)
        host.ledger.sent[body] = sent
        return sent

    def _send(self, host: _Host, count: int) -> None:
        assert host.node is not None
        batch = [self._new_message(host) for _ in range(count)]
        known = {peer.uuid: set(peer.subscriptions) for peer in host.node.peers()}
        for sent in batch:
            for uuid, subscriptions in known.items():
                if sent.wanted_by(subscriptions):
                    sent.routed_to.add(uuid)
                if uuid in self._ledgers and sent.wanted_by(subscriptions & self._ledgers[uuid].permanent):
                    sent.due_to.add(uuid)
        try:
            items = [(sent.channel, sent.key, sent.body) for sent in batch]
            receipt = host.node.send_many(items, now=self.now + host.clock)
        except OutboxFull:
            self.counts["outbox_full"] += 1
            return
        host.ledger.receipts[receipt] = batch
        self._trace(f"{host.name} sends {', '.join(f'{s.channel}/{s.key} {s.index}' for s in batch)}: {receipt}")
        self._call(host, "handle_timeout")

    def _op_send(self, host: _Host) -> None:
        self._send(host, 1)

    def _op_send_many(self, host: _Host) -> None:
        self._send(host, self._rng.randint(2, 30))

    def _op_unreliable(self, host: _Host) -> None:
        sent = self._new_message(host)
        self._call(host, "unreliable_send", sent.channel, sent.key, sent.body)

    def _volatile(self) -> tuple[str, str]:
        return self._rng.choice((("v", "a"), ("v", "b"), ("v", ""), ("", "a"), ("", "")))

    def _op_subscribe(self, host: _Host) -> None:
        self._change_own(host, "subscribe")

    def _op_unsubscribe(self, host: _Host) -> None:
        self._change_own(host, "unsubscribe")

    def _change_own(self, host: _Host, call: str) -> None:
        for subscription in [self._volatile() for _ in range(self._rng.choice((1, 1, 3)))]:
            self._trace(f"{host.name} {call} {subscription}")
            self._call(host, call, *subscription)

    def _op_connect(self, host: _Host) -> None:
        remote = (self._rng.randrange(len(self._hosts)), self._rng.choice((0, 0, 1)))
        host.wishes.add(remote)
        self._trace(f"{host.name} connects to {remote}")
        self._call(host, "connect", remote)

    def _op_disconnect(self, host: _Host) -> None:
        if host.wishes:
            remote = self._rng.choice(sorted(host.wishes))
            host.wishes.discard(remote)
            self._trace(f"{host.name} disconnects from {remote}")
            self._call(host, "disconnect", remote)

    def _op_break(self, host: _Host) -> None:
        """A connection drops, at any byte."""
        if not host.ends:
            return
        self.counts["breaks"] += 1
        end = self._rng.choice(list(host.ends.values()))
        self._trace(f"{host.name} {end.cid} breaks")
        for side in (end, end.other):
            while side.arriving and self._chance(0.7):
                side.arriving.pop()
            self._lose_later(side)

    def _op_crash(self, host: _Host) -> None:
        self.counts["crashes"] += 1
        self._stop(host)

    def _op_close(self, host: _Host) -> None:
        assert host.node is not None
        self.counts["closes"] += 1
        host.closing = True
        self._trace(f"{host.name} closes")
        self._call(host, "close")
        self._at(60.0, self._closed, host, host.born)

    def _op_corrupt(self, host: _Host) -> None:
        """A row is damaged: it is set aside when it is read, if it is (V9)."""
        messages = host.store.messages
        if messages and self._chance(0.5):
            self.counts["corrupted"] += 1
            spoilt = self._rng.choice(messages)
            self._trace(f"{host.name} row {spoilt.seq} is damaged")
            host.store.corrupt(spoilt.seq)
            host.ledger.sent[spoilt.body].due_to.clear()
            host.ledger.sent[spoilt.body].damaged = True

    def _op_retry(self, host: _Host) -> None:
        """What was set aside is sent again (T-09)."""
        for uuid in sorted(self._ledgers.keys() - {host.ledger.uuid}):
            self._call(host, "retry", uuid)

    def _closed(self, host: _Host, born: int) -> None:
        if host.born == born and host.node is not None:
            check(host.node.idle, f"{host.name} is not idle a minute after close()")
            self._stop(host)
            self._start(host)

    # The end: drain, then compare sets.

    def _become_calm(self) -> None:
        self._trace("the faults stop")
        self._calm = True
        self._weather = replace(CALM, late_drain=self._weather.late_drain)
        for host in self._hosts:
            if host.closing:
                self._stop(host)
            self._start(host)
        for index, host in enumerate(self._hosts):
            host.wishes = {(other, 0) for other in range(len(self._hosts)) if other != index and self._chance(0.7)}
            host.wishes |= {(other, 0) for other in range(index)}
            for remote in sorted(host.wishes):
                self._call(host, "connect", remote)
            self._op_retry(host)

    def _drain(self) -> None:
        end = self.now + 300.0
        self._run_until(end, self._is_drained)
        if not self._is_drained():
            raise SimFailure("not drained in 300 s: " + "; ".join(self._unfinished()))
        for host in self._hosts:
            assert host.node is not None
            audit(host.node, host.store)

    def _is_drained(self) -> bool:
        return not self._unfinished()

    def _unfinished(self) -> list[str]:
        left = []
        for host in self._hosts:
            node = host.node
            assert node is not None
            if host.jobs or node._running or not node._batch.empty or host.draining:
                left.append(f"{host.name} is storing")
            if host.ledger.receipts:
                left.append(f"{host.name} was never told what became of {len(host.ledger.receipts)} sends")
            peers = {peer.uuid: peer for peer in node.peers()}
            if len(host.ends) != len(self._hosts) - 1:
                left.append(f"{host.name} has {len(host.ends)} connections")
            for other in self._hosts:
                peer = peers.get(other.ledger.uuid)
                if other is host or other.node is None:
                    continue
                if peer is None or not peer.connected:
                    left.append(f"{host.name} is not connected to {other.name}")
                    continue
                if peer.pending:
                    left.append(f"{host.name} has {peer.pending} for {other.name}")
                if set(peer.subscriptions) != set(other.node.subscriptions()):
                    left.append(f"{host.name} knows {peer.subscriptions} of {other.name}")
        return left

    def _reckon(self) -> None:
        for host in self._hosts:
            for sent in host.log:
                for uuid in sent.due_to if sent.stored else ():
                    receiver = self._by_uuid[uuid]
                    check(
                        receiver.ledger.handled[sent.body],
                        f"LOST: {sent.body!r} ({sent.channel}/{sent.key}) of {host.name} for {receiver.name}",
                    )


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
    detail = (
        spans if spans is not None else [getattr(one, "seq", one) for one in messages] if messages is not None else ""
    )
    return f"{type(operation).__name__}{detail}"
