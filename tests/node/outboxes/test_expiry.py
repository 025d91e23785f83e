"""Messages with an expiry of their own (P-27)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from tolliver_proto import Limits, NoticeKind, Policy, StoreError
from tolliver_proto._testing.inspection import inside
from tolliver_proto._testing.invariants import audit
from tolliver_proto.errors import Undelivered, UndeliveredReason
from tolliver_proto.node import Acked
from tolliver_proto.testing import App, ProgramNet, rehearse

from ..links.test_connecting import connecting
from ..play import HIGH, LOW, Play, notices, only

WANTED = ("c", "")


def away(**options: Any) -> Play:
    """Two peers that want it and are not there."""
    play = Play(**options)
    for peer in (LOW, HIGH):
        play.peer(peer, WANTED).lose()
    return play


def sound(play: Play) -> None:
    play.wait(1.0)
    audit(play.node, play.store)


def test_it_is_given_up_for_all_and_who_waits_is_told() -> None:
    play = away()
    receipt = play.send("c", "k", b"short", expire_after=5.0)
    play.send("c", "k", b"long", expire_after=50.0)
    play.send("c", "k", b"ever")
    play.node.watch(receipt)
    assert notices(play.wait(4.9)) == []
    actions = play.wait(0.2)
    assert notices(actions) == [NoticeKind.EXPIRED] * 2
    told = only(actions, Acked)
    assert isinstance(told.error, Undelivered)
    assert {one.reason for one in receipt.undelivered} == {UndeliveredReason.EXPIRED}
    assert sum(one.count for one in receipt.undelivered) == 2
    assert [message.body for message in play.store.messages] == [b"long", b"ever"]
    play.wait(50.0)
    assert [message.body for message in play.store.messages] == [b"ever"]
    assert play.node.stats().expired_messages == 4
    assert play.finds == 2, "it is looked for when it is time, and not before"
    sound(play)


def test_each_of_a_send_expires_and_neighbours_of_its_commit_do_not() -> None:
    play = away()
    play.hold_commits = True
    for body, after in ((b"1", None), (b"2", 5.0), (b"3", 5.0), (b"4", None)):
        play.node.send("c", "k", body, now=play.now, expire_after=after)
    play.node.send_many([("c", "k", b"5"), ("nobody", "", b"6"), ("c", "k", b"7")], now=play.now, expire_after=5.0)
    play.hold_commits = False
    play.run()
    play.wait(6.0)
    assert [message.body for message in play.store.messages] == [b"1", b"4"]
    sound(play)


def test_after_a_restart_the_time_has_gone_on() -> None:
    play = away()
    play.send("c", "k", b"over", expire_after=5.0)
    play.send("c", "k", b"not yet", expire_after=50.0)
    play.store.now += 20.0
    again = Play(store=play.store)
    again.wait(0.0)
    assert [message.body for message in again.store.messages] == [b"not yet"]
    again.wait(30.1)
    assert again.store.messages == []
    sound(again)


def test_what_a_peer_acknowledges_in_time_is_not_looked_for_again() -> None:
    play = Play()
    wire = play.peer(LOW, WANTED)
    for _ in range(100):
        play.send("c", "k", b"x", expire_after=0.5)
        wire.ack(*wire.messages())
        play.wait(0.1)
    assert play.finds <= 11, "once a second at most"
    assert play.node.stats().expired_messages == 0
    sound(play)


def test_in_the_window_parked_or_kept_for_one_that_connects() -> None:
    play = Play(limits=Limits(window_messages=1))
    wire = play.peer(LOW, WANTED)
    joining = connecting(play, HIGH)
    play.send("c", "k", b"1", expire_after=5.0)
    play.send("c", "k", b"2", expire_after=5.0)
    [message] = wire.messages()
    joining.respond(WANTED)
    assert joining.bodies() == [b"1"]
    play.wait(6.0)
    assert play.store.messages == []
    wire.ack(message)  # late: it means nothing
    play.send("c", "k", b"3")
    assert (wire.bodies(), joining.bodies()) == ([b"3"], [b"3"])
    sound(play)


def test_more_than_a_piece_expires_whole() -> None:
    play = away()
    play.node.send_many([("c", "k", b"")] * 1501, now=play.now, expire_after=5.0)
    play.run()
    play.wait(6.0)
    assert play.node.stats().expired_messages == 3002
    sound(play)


def test_it_is_looked_for_again_after_a_failed_search() -> None:
    play = away()
    play.send("c", "k", b"x", expire_after=5.0)
    play.search_error = StoreError("busy")
    assert NoticeKind.STORE_ERROR in notices(play.wait(5.5))
    play.search_error = None
    play.wait(1.0)
    assert play.store.messages == []


def test_what_is_on_its_way_out_already_is_no_endless_search() -> None:
    """A store that lists what was removed: it is asked again, and not at once."""
    play = away()
    play.send("c", "k", b"x", expire_after=5.0)
    left = play.store.expiring(10)
    assert left
    play.wait(5.5)
    shown = [type(one)(one.peer, one.seq, one.wire_id, one.size, one.parked, one.age) for one in left]
    play.send("c", "k", b"y", expire_after=1.0)
    play.hold_searches = True
    play.wait(1.2)
    [find] = play.searches
    for peer in inside(play.node).context.peers.values():
        peer.outbox.leave([(one.seq, one.seq) for one in shown])
    play.node.found(find.search_id, shown, now=play.now)
    play.run()
    assert play.searches == [find]
    play.searches.clear()
    play.hold_searches = False
    play.wait(2.0)
    assert play.store.messages == []


def test_the_policys_time_holds_beside_it() -> None:
    play = away(policy=Policy(expire_after=10.0))
    play.send("c", "k", b"x", expire_after=100.0)
    play.store.age = 11.0
    play.wait(2.0)
    assert play.store.messages == []


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan")])
def test_times_that_cannot_be_meant(seconds: float) -> None:
    play = away()
    with pytest.raises(ValueError, match="above 0"):
        play.send("c", "k", b"x", expire_after=seconds)
    assert play.pending() == 0


def offers(net: ProgramNet) -> Callable[[], bool]:
    """Offers hold for two seconds, the sender crashes as it likes, and nobody takes them: none may be left."""
    said: list[str] = []
    pending: list[int] = []

    def seller(app: App) -> None:
        def offer() -> None:
            if len(said) < 5 and app.subscribed("offers"):
                said.append("offer")
                app.send("offers", "", b"now", to=app.uuid_of("buyer"), expire_after=2.0)

        app.every(1.0, offer)
        app.every(0.5, lambda: pending.append(app.node.stats().pending))

    def buyer(app: App) -> None:
        app.subscribe("offers")
        app.later(1.0, app.disconnect, "seller")

    net.instance("seller", seller)
    net.instance("buyer", buyer, remotes=["seller"], crashes=False)
    return lambda: len(said) == 5 and not pending[-1]


def test_offers_expire_whoever_crashes() -> None:
    rehearse(offers, range(10))


def looks(play: Play, seconds: float) -> list[float]:
    """Seconds from one look of the store at its clocks to the next, until so much later."""
    begin = play.now
    play.looked_at_clocks.clear()
    play.wait(seconds)
    return [later - earlier for earlier, later in pairwise([begin, *play.looked_at_clocks, play.now])]


def unsubscribed(play: Play) -> None:
    """A peer that is away is still to be told."""
    play.call("subscribe", "own", "")
    play.peer(LOW, WANTED).lose()
    play.call("unsubscribe", "own", "")


AGES: dict[str, tuple[Policy, Callable[[Play], object]]] = {
    "all messages expire": (Policy(expire_after=7200.0), lambda play: play.send("c", "k", b"x")),
    "a message expires": (Policy(), lambda play: play.send("c", "k", b"x", expire_after=7200.0)),
    "a subscription is held": (Policy(), lambda play: play.accepted(LOW).request()),
    "an unsubscribe is not said yet": (Policy(), unsubscribed),
}


@pytest.mark.parametrize("age", AGES)
@pytest.mark.parametrize("again", [False, True], ids=["in one life", "in the next"])
def test_the_store_looks_at_its_clocks_each_minute_while_something_has_an_age(age: str, again: bool) -> None:
    """A machine is set while its instance is idle, too (D-10)."""
    policy, begin = AGES[age]
    play = away(policy=policy)
    begin(play)
    play.wait(1.0)
    if again:
        play = play.restart(policy=policy)
    assert max(looks(play, 600.0)) <= 60.0


def test_the_store_of_a_node_in_which_nothing_can_expire_is_left_in_peace() -> None:
    play = away()
    play.send("c", "k", b"x")
    assert looks(play, 600.0) == [600.0]
    play.send("c", "k", b"x", expire_after=100.0)
    assert looks(play, 600.0) == [60.0, 540.0], "the next one finds that it has expired"
