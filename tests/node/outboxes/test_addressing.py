"""Messages to one peer, or to some, of those that subscribe (P-25)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from tolliver_proto import Limits, Policy, Stored
from tolliver_proto.errors import TooFewRecipients
from tolliver_proto.node import QuotaPolicy

from ..links.test_connecting import connecting
from ..play import HIGH, LOW, OTHER, Play, every

WANTED = ("c", "")


def test_it_goes_to_those_that_subscribe_and_to_no_other() -> None:
    play = Play()
    low, high, other = play.peer(LOW, WANTED), play.peer(HIGH, ("c", "k"), WANTED), play.peer(OTHER, ("d", ""))
    assert play.send("c", "k", b"one", to=LOW).recipients == 1
    assert play.send("c", "k", b"two", to=[LOW, HIGH, OTHER, LOW]).counts == [2]
    assert play.send("c", "k", b"none", to={OTHER}).recipients == 0
    assert play.send("c", "k", b"nobody", to=()).recipients == 0
    assert play.send("c", "k", b"unknown", to=UUID(int=7)).recipients == 0
    assert [wire.bodies() for wire in (low, high, other)] == [[b"one", b"two"], [b"two"], []]
    assert len(play.store.messages) == 2, "what is for nobody is not stored (T-53)"


def test_each_message_of_a_send_is_narrowed() -> None:
    play = Play()
    low, high = play.peer(LOW, WANTED, ("d", "")), play.peer(HIGH, WANTED)
    receipt = play.node.send_many([(name, "k", name.encode()) for name in "cdec"], to={LOW, HIGH})
    play.run()
    assert (receipt.counts, receipt.recipients) == ([2, 1, 0, 2], 2)
    assert [low.bodies(), high.bodies()] == [[b"c", b"d", b"c"], [b"c", b"c"]]


def test_required_recipients_are_those_that_are_left() -> None:
    play = Play()
    play.peer(LOW, WANTED)
    play.peer(HIGH, WANTED)
    assert play.send("c", "k", b"x", to=HIGH, require_recipients=1).recipients == 1
    with pytest.raises(TooFewRecipients, match="has 1 recipients"):
        play.send("c", "k", b"y", to=[HIGH, OTHER], require_recipients=2)


@pytest.mark.parametrize("to", ["01890000-0000-7000-8000-000000000001", b"", 7, ["x"], iter([LOW])])
def test_what_names_no_peer_is_refused_before_anything_changes(to: Any) -> None:
    play = Play()
    play.peer(LOW, WANTED)
    for call in (play.node.send, play.node.unreliable_send):
        with pytest.raises(TypeError, match="names no peer"):
            call("c", "k", b"x", to=to)
    assert play.pending() == 0


def test_an_unreliable_one_too() -> None:
    play = Play()
    low, high = play.peer(LOW, WANTED), play.peer(HIGH, WANTED)
    assert [play.node.unreliable_send("c", "k", b"x", to=to) for to in (LOW, {LOW, HIGH}, OTHER)] == [1, 2, 0]
    play.run()
    assert [low.bodies(), high.bodies()] == [[b"x", b"x"], [b"x"]]


@pytest.mark.parametrize(("to", "bodies"), [(LOW, [b"x"]), (HIGH, []), ({LOW, HIGH}, [b"x"]), (None, [b"x"])])
def test_what_is_kept_for_a_peer_that_connects_goes_to_none_but_those(to: UUID | None, bodies: list[bytes]) -> None:
    """T-62."""
    play = Play()
    wire = connecting(play, LOW)
    play.send("c", "k", b"x", to=to)
    wire.respond(WANTED)
    assert wire.bodies() == bodies
    play.wait(1.0)
    assert len(play.store.messages) == len(bodies)


def test_a_send_that_waits_keeps_its_peers() -> None:
    """T-62."""
    play = Play(limits=Limits(keep_bytes=100))
    known, other = play.peer(HIGH, WANTED), play.peer(OTHER, WANTED)
    wire = connecting(play, LOW)
    play.send("c", "k", bytes(100))
    receipts = [play.send("c", "k", b"%d" % at, to=to) for at, to in enumerate((HIGH, LOW, None))]
    assert [receipt.recipients for receipt in receipts] == [0, 0, 0]
    stored = [token for one in every(wire.respond(WANTED), Stored) for token in one.tokens]
    assert stored[-3:] == receipts
    assert [receipt.recipients for receipt in receipts] == [1, 1, 3]
    assert [wire.bodies()[1:], known.bodies()[1:], other.bodies()[1:]] == [[b"1", b"2"], [b"0", b"2"], [b"2"]]


def fails(play: Play) -> None:
    play.fail()
    play.hold_commits = False
    play.finish()


def test_kept_messages_for_one_peer_whose_commit_fails_are_nobodys() -> None:
    play = Play()
    wire = connecting(play, LOW)
    play.hold_commits = True
    play.send("c", "k", b"x", to=LOW)
    wire.respond(WANTED)
    fails(play)
    play.wait(100.0)
    assert wire.bodies() == []
    assert (play.pending(), play.store.messages) == (0, [])


@pytest.mark.parametrize(
    ("policy", "left"),
    [(QuotaPolicy.DROP_OLDEST, [b"2", b"3"]), (QuotaPolicy.SKIP, [b"1", b"2"])],
)
def test_at_the_quota_of_a_peer_that_it_is_not_for_nothing_happens(policy: QuotaPolicy, left: list[bytes]) -> None:
    """D-10."""
    play = Play(policy=Policy(quota_policy=policy), limits=Limits(outbox_messages=2))
    for peer in (LOW, HIGH):
        play.peer(peer, WANTED).lose()
    waits: Callable[[UUID], list[bytes]] = lambda peer: [  # noqa: E731
        message.body for message in play.store.messages if message.seq in play.store.deliveries(peer)
    ]
    for body in (b"1", b"2"):
        play.send("c", "k", body, to=LOW)
    receipt = play.send("c", "k", b"3", to=LOW)
    assert (waits(LOW), waits(HIGH)) == (left, [])
    assert receipt.recipients == (policy is QuotaPolicy.DROP_OLDEST)
    assert play.send("c", "k", b"4", to=HIGH).recipients == 1
