"""Access rules of a node, and changes (D-4, D-5, D-7, D-8, T-77)."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tolliver_proto import (
    Abort,
    Acl,
    ConnectionLost,
    Dial,
    HandshakeRequest,
    Limits,
    Message,
    Notice,
    PeerDown,
    PeerIdentity,
    PeerUp,
    Rights,
    Role,
    ShutdownWrite,
    Subscribe,
    Subscription,
    Unsubscribe,
    encode,
)
from tolliver_proto._common.handshake_limiter import ALL, HandshakeLimiter
from tolliver_proto._node.subscriptions import matching
from tolliver_proto._testing.inspection import inside
from tolliver_proto._testing.invariants import audit
from tolliver_proto.errors import AccessDenied
from tolliver_proto.node import DialEnded, DialFailed
from tolliver_proto.testing import SimNet

from ..play import HIGH, LOW, ME, OTHER, Play, Wire, aborted, deliveries, every, notices, only

READINGS = Rights(subscribe=(("readings", "*"),))
NOBODY = Acl(default=Rights.none())


def low_may(rights: Rights) -> Acl:
    return Acl(peers={LOW: rights})


def connecting(play: Play, uuid: UUID = LOW, remote: str = "there") -> Wire:
    return play.dialled(play.call("connect", remote), uuid)


def set_acl(play: Play, acl: Acl) -> list[Any]:
    """The rules change; the connections that are closed then have ended at the other side, too."""
    actions = play.call("set_acl", acl)
    for shutdown in every(actions, ShutdownWrite):
        wire = play.wires[shutdown.cid]
        actions += wire.end() + wire.lose()
    return actions


# The rules.


@pytest.mark.parametrize(
    ("pattern", "covered", "not_covered"),
    [
        (("*", "*"), [("", ""), ("c", ""), ("", "k"), ("c", "k")], []),
        (("c", "*"), [("c", ""), ("c", "k")], [("", ""), ("", "k"), ("cc", "")]),
        (("*", "k"), [("", "k"), ("c", "k")], [("", ""), ("c", "")]),
        (("c*", "k"), [("c", "k"), ("c/d", "k")], [("", "k"), ("b", "k"), ("c", ""), ("c", "kk")]),
        (("**", "*"), [("*", ""), ("*c", "")], [("", ""), ("c", "")]),
        (("*c", "k"), [("*c", "k")], [("c", "k"), ("bc", "k"), ("", "k")]),
    ],
)
def test_a_subscription_lies_within_one_pattern(
    pattern: tuple[str, str], covered: list[tuple[str, str]], not_covered: list[tuple[str, str]]
) -> None:
    """D-4: a wildcard only where all that it matches is meant."""
    rights = Rights(subscribe=(pattern,))
    assert [one for one in covered + not_covered if rights.may_subscribe(Subscription(*one))] == covered


names = st.text("ab*", max_size=3)
patterns = st.lists(st.tuples(names.filter(bool), names.filter(bool)), max_size=3)


@given(patterns, names, names)
def test_what_may_be_subscribed_to_may_be_seen(listed: list[tuple[str, str]], channel: str, key: str) -> None:
    """No subscription that is granted matches a message outside the patterns; an exact one inside them is granted."""
    rights = Rights(subscribe=tuple(listed), publish=tuple(listed))
    granted = [one for one in matching(channel, key) if rights.may_subscribe(one)]
    assert not granted or rights.may_publish(channel, key)
    if channel and key:
        assert rights.may_subscribe(Subscription(channel, key)) is rights.may_publish(channel, key)


def test_several_patterns_and_the_empty_name() -> None:
    rights = Rights(subscribe=(("a", "*"), ("b", "k")), publish=(("", ""), ("c", "*")))
    wanted = {Subscription("a", ""), Subscription("b", "k"), Subscription("b", "")}
    assert rights.granted(frozenset(wanted)) == wanted - {Subscription("b", "")}
    assert [rights.may_publish(*one) for one in (("", ""), ("c", ""), ("", "k"))] == [True, True, False]


def test_the_defaults_and_the_switch() -> None:
    assert Acl().is_open
    assert Acl(peers={LOW: Rights()}).is_open
    assert not low_may(READINGS).is_open
    assert not NOBODY.is_open
    assert NOBODY.rights(LOW) == Rights((), (), False)
    assert not Rights(connect=False).may_subscribe(Subscription("c", "k")), "nothing could ever fetch it"
    peers = {LOW: READINGS}
    rules = Acl(Rights.none(), peers)
    peers.clear()
    assert rules.rights(LOW) == READINGS
    assert len({Acl(), Acl(), rules}) == 2


def test_the_identities_derived_from_one_certificate_share_rights() -> None:
    """T-72a: they are too many to name, and come and go."""
    task, other = UUID("f00dbabe-0001-8000-8000-000000000001"), UUID("f00dbabe-0002-8000-8000-000000000001")
    rules = Acl(Rights.none(), {}, {"f00dbabe0001": READINGS})
    assert not rules.is_open
    assert rules.rights(task) == READINGS
    assert rules.rights(other) == Rights.none()
    assert rules.rights(LOW) == Rights.none()
    assert Acl(Rights.none(), {task: Rights()}, {"f00dbabe0001": READINGS}).rights(task) == Rights(), "by name first"
    mistake: Any = 1
    with pytest.raises(ValueError, match=r"^Acl\.derived is 1: give a dict"):
        Acl(derived=mistake)
    for derived in ({"F00DBABE0001": Rights()}, {"100000000000": Rights()}, {1: Rights()}, {"f00dbabe0001": "all"}):
        wrong: Any = derived
        with pytest.raises(ValueError, match=r"^Acl\.derived has .*tolliver certs --derive"):
            Acl(derived=wrong)


@pytest.mark.parametrize("bad", ["c", None, ("c", "k"), (("c",),), (("c", 1),), ("ck",), {("c", "k")}])
@pytest.mark.parametrize("name", ["subscribe", "publish"])
def test_what_is_no_pattern_is_refused(name: str, bad: Any) -> None:
    with pytest.raises(ValueError, match=rf"^Rights\.{name} is .*give \(channel, key\) pairs"):
        Rights(**{name: bad})


def test_lists_will_do() -> None:
    listed: Any = [["c", "k"]]
    assert Rights(subscribe=listed) == Rights(subscribe=(("c", "k"),))


def test_other_mistakes() -> None:
    mistake: Any = 1
    with pytest.raises(ValueError, match=r'write "\*" instead'):
        Rights(subscribe=(("c", ""),))
    with pytest.raises(ValueError, match=r"^Rights\.connect is 1: give True or False"):
        Rights(connect=mistake)
    with pytest.raises(ValueError, match=r"^Acl\.default is 1: .*Rights\.none\(\)"):
        Acl(mistake)
    with pytest.raises(ValueError, match=r"^Acl\.peers is 1: give a dict"):
        Acl(peers=mistake)
    for peers in ({"x": Rights()}, {LOW: "all"}):
        wrong: Any = peers
        with pytest.raises(ValueError, match=r"Give a uuid\.UUID, and Rights"):
            Acl(peers=wrong)


# Subscribing (D-4).


def test_a_list_is_taken_as_far_as_it_is_allowed() -> None:
    play = Play(acl=low_may(READINGS))
    low = play.peer(LOW, ("readings", "x"), ("alarms", ""), ("", ""), ("readings", ""))
    high = play.peer(HIGH, ("alarms", ""))
    allowed = {Subscription("readings", "x"), Subscription("readings", "")}
    assert play.knows() == play.store.load().peers[LOW].subscriptions == allowed
    assert play.node.stats()["refused_subscriptions"] == 2
    assert play.send("alarms", "k", b"secret").recipients == 1
    assert play.send("readings", "k", b"1").recipients == 1
    assert (low.bodies(), high.bodies()) == ([b"1"], [b"secret"])
    audit(play.node, play.store)


def test_a_control_message_that_asks_for_too_much_is_acknowledged() -> None:
    """D-4: or it would come again for ever."""
    play = Play(acl=low_may(READINGS))
    wire = play.peer()
    wire.send(Subscribe("alarms", "", 1), Subscribe("", "", 2), Subscribe("alarms", "k"), Subscribe("readings", "", 3))
    assert sorted(wire.acks()) == [1, 2, 3]
    assert play.knows() == play.store.load().peers[LOW].subscriptions == {Subscription("readings", "")}
    assert play.node.stats()["refused_subscriptions"] == 3
    wire.send(Unsubscribe("alarms", "", 4), Unsubscribe("readings", "", 5))
    assert wire.acks() == [4, 5]
    assert play.knows() == set()


def test_what_was_sent_while_it_connected_is_for_what_it_may_have() -> None:
    """T-62."""
    play = Play(acl=low_may(READINGS))
    wire = connecting(play)
    play.send("alarms", "k", b"secret")
    play.send("readings", "k", b"1")
    wire.got()
    wire.respond(("", ""), ("alarms", ""), ("readings", ""))
    assert wire.bodies() == [b"1"]


def test_a_wildcard_channel_is_told_once_where_there_are_rules() -> None:
    """D-4. Without rules everybody may have everything, and nobody asked."""
    play = Play(acl=Acl(peers={HIGH: READINGS}))
    wire = play.accepted()
    notice = only(wire.request(("c", ""), ("", "k")), Notice)
    assert (notice.kind, notice.peer) == ("wildcard_subscription", LOW)
    assert notices(wire.send(Subscribe("", "", 1))) == []
    wire.lose()
    assert notices(play.accepted().request(("", ""))) == ["held"]
    assert notices(Play().accepted().request(("", ""))) == []


# Publishing (D-5).


def test_what_may_not_be_published_is_acknowledged_and_not_delivered() -> None:
    play = Play(acl=low_may(Rights(publish=(("readings", "*"),))), handlers=[("", "", "handler")])
    play.call("subscribe", "", "")
    low, high = play.peer(LOW), play.peer(HIGH)
    sent = [
        Message("alarms", "k", b"forged", 1),
        Message("alarms", "k", b"forged", None),
        Message("readings", "k", b"r", 2),
    ]
    got = deliveries(low.send(*sent))
    assert [one.body for one in got] == [b"r"]
    assert low.acks() == [1]
    assert play.node.stats()["refused_messages"] == 2
    assert [one.body for one in deliveries(high.send(*sent[:1]))] == [b"forged"]
    play.call("acknowledge", got)
    assert low.acks() == [2]


def test_rules_about_publishing_come_and_go() -> None:
    play = Play(handlers=[("", "", "handler")])
    play.call("subscribe", "", "")
    number = 0

    def is_delivered() -> bool:
        nonlocal number
        number += 1
        return bool(deliveries(play.peer().send(Message("c", "k", b"x", number))))

    assert is_delivered()
    set_acl(play, low_may(Rights(publish=())))
    assert not is_delivered()
    set_acl(play, Acl())
    assert is_delivered()


def test_the_rules_hold_for_what_comes_while_the_connection_ends() -> None:
    play = Play(handlers=[("", "", "handler")])
    play.call("subscribe", "", "")
    wire = play.peer()
    play.call("set_acl", low_may(Rights(publish=())))
    assert deliveries(wire.send(Message("c", "k", b"x", None))) == []
    assert play.node.stats()["refused_messages"] == 1
    wire.end()
    wire.send(Message("c", "k", b"too late", None))
    assert play.node.stats()["refused_messages"] == 1


def test_nothing_overtakes_what_is_refused_while_the_connection_ends() -> None:
    """No ack can be given any more: it comes again, perhaps when it may, and all behind it is left to the peer, too."""
    play = Play(handlers=[("", "", "handler")])
    play.call("subscribe", "", "")
    wire = play.peer()
    play.call("set_acl", low_may(Rights(publish=())))
    actions = wire.send(Message("c", "k", b"1", 1))
    play.call("set_acl", Acl())
    actions += wire.send(Message("c", "k", b"2", 2))
    assert deliveries(actions) == []
    assert notices(actions + wire.lose() + play.wait(60.0)) == [], "nothing was acknowledged and dropped"
    again = play.peer().send(Message("c", "k", b"1", 1), Message("c", "k", b"2", 2))
    assert [one.body for one in deliveries(again)] == [b"1", b"2"]


def test_nothing_is_said_to_be_dropped_that_gets_no_ack_as_the_connection_ends() -> None:
    """It comes again on the next one, and is dropped there."""
    play = Play()
    play.call("subscribe", "c", "")
    wire = play.peer()
    wire.send(Message("d", "k", b"doubtful", 1))
    play.call("set_acl", low_may(Rights(publish=())))
    play.call("set_acl", Acl())
    for channel in ("c", "d"):
        play.call("unsubscribe", channel, "")
    bad_text = encode(Message("c", "ck", b"x", 2)).replace(b"ck", b"\xff\xff")
    wire.send(Message("c", "k", b"unwanted", 3))
    play.node.receive_data(wire.cid, bad_text)
    assert notices(play.run() + wire.lose() + play.wait(60.0)) == []
    assert play.node.stats()["unwanted"] == 0
    again = play.peer()
    again.send(Message("d", "k", b"doubtful", 1), Message("c", "k", b"unwanted", 3))
    play.node.receive_data(again.cid, bad_text)
    assert sorted(notices(play.run() + play.wait(60.0))) == ["ignored", "unwanted"]
    assert sorted(again.acks()) == [1, 2, 3]


def test_without_rules_no_message_is_looked_at_for_them() -> None:
    """The hot path: it is the same function as ever."""
    for acl in (Acl(), Acl(peers={LOW: Rights()})):
        node = Play(acl=acl).node
        assert inside(node).links.on_event[Message] == inside(node).delivering.on_message


# Connecting.


def test_who_may_not_connect_is_closed_out_before_a_response() -> None:
    play = Play(acl=low_may(Rights(connect=False)))
    wire = play.accepted(identity=PeerIdentity(frozenset((LOW,)), address="host:1"))
    actions = wire.request(("c", ""))
    notice = only(actions, Notice)
    assert (notice.kind, notice.peer) == ("access_denied", LOW)
    assert f"host:1 is {LOW}, but the access rules keep it out" in notice.detail
    assert only(actions, ShutdownWrite).cid == wire.cid
    assert wire.got() == []
    assert (play.node.peers(), play.store.load().peers) == ([], {})
    assert only(play.accepted(HIGH).request(), PeerUp).peer == HIGH


def test_a_false_name_is_told_as_such() -> None:
    """D-3 comes first: nobody is denied in another's name."""
    play = Play(acl=low_may(Rights.none()))
    wire = play.accepted(identity=PeerIdentity(frozenset((HIGH,))))
    assert notices(wire.request()) == ["identity_mismatch"]


def test_a_dial_that_leads_to_somebody_who_is_kept_out_is_made_again_under_other_rules() -> None:
    play = Play(acl=NOBODY, tell_events=True)
    wire = connecting(play)
    actions = wire.respond(("c", ""))
    assert notices(actions) == ["access_denied", "dial_failed"]
    assert isinstance(only(actions, DialFailed).error, AccessDenied)
    assert every(play.wait(59.0), Dial) == []
    play.call("set_acl", Acl())
    new = only(play.wait(0.0), Dial)
    assert (wire.end(), wire.lose()) == ([], []), "the old connection's end does not end what was begun since"
    play.node.dial_failed(new.cid, ConnectionLost("refused"))
    play.run()
    assert only(play.wait(1.0), Dial).remote == "there"
    set_acl(play, NOBODY)


def test_who_is_kept_out_by_its_certificate_alone_does_not_see_our_request() -> None:
    """A certificate that names one UUID leaves nothing to ask: our list stays with us."""
    play = Play(acl=NOBODY)
    cid = only(play.call("connect", "there"), Dial).cid
    play.node.opened(cid, Role.CLIENT, PeerIdentity(frozenset({LOW})), now=0.0)
    actions = []
    while (action := play.node.next_action()) is not None:
        actions.append(action)
    assert {type(action) for action in actions} == {Notice, Abort}, "nothing is transmitted"
    assert (aborted(actions), play.node.stats()["connections"]) == ([cid], 0)


def test_a_dial_that_was_denied_and_is_not_kept_up_is_not_tried_again() -> None:
    play = Play(acl=NOBODY)
    play.node.connect("there", keep_trying=False)
    wire = play.dialled(play.run())
    actions = wire.respond()
    assert isinstance(only(actions, DialEnded).error, AccessDenied)
    assert notices(actions) == ["access_denied", "dial_gave_up"]
    assert wire.end() + wire.lose() + play.wait(1000.0) == []


# Other rules.


def test_narrower_rules_hold_at_once_and_wider_ones_give_back() -> None:
    """D-8, for a peer that is away: its rows stay."""
    play = Play()
    play.peer(LOW, ("alarms", ""), ("readings", "")).lose()
    stored = play.store.load().peers[LOW].subscriptions
    assert play.send("alarms", "k", b"1").recipients == 1
    set_acl(play, low_may(READINGS))
    assert play.send("alarms", "k", b"2").recipients == 0
    assert play.send("readings", "k", b"3").recipients == 1
    assert play.store.load().peers[LOW].subscriptions == stored
    audit(play.node, play.store)
    again = play.restart(acl=low_may(READINGS))
    assert again.send("alarms", "k", b"4").recipients == 0
    set_acl(again, NOBODY)
    assert again.send("readings", "k", b"5").recipients == 0, "it could never fetch it"
    set_acl(again, Acl())
    assert again.send("alarms", "k", b"6").recipients == 1
    audit(again.node, again.store)
    wire = again.accepted()
    wire.request(("alarms", ""))
    assert wire.bodies() == [b"1", b"6"], "what was queued stays; what its list lacks is held (T-61)"


def test_connections_of_peers_with_other_rights_are_made_anew() -> None:
    play = Play(acl=low_may(READINGS))
    low, high = play.peer(LOW, ("alarms", ""), ("readings", "")), play.peer(HIGH, ("alarms", ""))
    actions = set_acl(play, Acl())
    assert only(actions, PeerDown) == PeerDown(low.cid, LOW, None)
    low = play.peer(LOW, ("alarms", ""), ("readings", ""))
    assert play.send("alarms", "k", b"x").recipients == 2
    assert (low.bodies(), high.bodies()) == ([b"x"], [b"x"])
    assert play.call("set_acl", Acl(peers={LOW: Rights()})) == [], "the same rights in other words"


def test_a_dialled_connection_is_dialled_again() -> None:
    play = Play()
    connecting(play).respond()
    actions = set_acl(play, low_may(READINGS))
    assert every(actions, DialEnded) == []
    assert only(play.wait(1.0), Dial).remote == "there"


def test_a_peer_that_loses_the_right_to_connect_is_gone_at_once() -> None:
    play = Play()
    connecting(play).respond(("c", ""))
    low_inbound = play.accepted(HIGH)
    low_inbound.request()
    actions = set_acl(play, low_may(Rights.none()))
    assert notices(actions) == ["access_denied", "dial_failed"]
    assert isinstance(only(actions, PeerDown).error, AccessDenied)
    assert [peer.uuid for peer in play.node.peers() if peer.connected] == [HIGH]
    assert every(play.wait(59.0), Dial) == []
    set_acl(play, Acl())
    assert every(play.wait(0.0), Dial)


def test_rules_that_change_while_a_list_is_stored() -> None:
    """The list was taken under the old ones: it comes anew, whether the commit goes well or not (T-61)."""
    for outcome in ("finish", "fail"):
        play = Play(acl=low_may(READINGS))
        play.peer(LOW, ("readings", "old")).lose()
        play.hold_commits = True
        wire = play.accepted()
        wire.request(("readings", ""), ("alarms", ""))
        closed = only(play.call("set_acl", low_may(Rights(subscribe=(("alarms", "*"),)))), ShutdownWrite)
        assert closed.cid == wire.cid
        play.hold_commits = False
        getattr(play, outcome)()
        assert wire.got() == []
        wire.end()
        wire.lose()
        play.wait(1.0)
        assert play.knows() == set()
        audit(play.node, play.store)
        play.peer(LOW, ("readings", ""), ("alarms", ""))
        assert play.knows() == play.store.load().peers[LOW].subscriptions == {Subscription("alarms", "")}
        audit(play.node, play.store)


def test_simulated_rules() -> None:
    """Rules change at any moment, and what was promised under them is kept. Crowds are turned away, too (D-7)."""
    counts: Counter[str] = Counter()
    for seed in range(7, 80, 8):  # the worlds that have rules
        limits = Limits(redial_max=5.0, max_handshakes=3, max_handshakes_per_address=1)
        counts.update(SimNet(seed, nodes=3, limits=limits).run().counts)
    assert counts["restrictions"] > 0
    assert counts["refused"] > 0
    assert counts["handled"] > 100


# Removing with block (T-77).


def test_block_keeps_the_peer_out_until_it_is_connected_to_again() -> None:
    play = Play()
    wire = connecting(play)
    wire.respond(("c", ""))
    play.send("c", "k", b"waits")
    wire.got()
    play.node.disconnect("there", now=play.now, block=True)
    play.run()
    wire.end()
    wire.lose()
    refused = play.accepted()
    actions = refused.request(("c", ""))
    assert notices(actions) == ["access_denied"]
    assert "connect to that again" in only(actions, Notice).detail
    assert refused.got() == []
    assert only(play.accepted(HIGH).request(), PeerUp).peer == HIGH
    assert (play.pending(), play.knows()) == (1, {Subscription("c", "")}), "its queue and its subscriptions stay"
    play.call("connect", "there")
    wire = play.accepted()
    wire.request(("c", ""))
    assert wire.bodies() == [b"waits"]


def test_block_ends_what_comes_in_at_the_same_time() -> None:
    play = Play()
    connecting(play).respond()
    play.hold_commits = True
    second = play.accepted()
    second.request(("c", ""))
    play.node.disconnect("there", now=play.now, block=True)
    assert second.cid in {shutdown.cid for shutdown in every(play.run(), ShutdownWrite)}
    play.finish()
    assert second.got() == []


def test_block_is_about_those_who_dial_us() -> None:
    """Another remote that leads there is the user's wish."""
    play = Play()
    connecting(play).respond()
    play.node.disconnect("there", now=play.now, block=True)
    play.run()
    other = connecting(play, remote="elsewhere")
    assert only(other.respond(), PeerUp).peer == LOW


def test_a_remote_that_never_led_to_anybody_blocks_nobody() -> None:
    play = Play()
    play.call("connect", "there")
    play.node.disconnect("there", now=play.now, block=True)
    play.node.disconnect("unknown", now=play.now, block=True)
    play.run()
    assert every(play.accepted().request(), PeerUp)


# Too many at once (D-7).


def crowded(most: int = 4, most_per_address: int = 2) -> Play:
    return Play(limits=Limits(max_handshakes=most, max_handshakes_per_address=most_per_address))


def test_handshakes_in_progress_are_bounded() -> None:
    play = crowded()
    cids = [play.node.new_cid(0.0, address) for address in ("a", "a", "b", "", "")]
    assert cids == [1, 2, 3, 4, None]
    assert only(play.run(), Notice).kind == "too_many_handshakes"
    assert [play.node.new_cid(0.0, address) for address in ("a", "c")] == [None, None]
    assert play.run() == [], "it is news once"
    assert play.node.stats()["refused_handshakes"] == 3
    assert play.node.stats()["connections"] == 4


def test_an_address_has_a_share() -> None:
    play = crowded(10)
    assert [play.node.new_cid(0.0, address) for address in ("a", "a", "a", "b")] == [1, 2, None, 3]
    assert "from a have not finished" in only(play.run(), Notice).detail


def test_the_defaults_are_those_of_the_proof() -> None:
    play = Play()
    for _ in range(16):
        assert play.node.new_cid(0.0, "a") is not None
    assert play.node.new_cid(0.0, "a") is None
    for _ in range(240):
        assert play.node.new_cid(0.0, "") is not None
    assert play.node.new_cid(0.0, "") is None


@pytest.mark.parametrize("way", ["lost before TLS", "lost", "too slow", "refused", "established"])
def test_room_comes_back(way: str) -> None:
    """It does so at every end of a handshake."""
    play = crowded(1, 1)
    cid = play.node.new_cid(0.0, "a")
    assert cid is not None
    assert play.node.new_cid(0.0, "b") is None
    if way == "lost before TLS":
        play.node.lost(cid, ConnectionLost("reset"))
    elif way == "too slow":
        assert aborted(play.wait(10.1)) == [cid]
    else:
        wire = play._open(cid, Role.SERVER, LOW, None)
        if way == "lost":
            wire.lose()
        elif way == "refused":
            wire.send(HandshakeRequest(1, ME, ()))
            assert play.node.new_cid(0.0, "b") is None, "it has not gone yet"
            wire.lose()
        else:
            assert every(wire.request(), PeerUp)
    assert play.node.new_cid(play.now, "b") is not None


def test_the_oldest_silent_one_of_an_address_makes_room() -> None:
    """Idle sockets do not keep out a peer behind the same address."""
    play = crowded(10, 3)
    cids = [play.node.new_cid(play.now, "a") for _ in range(2)]
    assert None not in cids
    speaks = play._open(cids[0] or 0, Role.SERVER, LOW, None)
    play.node.receive_data(speaks.cid, b"\x01", now=play.now)
    play.wait(0.9)
    assert play.node.new_cid(play.now, "a") is not None
    assert play.node.new_cid(play.now, "a") is None, "none is silent for a second"
    play.wait(0.2)
    good = play.node.new_cid(play.now, "a")
    assert good is not None
    actions = play.run()
    assert aborted(actions) == [cids[1]], "the first has said something"
    assert play.node.new_cid(play.now, "a") is None
    assert every(play._open(good, Role.SERVER, OTHER, None).request(), PeerUp)
    assert play.node.stats()["refused_handshakes"] == 3


def test_where_all_places_are_taken_an_address_makes_room_among_its_own() -> None:
    play = crowded(3, 3)
    for address in ("", "a", "b"):
        assert play.node.new_cid(play.now, address) is not None
    play.wait(0.9)
    assert play.node.new_cid(play.now, "c") is None
    play.wait(0.2)
    assert play.node.new_cid(play.now, "b") is not None
    assert aborted(play.run()) == [3]


def test_where_all_places_are_taken_the_least_advanced_one_makes_room() -> None:
    """Those who drip, from however many addresses, keep nobody out: before TLS, after it, and within a handshake."""
    play = crowded(4, 4)
    cids = [play.node.new_cid(play.now, address) or 0 for address in ("a", "b", "c", "d")]
    for cid, data in zip(cids, (b"\x01\0\0", b"\x01", b""), strict=False):
        play._open(cid, Role.SERVER, LOW, None)
        if data:
            play.node.receive_data(cid, data, now=play.now)
    play.wait(1.1)
    for number in range(4):
        assert play.node.new_cid(play.now, f"new {number}") is not None
    assert aborted(play.run()) == [cids[3], cids[2], cids[1], cids[0]]
    assert play.node.new_cid(play.now, "late") is None, "each keeps its place for a second"


def test_dials_are_not_counted() -> None:
    play = crowded(1, 1)
    connecting(play).lose()
    play.call("connect", "elsewhere")
    assert play.node.new_cid(play.now, "a") is not None


def test_a_crowd_is_news_again_when_half_of_it_has_gone() -> None:
    arrivals = HandshakeLimiter(4, 4)
    for cid in range(4):
        arrivals.add(cid, "")
    assert [arrivals.is_news(ALL), arrivals.is_news(ALL)] == [True, False]
    arrivals.remove(0)
    arrivals.remove(0)
    assert arrivals.full("a") is None
    arrivals.add(4, "")
    assert not arrivals.is_news(ALL)
    arrivals.remove(1)
    arrivals.remove(2)
    assert arrivals.is_news(ALL)
