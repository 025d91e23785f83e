"""Proofs of the node, by number of runs (docs/proof.md).

There are a few in `make test`, many with `python -m scripts.prove.proofs NAME SIZE`.

A proof is a function of one number that raises AssertionError; its size is how many numbers are tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from random import Random

from tolliver_proto import Decoder, Message, Revision, Transmit
from tolliver_proto._node.outboxes.ids import LAST_ID, RESERVE
from tolliver_proto._node.subscriptions import matching
from tolliver_proto._testing.inspection import inside

from .table import End, Seat, Table

NAMES = [(channel, key) for channel in ("", "a", "b") for key in ("", "x")]


# V21: what peers know of each other's subscriptions converges (T-29, T-30, T-31).


def converge(seed: int) -> None:
    """Subscribe, unsubscribe, drop, restart in any order; after quiet each knows exactly what the other wants."""
    table = Table(seed)
    dice = table.dice
    one, other = table.seats
    one.connect(1)
    for _ in range(dice.randint(4, 14)):
        seat = dice.choice(table.seats)
        match dice.choice("ssssuuudr"):
            case "s":
                seat.call("subscribe", *dice.choice(NAMES))
            case "u":
                seat.call("unsubscribe", *dice.choice(NAMES))
            case "d":
                table.drop_all(seat)
            case "r":
                seat.crash()
        table.steps(dice.choice((0, 0, 1, 3, 8)))
    table.settle(table.is_quiet)
    table.check()
    assert one.knows(other) == set(other.store.load().own_subscriptions)


# V15: crossing dials (T-70).


def cross(seed: int) -> None:
    """Both dial each other at once and send: one connection is left, the same on both sides, and nothing is lost."""
    table = Table(seed)
    dice = table.dice
    for seat in table.seats:
        seat.call("subscribe", "c", "")
    table.steps(100)
    numbers = count()
    sent: list[tuple[Seat, bytes]] = []
    wishes = [0, 1]
    while wishes or dice.random() < 0.8:
        if wishes and dice.random() < 0.6:
            number = wishes.pop(dice.randrange(len(wishes)))
            table.seats[number].connect(1 - number)
        seat, body = dice.choice(table.seats), b"%d" % next(numbers)
        opened = any(
            link.connection is not None and link.role.value == "client"
            for link in inside(seat.node).context.links.values()
        )
        seat.send("c", "k", body)
        if opened or seat.knows(table.seats[1 - seat.number]):
            sent.append((table.seats[1 - seat.number], body))
        table.steps(dice.randrange(8))
    table.settle(table.is_quiet)
    table.check()
    (left,), (right,) = (seat.ends.values() for seat in table.seats)
    assert left.other is right
    assert table.dials == 2, f"{table.dials} dials: both connections were closed, or neither side was content (T-70)"
    for receiver, body in sent:
        assert receiver.handled[body], f"{body!r} is lost"


# V17: message ids begin again (T-40, T-41).


def wrap(seed: int, messages: int = 5000) -> None:
    """Ids run over their end while some on both sides of it are outstanding to a peer that is away."""
    table = Table(seed, seats=3)
    sender, present, away = table.seats
    for seat in (present, away):
        seat.call("subscribe", "c", "" if seat is present else "both")
    for seat in (present, away):
        sender.connect(seat.number)
    table.settle(table.is_quiet)
    sender.call("disconnect", away.number)
    table.steps(1000)
    bodies = [b"early %d" % n for n in range(60)]
    sender.send("c", "both", *bodies)  # ids from 1 on, owed to the peer that is away
    table.steps(1000)
    sender.first_id = LAST_ID - RESERVE  # the last place before them that is clear
    sender.wishes.remove(away.number)
    sender.crash()
    seen: dict[int, bytes] = {}
    lowest, highest = LAST_ID, 0
    decoders: dict[End, Decoder] = {}

    def watch(seat: Seat, end: End, action: Transmit) -> None:
        nonlocal lowest, highest
        if seat is not sender:
            return
        decoder = decoders.setdefault(end, Decoder(Revision.DRAFT_2))
        for unit in action.units:
            decoder.feed(unit)
        while (frame := decoder.next_frame()) is not None:
            if isinstance(frame, Message) and frame.message_id is not None:
                assert 0 < frame.message_id < 2**31 - 1, f"id {frame.message_id} (T-40)"
                before = seen.setdefault(frame.message_id, frame.body)
                assert before == frame.body, f"id {frame.message_id} was outstanding and was given again (T-40)"
                lowest, highest = min(lowest, frame.message_id), max(highest, frame.message_id)

    table.on_transmit = watch
    table.settle(lambda: bool(sender.ends))
    for n in range(messages):
        body = b"%d" % n
        bodies.append(body)
        sender.send("c", "both" if table.dice.random() < 0.05 else "one", body)
        table.steps(table.dice.randrange(6))
        if table.dice.random() < 0.002:
            table.drop_all(sender)
    sender.connect(away.number)
    table.settle(lambda: not sender.store.messages and not sender.unreported)
    assert all(present.handled[body] for body in bodies), "lost"
    assert highest > LAST_ID - messages
    assert lowest < messages


# V6: crash before and after every store call.

Crash = tuple[int, str]
"""The number of a store call, of either side, and "before" or "after"."""


def scenario(crashes: set[Crash]) -> int:
    """Two nodes do all that a store takes part in; they crash at these calls. Returns how many calls there were."""
    table = Table(1)
    left, right = table.seats
    calls = 0

    def at_store(seat: Seat, when: str) -> None:
        nonlocal calls
        calls += when == "before"
        if (calls, when) in crashes:
            seat.crash()

    table.at_store = at_store
    due: list[tuple[Seat, Seat, bytes]] = []
    numbers = count()

    def send(sender: Seat, receiver: Seat, messages: int) -> None:
        bodies = [b"%d" % next(numbers) for _ in range(messages)]
        # A subscription whose commit a crash prevented was told to the peer and is none: nothing is due for it.
        stored = sender.knows(receiver) & receiver.store.load().own_subscriptions
        wanted = not stored.isdisjoint(matching("a", "x"))
        sender.send("a", "x", *bodies)
        due.extend((sender, receiver, body) for body in bodies if wanted)

    left.call("subscribe", "a", "")
    right.call("subscribe", "a", "x")
    left.connect(1)
    table.steps(10_000)
    for round_ in range(4):
        send(left, right, 3)
        table.steps(6)
        send(right, left, 2)
        table.steps(10_000)
        table.drop_all(left)
        send(left, right, 2)  # while it is away
        table.steps(4)
        right.call("subscribe", "b", str(round_))
        table.steps(10_000)
        table.now += 1.0  # removals have their commit
        for seat in table.seats:
            seat.call("handle_timeout")
        right.call("unsubscribe", "b", str(round_))
        send(right, left, 1)
        table.steps(10_000)
    table.settle(table.is_quiet)
    table.check()
    for sender, receiver, body in due:
        assert receiver.handled[body] or body not in sender.stored, f"{body!r} is lost"
    return calls


def crash_points() -> list[Crash]:
    calls = scenario(set())
    return [(call, when) for call in range(1, calls + 1) for when in ("before", "after")]


def crash_pairs() -> Iterator[set[Crash]]:
    points = crash_points()
    return ({first, second} for at, first in enumerate(points) for second in points[at + 1 :])


# V20: clocks.

HOUR, YEARS = 3600.0, 10 * 365.25 * 86400


def clocks(seed: int) -> None:
    """Clocks jump or stand still, at any moment. For a node a clock that goes back stands still until it is through."""
    table = Table(seed)
    dice: Random = table.dice
    for seat in table.seats:
        seat.call("subscribe", "c", "")
    table.seats[0].connect(1)
    sent: list[tuple[Seat, bytes]] = []
    highest = [0.0, 0.0]
    for n in range(dice.randint(5, 15)):
        seat = dice.choice(table.seats)
        jump = dice.choice((0.0, 0.0, 0.1, HOUR, YEARS, -0.1, -HOUR, -YEARS))
        seat.clock += jump
        highest[seat.number] = max(highest[seat.number], seat.clock)
        if jump:
            seat.call("handle_timeout")
        if dice.random() < 0.2:
            table.drop_all(seat)
        other = table.seats[1 - seat.number]
        if seat.knows(other):
            sent.append((other, b"%d" % n))
        seat.send("c", "k", b"%d" % n)
        table.steps(dice.randrange(12))
    for seat in table.seats:  # a clock that stood still for years would have the other try again for years
        seat.clock = max(seat.clock, highest[seat.number] - HOUR)
    table.settle(table.is_quiet, seconds=2 * HOUR)
    table.check()
    for receiver, body in sent:
        assert receiver.handled[body], f"{body!r} is lost"
