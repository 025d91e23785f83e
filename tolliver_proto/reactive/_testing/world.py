"""Simulated world of hubs: programs, connections, and the driving loop.

State: for each program (`Host`) its hub, its streams, and its ends of connections; for each connection the bytes on
their way (`End`) and a `WireMonitor`.

Invariants: each input to a hub goes through `_call`, which carries out the hub's actions as an adapter does, at once or
later with more input in between. The monitor is told of a frame when the hub writes it, not when the frame leaves, and
before that of all input that the side has processed: else the monitor would judge a frame by a later state. After each
drain `Host.check` compares the hub with the books of its host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from ..._common.base_link import LinkState
from ..._common.transport import Remote, Role, Transmit
from ..._testing.invariants import check
from ..._testing.randomness import Dice
from ..._testing.virtual_clock import VirtualClock
from .._actions import Action, Happened
from .._connection import Connection
from .._events import Elements
from .._hub import Hub
from .._limits import Limits
from .._state import ENDING, State
from .ledgers import InboundStream, Key, OutboundStream
from .monitor import WireMonitor, _Side

_MOST_BUFFERED = 400  # bytes: a connection keeps no more than a part of one frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """Severity of faults: chances from 0 to 1, times in seconds of the virtual clock."""

    delay: float = 0.02  # the longest usual delay of bytes and writes
    slow: float = 0.05  # chance that a delay is a hundred times longer
    dial_fails: float = 0.15
    tls_hangs: float = 0.05  # chance that one side never hears that the transport stands
    writer_slow: float = 0.1  # chance of a long write
    writer_patience: float = 3.0  # the longest write
    reader_slow: float = 0.1  # chance that the application takes elements late
    reader_patience: float = 3.0  # the longest wait for that
    source_slow: float = 0.3  # chance that a source has no element now
    half_open: float = 0.3  # chance that a lost connection is noticed late
    half_open_for: float = 12.0
    late_drain: float = 0.2  # chance that actions wait for more input


CALM = Weather(
    slow=0.0,
    dial_fails=0.0,
    tls_hangs=0.0,
    writer_slow=0.0,
    reader_slow=0.0,
    half_open=0.0,
)

TIGHT = Limits(
    max_packed=64,
    max_streams=5,
    max_answers=2000,
    handshake_timeout=3.0,
    close_timeout=2.0,
    high_water=300,
    low_water=80,
    max_turn=3,
    max_handshakes=3,
    max_handshakes_per_address=2,
    max_unread=1000,
)
"""Bounds that a short simulation meets too."""

ROOMY = Limits(max_packed=500)


class End:
    """One side of a connection: the bytes on their way to this side, and its state."""

    def __init__(self, host: Host, cid: int, role: Role, monitor: WireMonitor) -> None:
        self.host = host
        self.born = host.born
        self.cid = cid
        self.role = role
        self.monitor = monitor
        self.connection: Connection | None = None
        self.other: End = self
        self.arriving = bytearray()
        self.ending = False  # the stream ends after `arriving`
        self.received = 0
        self.moving = False
        self.open = False
        self.broken = False  # written bytes arrive no more
        self.paused = False
        self.in_transit = False
        self.shut = False
        self.eof = False
        self.over = False
        self._processed = 0
        self._written = 0  # pieces of the hub's output that the monitor knows
        self._told = 0  # bytes of the hub's output that the monitor knows

    @property
    def alive(self) -> bool:
        return not self.over and self.host.born == self.born

    def watch(self) -> None:
        """Tells the monitor what this end has processed, and then what it has written."""
        connection = self.connection
        if connection is None:
            return
        upto = self.received - connection.buffered_bytes
        if upto > self._processed:
            self._processed = upto
            self.monitor.processed(self.role, upto)
        parts = connection._output._parts
        if len(parts) != self._written:
            for part in parts[self._written :]:
                self._tell(part)
            self._written = len(parts)

    def transmit(self, data: bytes) -> None:
        """Tells the monitor the bytes of a Transmit that it does not know yet."""
        unseen = data[self._told :]
        self._tell(unseen)
        self._told = 0

    def _tell(self, data: bytes) -> None:
        self._told += len(data)
        self.monitor.emitted(self.role, data)


class Host:
    """One program of the simulation: its hub, its streams, and a record of the hub's events."""

    def __init__(self, name: str, limits: Limits) -> None:
        self.name = name
        self.limits = limits
        self.hub = Hub(limits=limits)
        self.born = 0
        self.clock = 0.0  # seconds by which its monotonic clock is ahead of the world's
        self.ends: dict[int, End] = {}
        self.peers: dict[int, _Side] = {}  # the monitor's sides of the peers, until their PeerDown
        self.up: dict[int, Remote | None] = {}
        self.owed: dict[int, Remote | None] = {}  # remotes by cid, until their PeerDown
        self.left: set[int] = set()  # cids to which we said goodbye
        self.feeds: dict[Key, OutboundStream] = {}
        self.intakes: dict[Key, InboundStream] = {}
        self.cancelled: set[Key] = set()
        self.holding: Counter[int] = Counter()  # cost of the elements handed out and not taken, by cid
        self.timer = float("inf")
        self.turning = False
        self.waiting = False  # the actions wait for more input
        self.closing = False

    def time(self, now: float) -> float:
        """Returns this host's monotonic clock, in seconds, at the world's time `now`."""
        return now + self.clock

    def check(self) -> None:
        """Checks the invariants of a hub that has no action left."""
        hub = self.hub
        links = hub._links
        check(hub._timers.deadlines.keys() <= links.keys(), "a deadline of a connection that is forgotten")
        strangers = links.keys() - self.up.keys()
        check(hub._limiter._shares.keys() <= strangers, "one that is known or forgotten counts as a stranger (D-7)")
        check(not hub._readable and not hub._writable, "all is done, and something is left to do")
        for cid, link in links.items():
            end = self.ends.get(cid)
            check(link.unread == self.holding[cid], "it counts as unread what is not, or the other way round")
            check(end is None or end.paused is link.paused, "a transport was not told to pause or to read on")
            if link.connection is not None:
                ending = link.connection.state in ENDING  # frames are read and dropped
                check(
                    link.paused or ending or link.unread <= self.limits.max_unread, "it reads on with too much unread"
                )
                kept = link.connection.buffered_bytes
                if link in hub._resting:
                    check(link.paused or not kept, "it reads on, and what was read waits for its turn")
                else:
                    check(ending or kept < _MOST_BUFFERED, "what was read is kept")
                check(
                    not link.above_high_water or link.in_transit or link.state is LinkState.DRAINING,
                    "nobody will say that it is drained (R-32)",
                )
                busy = link.in_transit or link.state is LinkState.DRAINING or link.connection.state is not State.OPEN
                waits = link.connection.next_timeout() is not None
                check(busy or waits is (cid in hub._timers.deadlines), "a deadline and no wait, or the other way round")
        for (cid, stream), feed in self.feeds.items():
            link = links[cid]
            if feed.accepted and not feed.busy and link.connection is not None:
                stuck = link.connection.demand(stream) and not link.above_high_water
                check(not stuck, "a source waits with demand, and nobody will wake it (R-32)")

    def check_empty(self) -> None:
        """Checks that a closed hub keeps no state."""
        self.check()
        hub = self.hub
        check(not hub._resting, "idle, and somebody waits for its turn")
        check(not hub._links and not hub._timers.deadlines and not hub._actions, "idle, and something is left")
        check(not hub._limiter._shares and not hub._limiter._in_progress, "idle, and strangers are counted (D-7)")
        check(not self.ends, f"transports that nobody ended: {list(self.ends)}")
        check(not self.owed, f"connections whose end was never told: {list(self.owed)}")
        check(not self.feeds and not self.intakes, f"streams that never ended: {[*self.feeds, *self.intakes]}")


class World(VirtualClock):
    """Simulated adapters: the hosts, and the loop that carries out their hubs' actions. `_do` has a function for each
    class of action."""

    _do: dict[type, Callable[[Host, Any], None]]

    def __init__(
        self,
        seed: int,
        dice: Dice,
        nodes: int | None,
        limits: Limits | None,
        weather: Weather | None,
        never: Collection[str],
        trace: bool,
    ) -> None:
        super().__init__(seed, dice, trace)
        drawn = Weather(
            **{name: getattr(Weather(), name) * dice.choice((0.0, 0.3, 1.0, 2.0)) for name in Weather.__slots__}
        )
        self._weather = replace(weather or drawn, **{name: 0.0 for name in Weather.__slots__ if name in never})
        self._calm = False
        self._serial = 0
        bounds = limits or dice.choice((TIGHT, TIGHT, ROOMY))
        self._hosts = [Host(f"h{index}", bounds) for index in range(nodes or dice.choice((2, 2, 2, 3, 3, 4, 5)))]

    def _delay(self) -> float:
        stretch = 100.0 if self._chance(self._weather.slow) else 1.0
        return self._rng.random() * (self._weather.delay + 0.001) * stretch

    def _patience(self, chance: float, patience: float) -> float:
        return self._rng.random() * patience if self._chance(chance) else self._delay()

    # The loop of an adapter.

    def _call(self, host: Host, name: str, *arguments: Any) -> None:
        """Calls the method `name` of the host's hub, and carries out the actions."""
        self._watch(host)
        getattr(host.hub, name)(*arguments, now=host.time(self.now))
        self._turn(host)

    def _turn(self, host: Host) -> None:
        """Carries out the actions that the host's hub has, now or a little later."""
        if host.turning or host.waiting:
            return
        if self._chance(self._weather.late_drain):
            self._drain_later(host, self._delay())
        else:
            self._drain(host)

    def _drain_later(self, host: Host, wait: float) -> None:
        host.waiting = True
        self._at(wait, self._drain_late, host)

    def _drain_late(self, host: Host) -> None:
        """Carries out the actions of a program that was held up; it may handle its timeout first."""
        host.waiting = False
        self._watch(host)
        if self._chance(0.5):
            host.hub.handle_timeout(host.time(self.now))
        self._drain(host)

    def _drain(self, host: Host) -> None:
        hub, born = host.hub, host.born
        host.turning = True
        self._watch(host)
        while (action := self._next_action(host)) is not None:
            self._trace(f"{host.name} {_line(action)}")
            self._do[type(action)](host, action)
            end = host.ends.get(getattr(action, "cid", 0))
            if end is not None:
                end.watch()
        host.turning = False
        host.check()
        due = hub.next_timeout()
        if due is not None and due < host.timer:
            host.timer = due
            self._at(max(0.0, due - host.clock - self.now), self._timeout, host, born, due)

    def _next_action(self, host: Host) -> Action | None:
        """Returns the hub's next action; the monitors are told of all input that was read for that action."""
        reading = [host.ends[link.cid] for link in host.hub._readable if link.cid in host.ends]
        action = host.hub.next_action()
        for end in reading:
            end.watch()
        return action

    def _watch(self, host: Host) -> None:
        for end in host.ends.values():
            end.watch()

    def _timeout(self, host: Host, born: int, due: float) -> None:
        if host.born == born and host.timer == due:
            host.timer = float("inf")
            self._watch(host)
            host.hub.handle_timeout(max(due, host.time(self.now)))  # the sum of two clocks may be rounded down
            self._call(host, "handle_timeout")


def _line(action: Action) -> str:
    """Returns the line of the trace for an action."""
    if isinstance(action, Transmit):
        return f"Transmit {action.cid}: {sum(map(len, action.units))} bytes"
    if isinstance(action, Happened) and isinstance(action.event, Elements):
        return f"Elements {action.cid}/{action.event.subscriber_id}: {len(action.event.elements)}"
    return str(action)
