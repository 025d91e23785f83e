"""Simulated network of hubs in one thread, with every fault.

The simulator is the adapter, the network and the application of every hub, and uses every freedom that these have. A
step is one event of a heap; after a step the hub's actions are carried out, and its host's books are compared with it.

State: the hosts with their streams (`OutboundStream`, `InboundStream`), the heap, the weather.

A run has three parts. Under faults, applications do random operations. In the calm, all sources and readers go on, and
every stream must come to its end. Then all hubs close, and must keep no state. Invariant: one seed is one trace, so
that the same seed fails in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from ..._common.errors import ConnectionClosing, LocalProtocolError, OwnLimitExceeded
from ..._common.transport import Abort, Dial, PauseReading, ResumeReading, Role, ShutdownWrite, Transmit
from ..._testing.invariants import check
from ..._testing.randomness import Dice
from ..._testing.virtual_clock import Report
from .._actions import Drained, Happened, PeerDown, PeerUp
from .._events import Cancel, Elements, OnComplete, OnError, Request, Subscribe, Subscribed
from .._hub import Hub
from .._limits import Limits
from .._varint import MAX_LONG
from .ledgers import FAILED, REFUSED, InboundStream, Key, OutboundStream, Plan, cost
from .network import Network
from .world import CALM, End, Host, Weather

_MOST_AT_ONCE = 12  # elements that a source has ready
_HEAD = 20  # bytes of a frame without its elements, at most
_PATIENCE = 120.0  # seconds for all streams to end after the faults
_EAGER = 0.3  # chance that a client subscribes before the peer's hello
_HELD_UP = 6.0  # seconds that a program is held up, at most
_ENOUGH = 5  # elements that an endless stream must bring after the faults


class Simulation(Network):
    """A whole life of a few hubs: `run()`. Raises SimFailure for a broken promise.

    `dice` makes all choices; `seed` only names them. The faults last for `seconds`, in which the applications do
    `operations` random operations. `never` names operations that do not happen ("break", "cut", "close", "goodbye",
    "cancel", "misuse", "jump" ...) and chances of the weather that are 0. With `trace` all lines are kept in `lines`.
    """

    def __init__(
        self,
        seed: int,
        dice: Dice,
        *,
        nodes: int | None = None,
        seconds: float = 20.0,
        operations: int = 80,
        limits: Limits | None = None,
        weather: Weather | None = None,
        never: Collection[str] = (),
        trace: bool = False,
    ) -> None:
        super().__init__(seed, dice, nodes, limits, weather, never, trace)
        self._excused: set[int] = set()  # serials of plans whose source sends too much
        self._seconds = seconds
        self._operations = operations
        self._do = {
            Transmit: self._with_end(self._transmit),
            Dial: self._dial,
            ShutdownWrite: self._with_end(self._shutdown_write),
            Abort: self._with_end(self._abort),
            PauseReading: self._with_end(self._pause_reading),
            ResumeReading: self._with_end(self._resume_reading),
            PeerUp: self._peer_up,
            PeerDown: self._peer_down,
            Happened: self._happened,
            Drained: self._drained,
        }
        self._on_event: dict[type, Callable[[Host, Key, Any], None]] = {
            Subscribe: self._on_subscribe,
            Request: self._on_request,
            Cancel: self._on_cancel,
            Subscribed: self._on_subscribed,
            Elements: self._on_elements,
            OnComplete: self._on_end,
            OnError: self._on_end,
        }
        by_weight: list[tuple[int, Callable[[Host], None]]] = [
            (12, self._op_subscribe),
            (5, self._op_request),
            (5, self._op_cancel),
            (1, self._op_misuse),
            (5, self._op_connect),
            (2, self._op_goodbye),
            (3, self._op_break),
            (1, self._op_cut),
            (1, self._op_close),
            (1, self._op_jump),
            (1, self._op_stall),
            (1, self._op_overreach),
        ]
        unwanted = {f"_op_{name}" for name in never}
        self._operate_by = [(weight, do) for weight, do in by_weight if do.__name__ not in unwanted]

    @property
    def size(self) -> int:
        """Number of hubs."""
        return len(self._hosts)

    # The run.

    def run(self) -> Report:
        """Runs a time with faults and a calm time, then closes all hubs; returns the report."""
        try:
            for host in self._hosts:
                self._start(host)
                self._op_connect(host)
            for _ in range(self._operations):
                self._at(self._rng.random() * self._seconds, self._operate)
            self._run_until(self._seconds)
            self._become_calm()
            self._run_until(self.now + _PATIENCE, lambda: not self._unfinished())
            check(not self._unfinished(), f"not over after {_PATIENCE:g} s of calm: {self._unfinished()}")
            self._close_all()
        except Exception as error:
            raise self._failure(error) from error
        return self._told()

    def _start(self, host: Host) -> None:
        host.clock = self._rng.random() * 1000 - self.now
        host.hub = Hub(limits=host.limits, now=host.time(self.now))
        host.born += 1
        host.timer = float("inf")
        host.waiting = host.closing = False
        host.left.clear()
        host.cancelled.clear()
        host.peers.clear()
        host.holding.clear()
        self._trace(f"{host.name} starts, life {host.born}")

    def _become_calm(self) -> None:
        self._trace("the faults stop")
        self._calm = True
        self._weather = replace(CALM, late_drain=self._weather.late_drain, source_slow=self._weather.source_slow)
        for host in self._hosts:
            for intake in host.intakes.values():
                self._read_to_the_end(host, intake)

    def _read_to_the_end(self, host: Host, intake: InboundStream) -> None:
        if intake.plan.ending == "endless":
            intake.enough = intake.received + _ENOUGH
        if not intake.window:
            host.hub.request(*intake.key, intake.grant(MAX_LONG))
            self._turn(host)

    def _unfinished(self) -> list[str]:
        return [
            f"{host.name} takes {key} ({intake.plan})" for host in self._hosts for key, intake in host.intakes.items()
        ]

    def _close_all(self) -> None:
        for host in self._hosts:
            self._close(host)
        self._run_until(self.now + _PATIENCE, self._is_idle)
        self._run_until(self.now + _PATIENCE, lambda: not self._events)
        for host in self._hosts:
            check(host.hub.idle, f"{host.name} is not idle {_PATIENCE:g} s after close()")
            host.check_empty()

    def _is_idle(self) -> bool:
        return all(host.hub.idle for host in self._hosts)

    # Reports of hubs.

    def _peer_up(self, host: Host, action: PeerUp) -> None:
        check(action.cid not in host.up, f"{action.cid} is up twice")
        host.up[action.cid] = host.owed[action.cid] = action.remote

    def _peer_down(self, host: Host, action: PeerDown) -> None:
        check(action.cid in host.owed, f"{action.cid} is down, and never was up or dialled, or twice")
        check(host.owed.pop(action.cid) == action.remote, f"{action.cid} had another remote than {action.remote}")
        host.up.pop(action.cid, None)
        peer = host.peers.pop(action.cid, None)
        check(action.error or (peer and peer.left), f"{action.cid} ends in order, and its peer said no goodbye (R-28)")
        left = [key for key in (*host.feeds, *host.intakes) if key[0] == action.cid]
        check(not left, f"{action.cid} is down, and of these streams no end was told: {left}")
        self.counts["losses" if action.error else "orderly_ends"] += 1

    def _happened(self, host: Host, action: Happened) -> None:
        event = action.event
        early = isinstance(event, OnError) and action.cid in host.owed  # a connection that never came up
        check(action.cid in host.up or early, f"{action.cid} has {event} and is not up")
        self._on_event[type(event)](host, (action.cid, event.subscriber_id), event)

    def _drained(self, host: Host, action: Drained) -> None:
        self.counts["drained"] += 1
        for key, feed in list(host.feeds.items()):
            if key[0] == action.cid:
                self._pump(host, feed)

    # Streams that a host publishes.

    def _on_subscribe(self, host: Host, key: Key, event: Subscribe) -> None:
        check(key not in host.feeds, f"{key} is given already")
        plan = Plan.of(event.name)
        if plan.ending == "refuse":
            host.hub.error(*key, REFUSED)
            return
        feed = host.feeds[key] = OutboundStream(key, plan, event.initial_demand)
        if self._chance(self._weather.source_slow):
            self._at(self._delay(), self._accept, host, feed)
        else:
            self._accept(host, feed)

    def _accept(self, host: Host, feed: OutboundStream) -> None:
        if host.feeds.get(feed.key) is feed:
            feed.accepted = host.hub.subscribed(*feed.key, feed.plan.size)
            self._pump(host, feed)

    def _on_request(self, host: Host, key: Key, event: Request) -> None:
        feed = host.feeds[key]
        feed.grant(event.count)
        self._pump(host, feed)

    def _on_cancel(self, host: Host, key: Key, event: Cancel) -> None:
        del host.feeds[key]

    def _wake(self, host: Host, feed: OutboundStream) -> None:
        feed.busy = False
        self._pump(host, feed)

    def _pump(self, host: Host, feed: OutboundStream) -> None:
        """Sends elements of a publication while the subscriber wants some and the source has some."""
        if host.feeds.get(feed.key) is not feed or feed.busy or not feed.accepted:
            return
        more = True
        while more and feed.plan.left(feed.sent) and (wanted := host.hub.wanted(*feed.key)):
            self._give(host, feed, min(wanted, feed.plan.left(feed.sent), self._rng.randint(1, _MOST_AT_ONCE)))
            more = not self._chance(self._weather.source_slow) and feed.plan.ending != "endless"
        if not feed.plan.left(feed.sent):
            self._end(host, feed)
        elif not more:
            feed.busy = True
            self._at(self._delay(), self._wake, host, feed)
        self._turn(host)

    def _overreach(self, host: Host, feed: OutboundStream) -> None:
        """Checks that the hub refuses one element more than the demand, and changes nothing (rule 1.1)."""
        connection = host.hub._links[feed.key[0]].connection
        assert connection is not None
        demand = connection.demand(feed.key[1])
        check(demand <= MAX_LONG, f"{feed.key}: a demand of {demand} (R-17)")
        if demand <= _MOST_AT_ONCE:
            refused = False
            try:
                host.hub.next_many(*feed.key, [feed.plan.element(feed.sent)] * (demand + 1))
            except LocalProtocolError:
                refused = True
            check(refused, f"{feed.key} takes {demand + 1} elements where {demand} are wanted (rule 1.1)")

    def _give(self, host: Host, feed: OutboundStream, count: int) -> None:
        self._overreach(host, feed)
        before, high = self._unsent(host, feed.key[0]), host.limits.high_water
        elements = feed.next(count)
        check(before < high, f"{feed.key} is pulled while {before} bytes are unsent, and {high} is high water (R-32)")
        check(host.hub.next_many(*feed.key, elements) == count, f"{feed.key} is wanted, and then it is over")
        more = self._unsent(host, feed.key[0]) - before
        check(more <= sum(map(len, elements)) + _HEAD * count, f"{feed.key}: {more} bytes for {elements}")
        self.counts["elements_sent"] += count

    def _unsent(self, host: Host, cid: int) -> int:
        link = host.hub._links[cid]
        assert link.connection is not None
        return link.in_transit + link.connection.unsent_bytes

    def _end(self, host: Host, feed: OutboundStream) -> None:
        ends = host.hub.error(*feed.key, FAILED) if feed.plan.ending == "fail" else host.hub.complete(*feed.key)
        check(ends, f"{feed.key} took its last element, and then it is over")
        del host.feeds[feed.key]
        self.counts["ended"] += 1

    # Streams that a host subscribes to.

    def _on_subscribed(self, host: Host, key: Key, event: Subscribed) -> None:
        host.intakes[key].on_subscribed(event.element_size)

    def _on_elements(self, host: Host, key: Key, event: Elements) -> None:
        intake = host.intakes[key]
        intake.on_elements(event)
        host.holding[key[0]] += cost(event.elements)
        self.counts["elements"] += len(event.elements)
        if not intake.busy:
            self._consume_later(host, intake)

    def _consume_later(self, host: Host, intake: InboundStream) -> None:
        intake.busy = True
        wait = self._patience(self._weather.reader_slow, self._weather.reader_patience)
        self._at(wait, self._consume, host, host.born, intake)

    def _consume(self, host: Host, born: int, intake: InboundStream) -> None:
        intake.busy = False
        if host.born != born or not intake.unread:
            return
        count = self._rng.randint(1, len(intake.unread))
        self._take(host, intake, count)
        if intake.unread:
            self._consume_later(host, intake)
        if host.intakes.get(intake.key) is not intake:
            return
        if intake.enough is not None and intake.received >= intake.enough:
            self._cancel(host, intake)
        elif intake.window:
            outstanding = intake.granted - intake.done
            if outstanding <= intake.window // 2:
                host.hub.request(*intake.key, intake.grant(intake.window - outstanding))
        self._turn(host)

    def _take(self, host: Host, intake: InboundStream, count: int) -> None:
        elements = [intake.unread.popleft() for _ in range(count)]
        intake.done += count
        if intake.key[0] in host.hub._links:
            host.holding[intake.key[0]] -= cost(elements)
        host.hub.took(intake.key[0], sum(map(len, elements)), count)
        self._turn(host)

    def _cancel(self, host: Host, intake: InboundStream) -> None:
        host.hub.cancel(*intake.key)
        host.cancelled.add(intake.key)
        del host.intakes[intake.key]
        self._take(host, intake, len(intake.unread))
        self._turn(host)

    def _on_end(self, host: Host, key: Key, event: OnComplete | OnError) -> None:
        intake = host.intakes.pop(key, None)
        if intake is None:  # cancelled after its connection had ended, before that end was told
            late = isinstance(event, OnError) and event.cause is not None and key in host.cancelled
            check(late, f"{key} has {event}, and is over")
            return
        intake.on_end(event, excused=intake.plan.serial in self._excused)
        self.counts[type(event).__name__] += 1

    # The applications.

    def _operate(self) -> None:
        host = self._rng.choice(self._hosts)
        if not host.closing:
            weights, operations = zip(*self._operate_by, strict=True)
            self._rng.choices(operations, weights)[0](host)

    def _op_connect(self, host: Host) -> None:
        remote = self._rng.randrange(len(self._hosts))
        cid = host.hub.connect(remote, host.time(self.now))
        host.owed[cid] = remote
        self._turn(host)

    def _op_subscribe(self, host: Host) -> None:
        """Subscribes to a new name: with a window, without bound, or with demand from time to time."""
        cids = [cid for cid in host.up if cid not in host.left and cid in host.ends]
        if cids:
            self._subscribe(host, self._rng.choice(cids))

    def _opened(self, end: End) -> None:
        """Lets the client whose transport `end` is subscribe, request and cancel before the peer's hello (R-25)."""
        if end.role is Role.CLIENT and not self._calm and self._chance(_EAGER):
            for _ in range(self._rng.randint(1, 3)):
                self._subscribe(end.host, end.cid)
                self._rng.choice((self._op_request, self._op_cancel))(end.host)

    def _subscribe(self, host: Host, cid: int) -> None:
        self._serial += 1
        rng = self._rng
        ending = rng.choice(("complete", "complete", "fail", "refuse", "endless"))
        plan = Plan(self._serial, ending, rng.choice((0, 0, 1, 6, 12)), rng.choice((0, 1, 3, 20, 60)))
        window = rng.choice((0, 0, 1, 2, 8, 50))
        demand = window or rng.choice((0, 3, MAX_LONG if ending != "endless" else 9))
        try:
            key = (cid, host.hub.subscribe(cid, plan.name, demand))
        except (OwnLimitExceeded, ConnectionClosing) as error:
            over = host.hub._links[cid] in host.hub._resting or host.waiting  # its last events wait for their turn
            check(isinstance(error, OwnLimitExceeded) or over, f"{cid} takes no subscription, and is not over")
            self.counts["not_taken"] += 1
            return
        self._trace(f"{host.name} subscribes to {plan.name} as {key}, demand {demand}, window {window}")
        check(key not in host.intakes, f"{key} is taken already")
        host.intakes[key] = InboundStream(key, plan, window, demand)
        self._turn(host)

    def _an_intake(self, host: Host) -> InboundStream | None:
        mine = [one for one in host.intakes.values() if one.key[0] not in host.left and not one.misused]
        return self._rng.choice(mine) if mine else None

    def _op_request(self, host: Host) -> None:
        intake = self._an_intake(host)
        if intake is not None:
            count = self._rng.choice((1, 2, 30, MAX_LONG if intake.plan.ending != "endless" else 40))
            self._trace(f"{host.name} requests {count} on {intake.key}")
            host.hub.request(*intake.key, intake.grant(count))
            self._turn(host)

    def _op_cancel(self, host: Host) -> None:
        intake = self._an_intake(host)
        if intake is not None:
            self._trace(f"{host.name} cancels {intake.key}")
            self.counts["cancels"] += 1
            self._cancel(host, intake)

    def _op_misuse(self, host: Host) -> None:
        """Makes a request below 1, which ends the stream and does not raise (R-16)."""
        intake = self._an_intake(host)
        if intake is not None:
            self._trace(f"{host.name} requests nothing on {intake.key}")
            intake.misused = True
            self.counts["misuses"] += 1
            host.hub.request(*intake.key, self._rng.choice((0, -1)))
            self._turn(host)

    def _op_goodbye(self, host: Host) -> None:
        if host.up:
            cid = self._rng.choice(list(host.up))
            self._trace(f"{host.name} says goodbye to {cid}")
            host.left.add(cid)
            self._call(host, "goodbye", cid, "bye")

    def _op_break(self, host: Host) -> None:
        """Breaks a connection at any byte."""
        if host.ends:
            self.counts["breaks"] += 1
            end = self._rng.choice(list(host.ends.values()))
            self._trace(f"{host.name} {end.cid} breaks")
            for side in (end, end.other):
                del side.arriving[self._rng.randint(0, len(side.arriving)) :]
                self._lose_later(side)

    def _op_cut(self, host: Host) -> None:
        """Ends a host's input after any byte, without a goodbye (R-30); its output goes on."""
        if host.ends:
            self.counts["cuts"] += 1
            end = self._rng.choice(list(host.ends.values()))
            self._trace(f"{host.name} {end.cid} hears no more")
            del end.arriving[self._rng.randint(0, len(end.arriving)) :]
            end.ending = end.other.broken = True
            self._move(end)

    def _op_jump(self, host: Host) -> None:
        """Sets a host's clock forward."""
        seconds = self._rng.choice((1.0, 7.0, 3600.0))
        self._trace(f"{host.name}'s clock is set {seconds:g} s forward")
        host.clock += seconds
        host.timer = float("inf")
        self._call(host, "handle_timeout")

    def _op_stall(self, host: Host) -> None:
        """Holds a host up: its input arrives, and its actions wait for some seconds."""
        if not host.waiting:
            self._trace(f"{host.name} is held up")
            self.counts["stalls"] += 1
            self._drain_later(host, self._rng.random() * _HELD_UP)

    def _op_overreach(self, host: Host) -> None:
        """Makes a source send more than was requested (R-18). Its hub would refuse that, so its count of requested
        elements is raised first.
        """
        given = [
            (feed, end, stream)
            for feed in host.feeds.values()
            if feed.accepted and feed.granted < MAX_LONG
            if (end := host.ends.get(feed.key[0])) and end.connection
            if (stream := end.connection._publisher._streams.get(feed.key[1]))
        ]
        if given:
            feed, end, stream = self._rng.choice(given)
            count = self._rng.randint(1, 3)
            self._trace(f"{host.name} gives {count} more than it may on {feed.key}")
            self.counts["overreaches"] += 1
            end.monitor.excuse(end.role)
            self._excused.add(feed.plan.serial)
            stream.demand += count
            feed.grant(count)
            self._pump(host, feed)

    def _op_close(self, host: Host) -> None:
        """Closes a host's hub, and starts the host again once that is idle."""
        self.counts["closes"] += 1
        self._close(host)
        self._at(1.0, self._closed, host, host.born, 60)

    def _close(self, host: Host) -> None:
        self._trace(f"{host.name} closes")
        host.closing = True
        host.left |= host.hub._links.keys()
        self._call(host, "close")

    def _closed(self, host: Host, born: int, patience: int) -> None:
        check(patience, f"{host.name} is not idle a minute after close()")
        if self._calm:
            return  # the run closes all hosts soon
        if host.hub.idle and not host.waiting:
            host.check_empty()
            self._start(host)
        else:
            self._at(1.0, self._closed, host, born, patience - 1)
