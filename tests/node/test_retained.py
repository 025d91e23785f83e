"""Last values: kept, and given once to whoever subscribes anew (P-30 to P-36)."""

from __future__ import annotations

from typing import Any

from tolliver_proto import (
    Ack,
    Action,
    Message,
    Stored,
    Subscribe,
)

from .play import LOW, Play, Wire, every


def retain(play: Play, *items: tuple[str, str, bytes | None]) -> list[Any]:
    receipts = [play.node.retain(*item, now=play.now) for item in items]
    play.run()
    return receipts


def bodies(wire: Wire) -> list[bytes]:
    """Those of the messages that came; they are acknowledged."""
    messages = [frame for frame in wire.got() if isinstance(frame, Message)]
    wire.ack(*messages)
    return [message.body for message in messages]


def errors(actions: list[Action]) -> list[Exception]:
    return [stored.error for stored in every(actions, Stored) if stored.error is not None]


def test_a_new_subscriber_gets_the_newest_value_once_and_then_the_changes() -> None:
    play = Play()
    retain(play, ("c", "k", b"1"), ("c", "k", b"2"), ("c", "other", b"x"))
    wire = play.accepted()
    wire.request(("c", "k"))
    assert bodies(wire) == [b"2"]
    play.send("c", "k", b"sent")
    retain(play, ("c", "k", b"3"))
    assert bodies(wire) == [b"sent", b"3"]


def test_one_that_subscribes_on_its_connection_gets_it_before_what_is_sent_later() -> None:
    play = Play()
    retain(play, ("c", "k", b"1"))
    wire = play.peer(LOW)
    play.hold_looks = True
    wire.send(Subscribe("c", "k", 7))
    play.send("c", "k", b"while it was looked up")
    assert play.seen() == []
    play.send("c", "k", b"later")
    got = wire.got()
    assert got[0] == Ack(7)
    assert [frame.body for frame in got if isinstance(frame, Message)] == [b"1", b"later"]
