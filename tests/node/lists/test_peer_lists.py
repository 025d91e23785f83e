"""Subscriptions of peers, as the application hears of them: `SubscriptionsChanged`, and counts of recipients."""

from __future__ import annotations

from tolliver_proto import Limits, PeerUp, Policy, Subscribe, Unsubscribe
from tolliver_proto.node import PeersMoved, SubscriptionsChanged

from ..play import LOW, OTHER, Play, every, only, subscribed

C, D = ("c", ""), ("d", "")


def test_the_list_of_a_new_peer_is_told_once_it_is_stored_before_the_peer_is_up() -> None:
    play = Play(tell_events=True)
    play.hold_commits = True
    wire = play.accepted(LOW)
    assert not every(wire.request(C), SubscriptionsChanged)
    told = play.finish()
    assert [type(one) for one in told] == [SubscriptionsChanged, PeerUp, PeersMoved]
    assert told[0] == SubscriptionsChanged(LOW, frozenset(subscribed(C)))


def test_it_is_told_where_it_is_asked_for() -> None:
    play = Play()
    assert not every(play.accepted(LOW).request(C), SubscriptionsChanged)


def test_a_list_that_comes_again_is_no_news() -> None:
    play = Play(tell_events=True)
    wire = play.peer(LOW, C)
    wire.lose()
    assert not every(play.accepted(LOW).request(C), SubscriptionsChanged)


def test_a_list_that_was_stored_is_told_no_more_than_its_changes() -> None:
    play = Play(tell_events=True)
    wire = play.peer(LOW, C)
    assert only(wire.send(Subscribe(*D, 1)), SubscriptionsChanged).subscriptions == frozenset(subscribed(C, D))
    assert not every(wire.send(Subscribe(*D, 2)), SubscriptionsChanged)
    assert only(wire.send(Unsubscribe(*C, 3)), SubscriptionsChanged).subscriptions == frozenset(subscribed(D))
    assert not every(wire.send(Unsubscribe(*C, 4)), SubscriptionsChanged)


def test_a_list_that_was_not_stored_is_not_told() -> None:
    play = Play(tell_events=True)
    wire = play.peer(LOW, C)
    play.hold_commits = True
    wire.send(Subscribe(*D, 1))
    assert not every(play.fail(), SubscriptionsChanged)


def test_a_peer_that_is_forgotten_wants_nothing() -> None:
    play = Play(tell_events=True)
    play.peer(LOW, C)
    play.node.forget_peer(LOW, now=play.now)
    assert only(play.run(), SubscriptionsChanged) == SubscriptionsChanged(LOW, frozenset())


def test_peers_that_are_away_count_and_held_subscriptions_do_not() -> None:
    play = Play(policy=Policy(unsubscribed_hold=60.0), limits=Limits())
    assert play.node.subscribed("c", "k") == 0
    wire = play.peer(LOW, C)
    play.peer(OTHER, ("", "k"))
    assert (play.node.subscribed("c", "k"), play.node.subscribed("c", "")) == (2, 1)
    wire.lose()
    assert play.node.subscribed("c", "k") == 2
    play.accepted(LOW).request()
    assert play.node.subscribed("c", "k") == 1


def test_a_peer_that_is_being_forgotten_gets_nothing_though_an_older_list_could_not_be_stored() -> None:
    """The failed commit brought its routes back, and they stayed when it was gone."""
    play = Play()
    wire = play.peer(LOW, C)
    play.hold_commits = play.hold_searches = True
    wire.send(Subscribe(*D, 1))
    play.node.forget_peer(LOW, now=play.now)
    play.run()
    play.fail()
    assert play.node.subscribed(*C) == 0
    play.hold_commits = False
    play.finish()
    play.looked()
    play.wait(2.0)
    assert not play.node.peers()
    assert play.node.subscribed(*C) == 0
