"""Peers that are away for longer than `forget_after` says (T-77)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolliver_proto import HandshakeFinal, Notice, NoticeKind, Policy, StoreError
from tolliver_proto._testing.invariants import audit
from tolliver_proto.errors import Undelivered, UndeliveredReason
from tolliver_proto.node import Acked
from tolliver_proto.testing import App, ProgramNet, SimNet, rehearse

from ..play import HIGH, LOW, OTHER, Play, Wire, notices, only

WANTED = ("c", "")
AFTER = 30.0
FORGETFUL = Policy(forget_after=AFTER)


def forgetful(**options: Any) -> Play:
    return Play(policy=FORGETFUL, **options)


def known(play: Play) -> list[UUID]:
    return [peer.uuid for peer in play.node.peers()]


def sound(play: Play) -> None:
    play.wait(1.0)
    audit(play.node, play.store)
    assert set(known(play)) == set(play.store.load().peers)


def test_it_goes_with_what_waits_for_it_and_who_waits_is_told() -> None:
    play = forgetful()
    play.peer(HIGH, WANTED)
    play.peer(LOW, WANTED).lose()
    receipt = play.send("c", "k", b"x")
    play.node.watch(receipt)
    play.send("c", "k", b"another")
    assert notices(play.wait(AFTER - 0.1)) == []
    actions = play.wait(0.2)
    notice = only(actions, Notice)
    assert notice.kind is NoticeKind.FORGOTTEN
    assert "with 2 messages that waited for it" in notice.detail
    told = only(actions, Acked)
    assert isinstance(told.error, Undelivered)
    assert (told.error.peer, told.error.reason, told.error.count) == (LOW, UndeliveredReason.FORGOTTEN, 1)
    assert known(play) == [HIGH]
    assert play.send("c", "k", b"y").recipients == 1
    sound(play)
    play.peer(LOW, WANTED)
    assert play.send("c", "k", b"z").recipients == 2, "it may come back, as a new peer"


def test_a_peer_that_is_back_in_time_has_all_of_its_time_again() -> None:
    play = forgetful()
    for _ in range(3):
        play.peer(LOW, WANTED).lose()
        play.wait(AFTER - 1.0)
    wire = play.peer(LOW, WANTED)
    assert notices(play.wait(10 * AFTER)) == []
    play.peer(LOW, WANTED)  # a newer connection, which closes the one before
    wire.lose()
    assert known(play) == [LOW]
    assert notices(play.wait(10 * AFTER)) == []
    sound(play)


def test_after_a_restart_it_has_all_of_its_time_again() -> None:
    play = forgetful()
    play.peer(LOW, WANTED).lose()
    play.peer(OTHER, WANTED).lose()
    play.send("c", "k", b"x")
    play.wait(AFTER - 1.0)
    again = forgetful(store=play.store)
    again.wait(AFTER - 1.0)
    again.peer(OTHER, WANTED)
    assert known(again) == [LOW, OTHER]
    assert notices(again.wait(2.0)) == [NoticeKind.FORGOTTEN]
    assert known(again) == [OTHER]
    sound(again)


def test_a_peer_that_is_about_to_be_there_is_not_forgotten() -> None:
    play = forgetful()
    play.peer(LOW, WANTED).lose()
    play.send("c", "k", b"x")
    play.wait(AFTER - 1.0)
    joining = play.accepted(LOW)
    joining.request(WANTED, version=2)  # newer: the final is awaited
    assert notices(play.wait(2.0)) == []
    joining.send(HandshakeFinal(True))
    assert joining.bodies() == [b"x"]
    joining.lose()
    assert known(play) == [LOW]
    assert notices(play.wait(AFTER)) == [NoticeKind.FORGOTTEN]
    sound(play)


def test_what_cannot_be_stored_is_tried_again() -> None:
    play = forgetful()
    play.peer(LOW, WANTED).lose()
    play.search_error = StoreError("broken")
    play.wait(AFTER)
    assert known(play) == [LOW]
    play.search_error = None
    assert NoticeKind.FORGOTTEN in notices(play.wait(AFTER))
    assert known(play) == []
    sound(play)


def test_a_peer_that_an_operator_forgets_meanwhile_is_forgotten_once() -> None:
    play = forgetful()
    play.peer(LOW, WANTED).lose()
    play.peer(OTHER, WANTED).lose()
    play.wait(1.0)
    play.call("forget_peer", OTHER)
    play.wait(AFTER - 2.0)
    play.hold_searches = True
    play.call("forget_peer", LOW)
    assert notices(play.wait(AFTER)) == []
    play.hold_searches = False
    play.looked()
    assert known(play) == []
    sound(play)


def test_a_key_that_was_pinned_for_one_who_never_came_stays() -> None:
    play = forgetful()
    play.call("repin", LOW, b"n" * 32)
    play.wait(2 * AFTER)
    assert known(play) == [LOW]


def test_without_the_policy_nobody_is() -> None:
    play = Play()
    play.peer(LOW, WANTED).lose()
    play.send("c", "k", b"x")
    assert notices(play.wait(10**7)) == []
    assert known(play) == [LOW]


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan")])
def test_a_time_that_is_none(seconds: float) -> None:
    with pytest.raises(ValueError, match=r"Policy\.forget_after is .*: give seconds above zero, or None"):
        Policy(forget_after=seconds)


STEPS = st.lists(
    st.tuples(st.sampled_from(["up", "lose", "send", "wait", "restart", "ack"]), st.sampled_from([LOW, HIGH]))
    | st.tuples(st.just("wait"), st.floats(0.0, 1.5 * AFTER)),
    max_size=25,
)


@settings(max_examples=60)
@given(STEPS)
def test_a_message_goes_by_its_ack_or_when_its_peer_was_away_so_long(steps: list[tuple[str, Any]]) -> None:
    """I3, by a model: who is known, and until when; and what is owed to whom."""
    play = forgetful()
    wires: dict[UUID, Wire] = {}
    until: dict[UUID, float] = {}
    owed: dict[UUID, set[bytes]] = {}
    for number, (step, what) in enumerate(steps):
        if step == "up":
            wires[what] = play.peer(what, WANTED) if what not in wires else wires[what]
            until.pop(what, None)
            owed.setdefault(what, set())
        elif step == "lose" and what in wires:
            wires.pop(what).lose()
            until[what] = play.now + AFTER
        elif step == "send":
            assert play.send("c", "k", b"%d" % number).recipients == len(owed)
            for waiting in owed.values():
                waiting.add(b"%d" % number)
        elif step == "ack" and what in wires:
            messages = wires[what].messages()
            wires[what].ack(*messages)
            owed[what] -= {message.body for message in messages}
        elif step == "wait":
            play.wait(what if isinstance(what, float) else AFTER / 3)
            for uuid in [uuid for uuid, end in until.items() if end <= play.now]:
                del until[uuid], owed[uuid]
        elif step == "restart":
            play.wait(1.0)
            wires.clear()
            play = forgetful(store=play.store)
            owed = {uuid: bodies for uuid, bodies in owed.items() if uuid in known(play)}
            until = dict.fromkeys(owed, AFTER)
        assert set(known(play)) == set(owed)
    play.wait(1.0)
    for uuid in [uuid for uuid, end in until.items() if end <= play.now]:
        del owed[uuid]
    assert {uuid: play.store.owed(uuid) for uuid in owed} == owed
    audit(play.node, play.store)


def tasks_that_die(net: ProgramNet) -> Callable[[], bool]:
    """Subscribers that leave for ever, and one that stays: that one gets all, and in the end nothing waits."""
    count, handled = 10, set[bytes]()

    def sender(app: App) -> None:
        def step() -> None:
            number = app.disk.setdefault("next", 0)
            wants = [peer.uuid for peer in app.node.peers() if peer.subscriptions]
            if number < count and app.uuid_of("stays") in wants:
                receipt = app.send("c", "", b"%d" % number)
                app.when_stored(receipt, lambda error: error or app.disk.update(next=number + 1))

        app.every(3.0, step)

    def stays(app: App) -> None:
        app.subscribe("c", handler=lambda delivery: handled.add(delivery.body))

    def dies(app: App) -> None:
        app.subscribe("c", handler=lambda _delivery: None)
        app.later(20.0, lambda: app.disconnect("sender"))

    net.instance("sender", sender, policy=Policy(forget_after=400.0))
    net.instance("stays", stays, remotes=["sender"])
    for name in ("one", "two"):
        net.instance(name, dies, remotes=["sender"])
    return lambda: len(handled) == count and not net._pending()


def test_programs_whose_subscribers_die() -> None:
    rehearse(tasks_that_die, range(4), patience=1500.0)


def test_simulated_networks_forget_and_no_other_promise_is_broken() -> None:
    """T-77, I3."""
    counts = sum((Counter(SimNet(seed, policy=Policy(forget_after=2.0)).run().counts) for seed in range(4)), Counter())
    assert counts["forgotten"] > 3
    assert counts["handled"] > 50
