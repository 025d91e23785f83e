"""Life of a message, and each kill in it: two nodes with their stores, in a run without chance.

Every step is one that the nodes really take: calls, commits, frames, deliveries. The run is that of the tests
(`tests/node/table.py`): virtual time, and queues for all that takes some. For the kills it is run again for each step
and each side, which dies there and comes back with what its disk has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.node.table import Seat, Table
from tolliver_proto import Ack, Commit, Decoder, Deliver, Message, Revision, Stored, Transmit
from tolliver_proto.node import Acked

from .svg import arrow, line, picture, rectangle, words

BODY = b"18.5"
PROGRAM, SENDER, DISK, RECEIVER, HANDLER = range(5)
NAMES = ("your program", "sender", "its disk", "receiver", "handler")
_OPERATIONS = {
    "StoreMessages": "store the message",
    "AddDeliveries": "note whom it is owed to",
    "RemoveDeliveries": "note that it is owed no more",
    "RemoveMessages": "remove it",
}


class Step(NamedTuple):
    """An arrow between two of `NAMES`."""

    start: int
    end: int
    text: str


class Kill(NamedTuple):
    """The outcome where one side dies before a step."""

    returned: bool
    """`send` had returned."""
    handled: int


@dataclass
class Run:
    """One message, from `send` to its removal; with `victim`, a kill before that step."""

    victim: int | None = None
    before: int | None = None
    steps: list[Step] = field(default_factory=list)
    returned: bool = False

    _live = False

    def __post_init__(self) -> None:
        self._table = _Watched(1, self._told, self._returns)
        self._sender, self._receiver = self._table.seats
        self._receiver.call("subscribe", "weather", "")
        self._sender.connect(1)
        self._table.settle(self._table.is_quiet)
        self._live = True

    def play(self) -> Run:
        sender, table = self._sender, self._table
        if not self._step(sender, PROGRAM, SENDER, 'send("weather", "berlin", b"18.5")'):
            receipt = sender.node.send_many([("weather", "berlin", BODY)], now=sender.now)
            sender.node.watch(receipt)
            sender.unreported[receipt] = [BODY]
            sender.call("handle_timeout")
        table.settle(table.is_quiet)
        table.check()
        return self

    @property
    def handled(self) -> int:
        return self._receiver.handled[BODY]

    def _step(self, seat: Seat, start: int, end: int, text: str) -> bool:
        """Note it. True where somebody is killed instead."""
        if not self._live:
            return False
        if self.before == len(self.steps):
            self._live = False
            self._table.seats[self.victim or 0].crash()
            return self.victim == seat.number
        self.steps.append(Step(start, end, text))
        return False

    def _told(self, seat: Seat, action: Any) -> bool:
        """An action of a node, before it is carried out. True where its owner is killed instead."""
        ours = seat is self._sender
        killed = False
        if isinstance(action, Commit) and ours:
            said = [_OPERATIONS[name] for one in action.operations if (name := type(one).__name__) in _OPERATIONS]
            killed = bool(said) and self._step(seat, SENDER, DISK, "commit: " + ", ".join(dict.fromkeys(said)))
        elif isinstance(action, Stored) and ours:
            killed = self._step(seat, SENDER, PROGRAM, "on the disk: send() returns")
            self.returned = self.returned or not killed
        elif isinstance(action, Acked) and ours:
            killed = self._step(seat, SENDER, PROGRAM, "acknowledged by all")
        elif isinstance(action, Deliver):
            killed = self._step(seat, RECEIVER, HANDLER, "the handler is called")
        elif isinstance(action, Transmit):
            for frame in _frames(action):
                if isinstance(frame, Message) and frame.channel == "weather":
                    killed = killed or self._step(seat, SENDER, RECEIVER, "the message, over TLS")
                elif isinstance(frame, Ack) and not ours:
                    killed = killed or self._step(seat, RECEIVER, SENDER, "its ack")
        return killed

    def _returns(self, seat: Seat) -> bool:
        return self._step(seat, HANDLER, RECEIVER, "it returns: done")


class _Watched(Table):
    """A table that tells of each action before it, and of handlers that return. True: the seat is dead."""

    def __init__(self, seed: int, told: Callable[[Seat, Any], bool], returns: Callable[[Seat], bool]) -> None:
        self._told, self._returns = told, returns
        super().__init__(seed)

    def perform(self, seat: Seat, action: Any) -> None:
        if not self._told(seat, action):
            super().perform(seat, action)

    def _handle(self, seat: Seat, action: Deliver) -> None:
        seat.handled.update(delivery.body for delivery in action.deliveries)
        if not self._returns(seat):
            seat.call("acknowledge", action.deliveries)


def _frames(action: Transmit) -> list[Any]:
    decoder = Decoder(Revision.DRAFT_2)
    decoder.feed(b"".join(action.units))
    found = []
    while (frame := decoder.next_frame()) is not None:
        found.append(frame)
    return found


# The pictures.

_LEFT, _COLUMN, _TOP, _ROW = 70, 150, 40, 44
_KINDS = {(PROGRAM, SENDER): "call", (SENDER, PROGRAM): "call", (SENDER, DISK): "disk", (RECEIVER, HANDLER): "call"}
_KINDS |= {(HANDLER, RECEIVER): "call"}


def life() -> str:
    """The sequence of one message."""
    steps = Run().play().steps
    height = _TOP + _ROW * (len(steps) + 1)
    places = [_LEFT + _COLUMN * number for number in range(len(NAMES))]
    parts = []
    for name, x in zip(NAMES, places, strict=True):
        parts += [line("rule", (x, _TOP + 6), (x, height - 12)), words("title middle", x, _TOP - 10, name)]
    for number, step in enumerate(steps):
        y = _TOP + _ROW * (number + 1)
        start, end = places[step.start], places[step.end]
        parts += arrow(_KINDS.get((step.start, step.end), "wire"), (start, y), (end, y))
        parts += _beside(f"{number + 1}. {step.text}", min(start, end) + 8, y - 7)
    told = "; ".join(f"{n}. {NAMES[one.start]} to {NAMES[one.end]}: {one.text}" for n, one in enumerate(steps, 1))
    return picture("The life of a message", told, places[-1] + 150, height, parts)


def _beside(text: str, x: float, y: float, colour: str = "") -> list[str]:
    """Words over a lifeline, with the paper around them."""
    return [rectangle("paper", x - 2, y - 11, 6.4 * len(text) + 4, 14), words(f"small {colour}".rstrip(), x, y, text)]


_OUTCOMES = {
    (False, 0): ("faint", "never sent: send() had not returned"),
    (False, 1): ("good", "handled once; send() had not returned"),
    (True, 1): ("good", "handled once"),
    (True, 2): ("fair", "the handler is called twice"),
}


def outcomes(steps: int, victim: int) -> list[Kill]:
    """Those of a kill before each step, and after the last."""
    runs = [Run(victim, before).play() for before in range(steps + 1)]
    return [Kill(run.returned, run.handled) for run in runs]


def kills() -> str:
    """The outcome of each kill. KeyError if one loses a message."""
    steps = Run().play().steps
    sides = [outcomes(len(steps), victim) for victim in (0, 1)]
    columns = (16, 452, 744)
    row, top = 40, 56
    height = top + row * (len(steps) + 1) + 10
    parts = [
        words("title", columns[0], 22, "steps of a message"),
        words("title", columns[1], 22, "the sender is killed here,"),
        words("title", columns[2], 22, "the receiver is killed here,"),
    ]
    parts += [words("title", column, 38, "and comes back") for column in columns[1:]]
    told = []
    for number in range(len(steps) + 1):
        y = top + row * number
        parts.append(line("rule dashed", (columns[1] - 14, y + 8), (960, y + 8)))
        said = []
        for column, side in zip(columns[1:], sides, strict=True):
            colour, outcome = _OUTCOMES[side[number]]
            parts += _beside(f"✕ {outcome}", column, y + 12, colour)
            said.append(outcome)
        place = f"before {number + 1}" if number < len(steps) else "after all"
        told.append(f"killed {place}: sender, {said[0]}; receiver, {said[1]}")
        if number < len(steps):
            step = steps[number]
            parts.append(
                words(
                    "small", columns[0], y + 32, f"{number + 1}. {NAMES[step.start]} → {NAMES[step.end]}: {step.text}"
                )
            )
    return picture("The outcome of each kill", ". ".join(told), 980, height, parts)
