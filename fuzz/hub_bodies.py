"""Checks for the fuzzer of a hub, on any bytes.

Any bytes are a program for two hubs that are joined by up to a few wires: two bytes a step, which call and with what.
The fuzzer is adapter, network and application at once, and may put bytes of its own on a wire; it only keeps to what an
adapter promises (one `sent` for each Transmit, nothing after `lost`). A step may raise what is documented and nothing
else; at the end every wire is cut, and nothing may be left of anything.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tolliver_proto import (
    Abort,
    ConnectionClosing,
    ConnectionLost,
    Dial,
    LocalProtocolError,
    PauseReading,
    PeerIdentity,
    ResumeReading,
    ShutdownWrite,
    Transmit,
)
from tolliver_proto.reactive import (
    CertificateExpires,
    Elements,
    Happened,
    Hub,
    Limits,
    OnComplete,
    OnError,
    PeerDown,
    PeerUp,
    Role,
)

from .bodies import MOST_STEPS, bounded
from .reactive_bodies import _COUNTS, FRAMES, encoded

LIMITS = (
    Limits(),
    Limits(
        max_element=20,
        max_packed=8,
        max_streams=2,
        max_answers=60,
        high_water=40,
        low_water=10,
        max_turn=4,
        max_handshakes=2,
        max_handshakes_per_address=1,
        max_unread=200,
    ),
)
_MOST_WIRES = 6


class End:
    """One side of a wire."""

    def __init__(self, cid: int, role: Role) -> None:
        self.cid = cid
        self.role = role
        self.other: End | None = None
        self.arriving = bytearray()
        self.ending = False
        self.opened = self.in_transit = self.shut = self.paused = self.eof = False


class Program:
    """Two hubs, the wires between them, and what was told."""

    def __init__(self, limits: Limits) -> None:
        self.hubs = [Hub(limits=limits, now=0.0) for _ in range(2)]
        self.now = 0.0
        self.ends: list[dict[int, End]] = [{}, {}]
        self.owed: list[set[int]] = [set(), set()]  # whose PeerDown is still to come
        self.taken: list[set[tuple[int, int]]] = [set(), set()]  # streams that have not ended
        self.holding: list[defaultdict[int, list[list[bytes]]]] = [defaultdict(list), defaultdict(list)]
        self.told: Counter[str] = Counter()

    def step(self, code: int, argument: int) -> None:
        """One call, then all that it leads to."""
        side = code & 1
        with suppress(LocalProtocolError, ConnectionClosing):
            _STEPS[code // 2 % len(_STEPS)](self, side, argument)
        for each in (0, 1):
            self.take(each)

    def take(self, side: int) -> None:
        hub = self.hubs[side]
        while (action := hub.next_action()) is not None:
            said = action.event if isinstance(action, Happened) else action
            self.told[type(said).__name__] += 1
            if isinstance(action, Dial):
                self.dial(side, action.cid)
            elif isinstance(action, PeerUp | PeerDown | Happened):
                self.tell(side, action)
            elif not isinstance(action, CertificateExpires) and action.cid in self.ends[side]:
                self.move(side, self.ends[side][action.cid], action)
        links = hub._links
        assert hub._timers.deadlines.keys() <= links.keys(), "a deadline of a connection that is forgotten"
        assert hub._limiter._shares.keys() <= links.keys(), "a stranger that is forgotten"
        assert all(link.unread >= 0 for link in links.values())
        assert hub.next_action() is None

    def dial(self, side: int, cid: int) -> None:
        other = self.hubs[1 - side].new_cid(self.now, "192.0.2.1")
        if other is None or len(self.ends[side]) >= _MOST_WIRES:
            self.hubs[side].lost(cid, ConnectionLost("refused"), self.now)
            return
        near, far = End(cid, Role.CLIENT), End(other, Role.SERVER)
        near.other, far.other = far, near
        self.ends[side][cid], self.ends[1 - side][other] = near, far

    def tell(self, side: int, action: Any) -> None:
        owed, taken = self.owed[side], self.taken[side]
        if isinstance(action, PeerUp):
            owed.add(action.cid)
        elif isinstance(action, PeerDown):
            owed.remove(action.cid)  # once
            assert not any(cid == action.cid for cid, _ in taken), "a stream whose end was not told"
        elif isinstance(action.event, Elements):
            assert action.event.elements
            self.holding[side][action.cid].append(action.event.elements)
        elif isinstance(action.event, OnComplete | OnError):
            taken.discard((action.cid, action.event.subscriber_id))  # once, but for those that were cancelled

    def move(self, side: int, end: End, action: Any) -> None:
        other = end.other
        if isinstance(action, Transmit):
            assert not end.in_transit
            assert not end.shut
            end.in_transit = True
            if other is not None:
                other.arriving += b"".join(action.units)
        elif isinstance(action, ShutdownWrite):
            assert not end.in_transit
            assert not end.shut
            end.shut = True
            if other is not None:
                other.ending = True
        elif isinstance(action, PauseReading | ResumeReading):
            assert end.paused is isinstance(action, ResumeReading)
            end.paused = not end.paused
        elif isinstance(action, Abort):
            self.cut(side, end)

    def cut(self, side: int, end: End) -> None:
        del self.ends[side][end.cid]
        if end.other is not None:
            end.other.other, end.other.ending = None, True

    def end(self, side: int, argument: int) -> End | None:
        ends = [*self.ends[side].values()]
        return ends[argument % len(ends)] if ends else None

    def finish(self) -> None:
        """All wires are cut, all elements taken: nothing is left."""
        for side in (0, 1):
            for end in list(self.ends[side].values()):
                _lose(self, side, end)
            for cid in list(self.hubs[side]._links):
                self.hubs[side].lost(cid, None)
            self.take(side)
            while self.hubs[side]._resting:  # fewer each time
                self.hubs[side].handle_timeout(self.now)
                self.take(side)
        for side, hub in enumerate(self.hubs):
            assert hub.idle
            assert hub.next_timeout() is None
            left = (hub._readable, hub._writable, hub._limiter._shares, hub._limiter._in_progress)
            assert not any((*left, self.owed[side], self.taken[side]))


def operations(data: bytes, *, watch_memory: bool = False) -> Program:
    """Any bytes as a program: documented errors only, invariants after each step, nothing left at the end."""
    with bounded(64 * len(data), watch_memory):
        program = Program(LIMITS[(data[0] if data else 0) % 2])
        for at in range(1, min(len(data) - 1, 2 * MOST_STEPS), 2):
            program.step(data[at], data[at + 1])
        program.finish()
    return program


# Steps: of the network.


def _connect(run: Program, side: int, argument: int) -> None:
    run.owed[side].add(run.hubs[side].connect(argument, run.now))


def _open(run: Program, side: int, argument: int) -> None:
    waiting = [end for end in run.ends[side].values() if not end.opened]
    if waiting:
        end = waiting[argument % len(waiting)]
        end.opened = True
        run.hubs[side].opened(end.cid, end.role, PeerIdentity(), run.now)


def _deliver(run: Program, side: int, argument: int) -> None:
    """To all ends of that side, so many bytes, or all."""
    for end in list(run.ends[side].values()):
        size = argument % 16 or len(end.arriving)
        if not end.opened or end.paused or end.eof:
            continue
        if end.arriving:
            run.hubs[side].receive_data(end.cid, bytes(end.arriving[:size]), run.now)
            del end.arriving[:size]
        elif end.ending:
            end.eof = True
            run.hubs[side].receive_eof(end.cid, run.now)


def _sent(run: Program, side: int, argument: int) -> None:
    for end in list(run.ends[side].values()):
        if end.in_transit:
            end.in_transit = False
            run.hubs[side].sent(end.cid, run.now)


def _inject(run: Program, side: int, argument: int) -> None:
    """A frame that nobody sent, or a byte."""
    end = run.end(side, argument)
    if end is not None:
        frame = FRAMES[argument % len(FRAMES)]
        end.arriving += bytes([argument]) if argument > 200 else encoded(frame, {})


def _end_input(run: Program, side: int, argument: int) -> None:
    end = run.end(side, argument)
    if end is not None and argument > 100:
        del end.arriving[argument % 8 :]
        end.ending = True


def _lost(run: Program, side: int, argument: int) -> None:
    end = run.end(side, argument)
    if end is not None and argument > 100:
        _lose(run, side, end)


def _lose(run: Program, side: int, end: End) -> None:
    run.cut(side, end)
    run.hubs[side].lost(end.cid, ConnectionLost("reset") if end.cid % 2 else None, run.now)


def _wait(run: Program, side: int, argument: int) -> None:
    run.now += argument / 32
    for hub in run.hubs:
        hub.handle_timeout(run.now)


# Steps: of the application. An argument is a connection, a stream, and something to say.


def _key(argument: int) -> tuple[int, int]:
    return argument % 3 + 1, argument // 3 % 3 + 1


def _subscribe(run: Program, side: int, argument: int) -> None:
    cid = argument % 3 + 1
    run.taken[side].add((cid, run.hubs[side].subscribe(cid, "p", _COUNTS[argument // 3 % 6])))


def _request(run: Program, side: int, argument: int) -> None:
    run.hubs[side].request(*_key(argument), _COUNTS[argument // 9 % 6])


def _cancel(run: Program, side: int, argument: int) -> None:
    run.hubs[side].cancel(*_key(argument))
    run.taken[side].discard(_key(argument))


def _took(run: Program, side: int, argument: int) -> None:
    for cid, runs in run.holding[side].items():
        some = [element for _ in range(min(len(runs), argument)) for element in runs.pop()]
        run.hubs[side].took(cid, sum(map(len, some)), len(some))


def _subscribed(run: Program, side: int, argument: int) -> None:
    run.hubs[side].subscribed(*_key(argument), argument // 9 % 4)


def _next_many(run: Program, side: int, argument: int) -> None:
    hub, key = run.hubs[side], _key(argument)
    count = min(hub.wanted(*key), argument // 9 % 8)
    assert hub.next_many(*key, [bytes(argument % 4)] * count) <= count


def _too_many(run: Program, side: int, argument: int) -> None:
    run.hubs[side].next_many(*_key(argument), [b"x"] * (argument // 9))


def _complete(run: Program, side: int, argument: int) -> None:
    run.hubs[side].complete(*_key(argument))


def _error(run: Program, side: int, argument: int) -> None:
    run.hubs[side].error(*_key(argument), "failed")


def _goodbye(run: Program, side: int, argument: int) -> None:
    if argument > 150:
        run.hubs[side].goodbye(argument % 3 + 1, "bye", run.now)


def _close(run: Program, side: int, argument: int) -> None:
    if argument > 240:
        run.hubs[side].close(run.now)


_STEPS: list[Callable[[Program, int, int], None]] = [
    _connect,
    _open,
    _deliver,
    _sent,
    _inject,
    _end_input,
    _lost,
    _wait,
    _subscribe,
    _request,
    _cancel,
    _took,
    _subscribed,
    _next_many,
    _too_many,
    _complete,
    _error,
    _goodbye,
    _close,
]


def code(step: Callable[[Program, int, int], None], side: int) -> int:
    return 2 * _STEPS.index(step) + side


def operations_seeds() -> list[bytes]:
    """Programs that connect, take a stream, give another, and then go on with some of everything."""

    def play(*steps: tuple[Callable[[Program, int, int], None], int, int]) -> bytes:
        return bytes(byte for step, side, argument in steps for byte in (code(step, side), argument))

    flow = [(step, side, 0) for _ in range(2) for side in (0, 1) for step in (_deliver, _sent)]
    up = play((_connect, 0, 0), (_open, 0, 0), (_open, 1, 0), *flow)
    streams = play(
        (_subscribe, 0, 3), (_subscribe, 1, 6), *flow, (_subscribed, 0, 9), (_subscribed, 1, 9), *flow
    ) + play((_next_many, 1, 37), (_next_many, 0, 37), *flow, (_request, 0, 9), (_request, 1, 9), *flow)
    full = [(_next_many, 0, 63), (_next_many, 0, 63), *flow, (_took, 1, 9)]
    flood = play((_subscribe, 1, 6), *flow, (_subscribed, 0, 0), *full, *full, *full)
    found = []
    for settings in (0, 1):
        for step in _STEPS:
            for side in (0, 1):
                rest = play((step, side, 243), *flow, (step, side, 0), (_took, 1 - side, 9), *flow, (_wait, 0, 200))
                found += [bytes([settings]) + up + rest, bytes([settings]) + up + streams + rest + flood]
    return found
