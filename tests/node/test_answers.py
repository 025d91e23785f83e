"""Checks of the simulator that answers are true and nothing is forgotten: each of them can fail (T-54, T-61, T-09)."""

from __future__ import annotations

import pytest

from tolliver_proto import (
    Ack,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Policy,
    Receipt,
    Revision,
    Subscription,
    encode,
)
from tolliver_proto._testing.inspection import inside
from tolliver_proto._testing.invariants import Ledger, Sent, WireWitness
from tolliver_proto._testing.receipt_checks import Answers, check_drops
from tolliver_proto.errors import Undelivered, UndeliveredReason
from tolliver_proto.store import (
    AddDeadLetter,
    DeadLetter,
    ForgetPeer,
    ParkDelivery,
    RemoveDeliveries,
    ReplacePeerSubscriptions,
    StoredMessage,
    StoreMessages,
)
from tolliver_proto.testing import MemoryStore, SimFailure, SimNet

from .play import HIGH, LOW, Play

WANTED = Subscription("p", "")
REMOVED = RemoveDeliveries(LOW, [(1, 1)])


class Scene:
    """HIGH has stored a message for LOW, and somebody waits for the answer."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.sender, self.receiver = Ledger(HIGH, []), Ledger(LOW, [WANTED])
        self.sender.others = self.receiver.others = {HIGH: self.sender, LOW: self.receiver}
        self.sender.policy = policy or Policy()
        self.sent = Sent(0, "p", "k", b"body")
        self.sender.sent[self.sent.body] = self.sent
        self.sender.applied([StoreMessages([StoredMessage(1, 1, "p", "k", b"body", 20)], [[LOW]])])
        self.answers = Answers(self.sender)
        self.receipt = Receipt(1, 1, [1])
        self.answers.ask(self.receipt, [self.sent])

    def acked(self) -> None:
        self.sender.acked.add((LOW, self.sent.body))

    def answer(self, reason: UndeliveredReason | None = None, now: float = 0.0) -> None:
        error = None
        if reason is not None:
            self.receipt.give_up(LOW, reason, 1)
            error = Undelivered(LOW, reason, 1)
        self.answers.take(self.receipt, error, now)


def test_an_answer_that_nobody_acknowledged_is_found() -> None:
    with pytest.raises(SimFailure, match="acknowledged nothing"):
        Scene().answer()


def test_an_answer_that_nobody_handled_is_found() -> None:
    scene = Scene()
    scene.acked()
    with pytest.raises(SimFailure, match="has not handled it"):
        scene.answer()


@pytest.mark.parametrize("how", ["handled", "letter", "dropped"])
def test_an_answer_is_true_if_a_handler_had_it_or_its_fate_can_be_seen(how: str) -> None:
    scene = Scene()
    scene.acked()
    if how == "handled":
        scene.receiver.handled[b"body"] += 1
    elif how == "letter":
        scene.receiver.applied([AddDeadLetter(DeadLetter(HIGH, "p", "k", b"body", 1, 20))])
    else:
        scene.receiver.dropped.add(b"body")
    scene.answer()
    assert len(scene.answers) == 0
    with pytest.raises(SimFailure, match="nobody waits for it"):
        scene.answer()


def test_a_good_answer_of_what_was_given_up_is_found() -> None:
    scene = Scene()
    scene.receipt.give_up(LOW, UndeliveredReason.FORGOTTEN, 1)
    with pytest.raises(SimFailure, match="answered well"):
        scene.answer()


@pytest.mark.parametrize("reason", UndeliveredReason)
def test_a_reason_that_did_not_occur_is_found(reason: UndeliveredReason) -> None:
    with pytest.raises(SimFailure, match="did not occur"):
        Scene().answer(reason)


def test_an_error_that_the_receipt_does_not_know_is_found() -> None:
    scene = Scene()
    with pytest.raises(SimFailure, match="is answered with"):
        scene.answers.take(scene.receipt, Undelivered(LOW, UndeliveredReason.FORGOTTEN, 1), 0.0)


def test_a_reason_that_did_occur_is_no_failure() -> None:
    scene = Scene()
    scene.sender.forgotten.add((LOW, b"body"))
    scene.answer(UndeliveredReason.FORGOTTEN)
    scene.answers.ask(scene.receipt, [scene.sent])
    scene.sender.applied([REMOVED])
    scene.answers.given_up(LOW, b"body")


def test_what_is_given_up_and_not_told_is_found() -> None:
    scene = Scene()
    with pytest.raises(SimFailure, match="does not say so"):
        scene.answers.given_up(LOW, b"body")
    scene.answers.begin()
    scene.answers.given_up(LOW, b"body")


# Holds (T-61).


def held(scene: Scene, now: float) -> None:
    scene.sender.applied([ReplacePeerSubscriptions(LOW, (), (WANTED,))], now)


def test_a_hold_that_ends_too_early_is_found() -> None:
    scene = Scene(Policy(unsubscribed_hold=100.0))
    held(scene, 0.0)
    with pytest.raises(SimFailure, match="without an ack"):
        scene.sender.applied([REMOVED], 80.0)
    held(scene, 81.0)
    scene.sender.applied([REMOVED], 100.0)
    assert (LOW, b"body") in scene.sender.given_up


def test_what_was_heard_goes_on_routing_until_its_hold_is_over() -> None:
    scene = Scene(Policy(unsubscribed_hold=100.0))
    scene.sender.applied([ReplacePeerSubscriptions(LOW, (WANTED,))], 0.0)
    held(scene, 0.0)
    assert scene.sender.routes_to(LOW, 50.0) == {WANTED}
    assert scene.sender.routes_to(LOW, 100.0) == set()
    scene.sender.applied([ForgetPeer(LOW)], 0.0)
    assert scene.sender.routes_to(LOW, 50.0) == set()


def test_a_hold_that_a_clone_of_the_store_brings_is_known_and_may_not_end_too_early() -> None:
    """T-61, T-70: the second instance goes on with the holds of the store, and its hold begins with its start."""
    scene = Scene(Policy(unsubscribed_hold=100.0))
    store = MemoryStore()
    store.commit([ReplacePeerSubscriptions(LOW, (), (WANTED,))])
    held(scene, 0.0)
    twin = scene.sender.twin()
    twin.holds(store, 50.0)
    assert not twin.may_give_up(LOW, scene.sent, UndeliveredReason.UNSUBSCRIBED, 130.0)
    assert twin.may_give_up(LOW, scene.sent, UndeliveredReason.UNSUBSCRIBED, 150.0)


def test_a_hold_that_the_store_put_back_lacks_is_no_reason() -> None:
    scene = Scene(Policy(unsubscribed_hold=100.0))
    held(scene, 0.0)
    scene.sender.holds(MemoryStore(), 50.0)
    assert not scene.sender.may_give_up(LOW, scene.sent, UndeliveredReason.UNSUBSCRIBED, 150.0)


# Messages that are set aside or dropped.


def test_a_message_that_is_set_aside_for_nothing_is_found() -> None:
    """T-09: a subscriber that restarts refuses nothing."""
    scene = Scene()
    with pytest.raises(SimFailure, match="refuses it not"):
        scene.sender.applied([ParkDelivery(LOW, 1)])
    scene.receiver.largest = 3
    scene.sender.applied([ParkDelivery(LOW, 1)])
    assert not scene.sender.may_give_up(LOW, scene.sent, UndeliveredReason.DROPPED, 0.0)
    scene.sender.told_to_drop.add(LOW)
    assert scene.sender.may_give_up(LOW, scene.sent, UndeliveredReason.DROPPED, 0.0)


def test_an_ack_that_nobody_can_see_is_found() -> None:
    """T-46: what was acknowledged and not handled is a count."""
    play, ledger = Play(), Ledger(LOW, [])
    check_drops(play.node, ledger)
    ledger.drops_in_this_life = 1
    with pytest.raises(SimFailure, match="0 are counted"):
        check_drops(play.node, ledger)


# Whole networks.

SOME = (1, 41, 45, 49, 57, 65, 69, 89, 17, 277)
"""Worlds of the field, with both drafts, short holds, quotas, peers that refuse, and what was found in them."""


@pytest.mark.search
def test_nodes_in_the_field() -> None:
    for seed in SOME:
        SimNet(seed).run()


def test_a_peer_that_refuses_what_is_large_gets_it_in_the_end() -> None:
    assert any(SimNet(seed, refuse=True).run().counts["set_aside"] for seed in (5, 29, 33, 49, 69, 73))


def test_what_vanishes_from_a_store_is_found() -> None:
    net = SimNet(0, nodes=2)
    net.run()
    host, other = net._hosts
    sent = net._new_message(host)
    host.ledger.stored_for[sent.body] = {other.ledger.uuid}
    with pytest.raises(SimFailure, match="is forgotten"):
        net._nothing_is_forgotten(host)


def test_what_is_held_in_vain_is_found() -> None:
    net = SimNet(0, nodes=2)
    net.run()
    host, other = net._hosts
    assert host.node is not None
    for ledger in (host.ledger, other.ledger):
        ledger.rolled_back = ledger.clock_jumped = False
    inside(host.node).context.peers[other.ledger.uuid].lists.held = {WANTED: 1e9}
    net._nothing_is_held_in_vain(host)
    other.ledger.said_gone.add((host.ledger.uuid, WANTED))
    with pytest.raises(SimFailure, match="in vain"):
        net._nothing_is_held_in_vain(host)


def test_a_copy_that_owes_again_what_was_given_up_undoes_that() -> None:
    ledger = Ledger(LOW, [WANTED])
    ledger.given_up.add((HIGH, b"x"))
    for body in (b"x", b"y"):
        ledger.revive(HIGH, body)
    assert (ledger.given_up, ledger.revived) == (set(), {(HIGH, b"x")})


def test_a_peer_of_another_world_is_none_of_the_ledger() -> None:
    store = MemoryStore()
    store.commit([ReplacePeerSubscriptions(HIGH, (WANTED,), ())])
    ledger = Ledger(LOW, [WANTED])
    ledger.holds(store)
    assert ledger.knows == {}


def test_a_storm_of_dials_is_found() -> None:
    net = SimNet(0, nodes=2)
    for _ in range(7):  # the burst, and two that may be seen late
        net._count_dial(net._hosts[0], (1, 0))
    with pytest.raises(SimFailure, match="times within"):
        net._count_dial(net._hosts[0], (1, 0))


def test_a_probe_is_no_answer() -> None:
    """An Ack of the id that no message has is a probe (T-80); of any other it needs a message that came."""
    witness = WireWitness(Ledger(LOW, [WANTED]), True, Revision.DRAFT_2)
    witness.transmit([encode(HandshakeRequest(1, LOW, ()), Revision.DRAFT_2)], 0.0, 10.0)
    witness.receive(encode(HandshakeResponse(1, HIGH, HandshakeStatus.SAME_VERSION, ()), Revision.DRAFT_2))
    witness.transmit([encode(Ack(2**31 - 1), Revision.DRAFT_2)], 1.0, 10.0)
    with pytest.raises(SimFailure, match="for nothing that came"):
        witness.transmit([encode(Ack(7), Revision.DRAFT_2)], 1.0, 10.0)


def test_new_handshakes_say_what_the_first_draft_has_no_message_for() -> None:
    net = SimNet(0, nodes=2, revision=Revision.DRAFT_1)
    net.run()
    lost = [end for host in net._hosts for end in host.ends.values()]
    assert lost
    net._reconnect()
    net._run_until(net.now + 60.0)
    assert not [end for host in net._hosts for end in host.ends.values() if any(end is one for one in lost)]


def test_a_list_of_the_first_draft_changes_when_it_is_whole() -> None:
    """T-61: what a list that is not empty lacks has ended, so one that comes in parts would end the rest."""
    net = SimNet(0, nodes=2, revision=Revision.DRAFT_1)
    net.run()
    host = net._hosts[0]
    assert host.node is not None
    before = host.node.subscriptions()
    host.ledger.permanent = frozenset({*host.ledger.permanent, Subscription("late", "")})
    for call in ("subscribe", "unsubscribe"):
        net._change_own(host, call)
    assert host.node.subscriptions() == before


def test_a_subscription_that_is_not_stored_yet_is_looked_at_again() -> None:
    net = SimNet(0, nodes=2)
    net.run()
    host = net._hosts[0]
    host.wants |= {Subscription("late", "")}
    net._subscribe_late(host, host.born)
    assert Subscription("late", "") not in host.store.load().own_subscriptions
    net._run_until(net.now + 10.0)
    assert Subscription("late", "") in host.store.load().own_subscriptions


def test_a_second_instance_shares_what_others_see_of_it() -> None:
    one = Ledger(LOW, [WANTED])
    two = one.twin()
    two.handled[b"x"] += 1
    two.handled_in_this_life.add(b"x")
    two.holds(MemoryStore())
    assert one.handled[b"x"] == 1
    assert not one.handled_in_this_life
