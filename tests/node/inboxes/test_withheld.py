"""Messages that a receiver withheld, and asks for when a handler comes for them (T-50)."""

from __future__ import annotations

from uuid import UUID

import pytest

from tolliver_proto import Ack, Message, PeerIdentity, Policy, Subscribe, Subscription
from tolliver_proto.layouts import Dialect

from ..play import HIGH, LOW, Play, Wire, deliveries

C, D = Subscription("c", ""), Subscription("d", "")
REMOTE = "the sender"


def receiving(**options: object) -> tuple[Play, Wire]:
    """A receiver that subscribes to two channels, past its first moments, and a sender that is connected."""
    play = Play(**options)  # type: ignore[arg-type]
    for one in (C, D):
        play.call("subscribe", *one)
    play.wait(60.0)
    return play, play.peer(LOW)


def handle(play: Play, channel: str, key: str, handler: str) -> None:
    play.node.register(channel, key, handler)
    play.wait(0.0)


def leave(play: Play, channel: str, key: str, handler: str) -> None:
    play.node.unregister(channel, key, handler)
    play.run()


def asked(wire: Wire) -> list[Subscription]:
    """Subscriptions that the sender was told again; it acknowledges them."""
    frames = {frame.message_id: frame for frame in wire.got() if isinstance(frame, Subscribe)}
    wire.send(*(Ack(number) for number in frames if number is not None))
    return [Subscription(frame.channel, frame.key) for frame in frames.values()]


# The receiver.


def test_a_handler_that_comes_has_what_was_withheld_asked_for() -> None:
    play, wire = receiving()
    wire.send(Message("c", "k", b"x", 1))
    assert asked(wire) == []
    handle(play, "c", "k", "handler")
    assert asked(wire) == [C]
    assert [one.body for one in deliveries(wire.send(Message("c", "k", b"x", 1)))] == [b"x"]


def test_nothing_is_asked_for_where_nothing_was_withheld() -> None:
    play, wire = receiving()
    other = play.peer(HIGH)
    wire.send(Message("c", "k", b"x", 1))
    wire.send(Message("d", "k", b"unreliable", None))
    handle(play, "d", "", "handler")
    assert (asked(wire), asked(other)) == ([], [])
    handle(play, "", "k", "handler")
    assert (asked(wire), asked(other)) == ([C], [])
    handle(play, "c", "", "another")
    assert asked(wire) == []
    assert asked(other) == []


def test_a_handler_that_leaves_withholds_what_it_holds() -> None:
    """As a subscriber behind the bridge that comes and goes."""
    play, wire = receiving()
    handle(play, "c", "", "first")
    held = deliveries(wire.send(*(Message("c", "k", b"x", number) for number in (1, 2))))
    leave(play, "c", "", "first")
    play.node.fail(held[:1], now=play.now)
    play.node.let_go(held[1:], now=play.now)
    play.run()
    handle(play, "c", "", "second")
    assert asked(wire) == [C]


def test_a_handler_that_fails_withholds_nothing() -> None:
    """It is there: its message comes again with growing pauses (T-45)."""
    play, wire = receiving()
    handle(play, "c", "", "first")
    play.node.fail(deliveries(wire.send(Message("c", "k", b"x", 1))), now=play.now)
    handle(play, "c", "", "second")
    assert asked(wire) == []


def test_what_comes_for_a_stuck_handler_is_not_asked_for() -> None:
    """It is there, too."""
    play, wire = receiving(policy=Policy(stuck_after=1.0))
    handle(play, "c", "", "first")
    play.call("begin", "first", deliveries(wire.send(Message("c", "k", b"x", 1))))
    play.wait(1.0)
    assert deliveries(wire.send(Message("c", "k", b"x", 2))) == []
    handle(play, "c", "", "second")
    assert asked(wire) == []


@pytest.mark.parametrize(("retry_interval", "pause"), [(10.0, 11.0), (0.1, 11.0), (30.0, 30.0)])
def test_a_peer_is_asked_once_in_a_retry_interval(retry_interval: float, pause: float) -> None:
    """And no sooner than it would obey. Another entry has its turn then, one after the other."""
    play, wire = receiving(retry_interval=retry_interval)
    for number, channel in enumerate("ccdd"):
        wire.send(Message(channel, "k", b"x", number))
    play.wait(15.0)
    handle(play, "", "", "handler")
    assert asked(wire) == [C]
    play.wait(pause - 0.5)
    assert asked(wire) == []
    play.wait(1.0)
    assert asked(wire) == [D]
    play.wait(1000.0)
    assert asked(wire) == []


def test_a_message_that_came_a_moment_ago_is_asked_for_again_when_its_sender_would_send_it() -> None:
    """It sends nothing twice within ten seconds, and acknowledges what it does not obey."""
    play, wire = receiving()
    wire.send(Message("c", "k", b"x", 1))
    play.wait(4.0)
    wire.send(Message("d", "k", b"x", 2))
    play.wait(4.0)
    handle(play, "", "", "handler")
    turns = []
    for _ in range(5):
        turns.append(asked(wire))
        play.wait(11.5)
    assert turns == [[C], [D], [C], [], []]


def test_who_has_left_when_its_time_comes_has_nothing_asked_for() -> None:
    play, wire = receiving()
    for channel in "cd":
        wire.send(Message(channel, "k", b"x", ord(channel)))
    play.wait(12.0)
    handle(play, "c", "", "handler")
    handle(play, "d", "", "handler")
    assert asked(wire) == [C]
    leave(play, "d", "", "handler")
    play.wait(12.0)
    assert asked(wire) == []
    handle(play, "d", "", "handler")
    assert asked(wire) == [D]


def test_what_is_not_wanted_any_more_is_not_asked_for() -> None:
    play, wire = receiving()
    wire.send(Message("c", "k", b"x", 1))
    play.call("unsubscribe", *C)
    wire.got()
    handle(play, "c", "", "handler")
    assert asked(wire) == []


def test_a_peer_that_comes_back_sends_all_again_by_itself() -> None:
    play, wire = receiving()
    wire.send(Message("c", "k", b"x", 1))
    wire.lose()
    wire = play.peer(LOW)
    handle(play, "c", "", "handler")
    assert asked(wire) == []


def test_one_that_dies_of_control_messages_is_not_asked() -> None:
    play, wire = receiving(dialects={LOW: Dialect(control_messages=False)})
    wire.send(Message("c", "k", b"x", 1))
    handle(play, "c", "", "handler")
    assert asked(wire) == []


# The sender.


def sending(**options: object) -> tuple[Play, Wire]:
    """A sender, and a receiver that acknowledges nothing of two messages for four hundred seconds."""
    play = Play(**options)  # type: ignore[arg-type]
    wire = play.peer(LOW, C, D)
    for channel in "cd":
        play.send(channel, "k", channel.encode())
    play.wait(400.0)
    wire.got()
    return play, wire


def asks(wire: Wire, *entries: Subscription) -> list[bytes]:
    """The bodies that come for it, at once. It is acknowledged."""
    ids = range(1_000_000, 1_000_000 + len(entries))
    wire.send(*(Subscribe(*one, number) for one, number in zip(entries, ids, strict=True)))
    wire.play.wait(0.0)
    got = wire.got()
    assert [one.message_id for one in got if isinstance(one, Ack)] == [*ids]
    return [one.body for one in got if isinstance(one, Message)]


def test_a_sender_sends_at_once_what_is_asked_for() -> None:
    play, wire = sending()
    commits = len(play.commits)
    assert asks(wire, C) == [b"c"]
    assert len(play.commits) == commits, "the list is unchanged"
    assert play.pending() == 2


def test_a_sender_obeys_once_in_ten_seconds() -> None:
    play, wire = sending()
    assert asks(wire, C) == [b"c"]
    assert asks(wire, D) == [], "and acknowledges"
    play.wait(9.9)
    assert asks(wire, D) == []
    play.wait(0.2)
    assert asks(wire, C, D) == [b"c"], "one of them"
    play.wait(10.1)
    assert asks(wire, D) == [b"d"]


@pytest.mark.parametrize("retry_interval", [0.1, 10.0, 100.0])
def test_a_message_that_was_sent_a_moment_ago_is_not_sent_again(retry_interval: float) -> None:
    play = Play(retry_interval=retry_interval)
    wire = play.peer(LOW, C)
    play.send("c", "k", b"old")
    play.wait(50.0)
    sent = play.now
    play.send("c", "k", b"new")
    wire.got()
    assert b"new" not in asks(wire, C)
    play.wait(sent + 9.9 - play.now)
    wire.got()
    assert asks(wire, C) == []


def test_what_is_asked_for_goes_on_as_before() -> None:
    """It is acknowledged, or comes again with its pauses."""
    play, wire = sending()
    asks(wire, C)
    play.wait(301.0)
    messages = wire.messages()
    assert {message.body for message in messages} == {b"c", b"d"}
    wire.ack(*messages)
    assert play.pending() == 0


def test_a_subscription_that_is_new_is_stored_though_another_was_known() -> None:
    play, wire = sending()
    new = Subscription("e", "")
    assert asks(wire, C, new) == [b"c"]
    assert new in play.knows()
    assert new in play.restart().knows()


def test_a_sender_that_is_gone_when_its_time_comes_is_not_asked() -> None:
    play, wire = receiving()
    for channel in "cd":
        wire.send(Message(channel, "k", b"x", ord(channel)))
    handle(play, "", "", "handler")
    assert asked(wire) == [C]
    wire.lose()
    play.wait(20.0)
    assert asked(play.peer(LOW)) == []


@pytest.mark.parametrize(("call", "arguments"), [("close", ()), ("disconnect", (REMOTE,))])
def test_a_sender_whose_connection_is_ending_is_not_asked(call: str, arguments: tuple[str, ...]) -> None:
    """It is still its connection, and nothing more may be sent on it. Its next one brings all again."""
    play = Play()
    play.call("subscribe", *C)
    play.wait(60.0)
    wire = play.dialled(play.call("connect", REMOTE))
    wire.respond()
    wire.send(Message("c", "k", b"x", 1))
    play.node.register("c", "", "handler")
    getattr(play.node, call)(*arguments, now=play.now)
    play.wait(1.0)
    assert asked(wire) == []


def test_an_entry_that_the_sender_is_being_told_is_not_said_twice() -> None:
    play, wire = receiving()
    play.call("unsubscribe", *C)
    play.call("subscribe", *C)
    wire.send(Message("c", "k", b"x", 1))
    wire.got()
    handle(play, "c", "", "handler")
    assert asked(wire) == []


def test_who_handles_everything_handles_no_requests() -> None:
    """P-11: it is no handler of theirs, and a responder is."""
    request = Subscription("tolliver.request/c", "")
    play = Play()
    play.call("subscribe", *request)
    play.wait(60.0)
    wire = play.peer(LOW)
    wire.send(Message(*request, b"x", 1))
    handle(play, "", "", "handler")
    assert asked(wire) == []
    handle(play, *request, "responder")
    assert asked(wire) == [request]


def test_what_comes_from_a_derived_identity_is_not_asked_for() -> None:
    """T-72a: it only writes."""
    play, _ = receiving()
    uuid = UUID("f0000000-0000-8000-8000-000000000001")
    wire = play.accepted(uuid, PeerIdentity(prefixes=frozenset({"f00000000000"})))
    wire.request()
    wire.got()
    wire.send(Message("c", "k", b"x", 1))
    handle(play, "c", "", "handler")
    assert asked(wire) == []
