"""Messages for later: for a time, or for a subscriber (P-90 to P-97)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tolliver_proto import (
    Action,
    Receipt,
    Stored,
    TolliverError,
)
from tolliver_proto._testing.invariants import audit
from tolliver_proto.node import ForLater, SendState

from .play import HIGH, LOW, Wire, every
from .play import Play as PatternsPlay


class Play(PatternsPlay):
    """A stage that remembers its last actions, and so the answers of sends."""

    last: tuple[Action, ...] = ()

    def run(self) -> list[Action]:
        actions = super().run()
        self.last += (*actions,)
        return actions

    @property
    def later(self) -> ForLater:
        return self.node.use(ForLater)

    def after(self, seconds: float, *bodies: bytes, channel: str = "c", **terms: Any) -> Receipt:
        self.last = ()
        items = [(channel, "", body) for body in bodies or (b"m",)]
        receipt = self.later.send_later(items, self.now, after=seconds, **terms)
        self.run()
        return receipt

    def plain(self, body: bytes, channel: str = "c", key: str = "", **terms: Any) -> Receipt:
        self.last = ()
        receipt = self.node.send(channel, key, body, self.now, **terms)
        self.run()
        return receipt

    def keep(self, channel: str = "c") -> None:
        self.later.keep(channel, self.now)
        self.run()

    def answers(self, receipt: Receipt) -> list[TolliverError | None]:
        return [one.error for one in every([*self.last], Stored) if receipt in one.tokens]

    def check(self) -> None:
        self.wait(0.2)
        audit(self.node, self.store)


def subscribed_play(**options: Any) -> tuple[Play, Wire]:
    play = Play(**options)
    return play, play.peer(LOW, ("c", ""))


def comes(play: Play, uuid: UUID = LOW, *subscriptions: tuple[str, str]) -> Wire:
    """A peer connects and subscribes; nothing of what it got is forgotten."""
    wire = play.accepted(uuid)
    wire.request(*subscriptions)
    return wire


def heard(wire: Wire) -> list[bytes]:
    """Bodies that came; they are acknowledged."""
    messages = wire.messages()
    wire.ack(*messages)
    return [one.body for one in messages]


def test_a_message_waits_for_its_time_and_goes_as_any_other() -> None:
    play, wire = subscribed_play()
    receipt = play.after(60)
    assert play.answers(receipt) == [None]
    assert (receipt.later, receipt.recipients, receipt.counts, receipt.state) == (1, 0, [0], SendState.WAITING)
    assert (play.node.stats().later, play.node.stats().pending) == (1, 0)
    play.wait(59.9)
    assert heard(wire) == []
    play.wait(0.2)
    assert (receipt.later, receipt.recipients, receipt.counts) == (0, 1, [1])
    assert heard(wire) == [b"m"]
    assert receipt.state is SendState.ACKNOWLEDGED
    assert play.node.stats().later == 0
    play.check()
    assert play.store.messages == []


def test_what_is_due_goes_in_the_order_of_the_times() -> None:
    play, wire = subscribed_play()
    wire.lose()
    play.after(30, b"3")
    play.after(10, b"1")
    play.after(20, b"2", b"2b")
    play.plain(b"0")
    play.wait(40)
    wire = comes(play, LOW, ("c", ""))
    assert heard(wire) == [b"0", b"1", b"2", b"2b", b"3"]


def test_a_channel_keeps_for_its_first_subscriber() -> None:
    play = Play()
    play.keep()
    receipt = play.plain(b"1")
    assert (receipt.recipients, receipt.counts, receipt.state) == (1, [1], SendState.WAITING)
    play.plain(b"2")
    assert (play.node.stats().kept, play.node.stats().pending) == (2, 2)
    wire = comes(play, LOW, ("c", ""))
    play.plain(b"3")
    assert heard(wire) == [b"1", b"2", b"3"]
    assert receipt.state is SendState.ACKNOWLEDGED
    assert heard(comes(play, HIGH, ("c", ""))) == []
    play.check()
    assert play.store.messages == []
