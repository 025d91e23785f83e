"""Verdicts of handlers that are no success or failure: handle again later, and give up (P-22, P-23)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tolliver_proto import (
    Action,
    Delivery,
    Limits,
    Message,
    Notice,
    NoticeKind,
    Policy,
)
from tolliver_proto.testing import App, ProgramNet, SimNet, rehearse

from ..play import LOW, Play, Wire, deliveries, every

WANTED = ("c", "")


def stage(**options: Any) -> tuple[Play, Wire]:
    """Everything is wanted, and handled by one handler."""
    play = Play(handlers=[("", "", "h")], **options)
    play.call("subscribe", "", "")
    return play, play.peer(LOW)


def fails(play: Play, given: Sequence[Delivery], seconds: float = 5.0) -> list[Action]:
    return play.call("handle_again", given, seconds)


def attempts(actions: list[Action]) -> list[int]:
    return [one.attempt for one in deliveries(actions)]


def test_it_is_handed_out_again_here_and_acknowledged_once() -> None:
    play, wire = stage()
    first = deliveries(wire.send(Message("c", "k", b"x", 1)))
    assert fails(play, first) == []
    assert play.wait(4.9) == []
    again = deliveries(play.wait(0.2))
    assert [(one.body, one.attempt) for one in again] == [(b"x", 2)]
    play.call("acknowledge", again)
    assert wire.acks() == [1]
    assert play.node.stats().failed == 1
    assert play.wait(100.0) == []


def test_a_copy_meanwhile_shares_the_answer() -> None:
    """T-48."""
    play, wire = stage(policy=Policy(dedupe=10))
    fails(play, deliveries(wire.send(Message("c", "k", b"x", 1))))
    assert wire.send(Message("c", "k", b"x", 1)) == []
    again = deliveries(play.wait(5.1))
    assert wire.send(Message("c", "k", b"x", 1)) == []
    play.call("acknowledge", again)
    assert wire.acks() == [1, 1, 1]
    assert deliveries(wire.send(Message("c", "k", b"x", 1))) == [], "it is remembered as handled"
    assert wire.acks() == [1]


def test_it_keeps_its_credit_while_it_waits() -> None:
    """D-9."""
    play, wire = stage(limits=Limits(inbox_messages=2))
    one, two = deliveries(wire.send(Message("c", "k", b"1", 1), Message("c", "k", b"2", 2), Message("c", "k", b"3", 3)))
    fails(play, [one, two])
    [again, other] = deliveries(play.wait(5.1))
    assert deliveries(play.call("acknowledge", [again, other])) != []
    assert wire.acks() == [1, 2]


def test_every_try_counts_and_the_last_is_a_dead_letter() -> None:
    """T-47."""
    play, wire = stage(limits=Limits(max_attempts=3))
    given = deliveries(wire.send(Message("c", "k", b"x", 1)))
    tries = []
    while given:
        tries += [one.attempt for one in given]
        given = deliveries([*fails(play, given, 1.0), *play.wait(1.1)])
    assert tries == [1, 2, 3]
    assert wire.acks() == [1]
    assert [letter.attempts for letter in play.store.dead_letters(0, 9)] == [3]


@pytest.mark.parametrize("end", ["lose", "close"])
def test_with_its_connection_it_is_let_go_and_its_tries_are_known(end: str) -> None:
    play, wire = stage()
    fails(play, deliveries(wire.send(Message("c", "k", b"x", 1))))
    if end == "close":
        play.call("close")
        assert not play.node.timeout_reason or "again" not in play.node.timeout_reason
        return
    wire.lose()
    assert deliveries(play.wait(10.0)) == []
    wire = play.peer(LOW)
    assert attempts(wire.send(Message("c", "k", b"x", 1))) == [2]
    assert play.node.stats().withheld == 1


def test_where_the_connection_is_gone_or_the_delivery_settled_it_is_a_plain_failure() -> None:
    play, wire = stage()
    given = deliveries(wire.send(Message("c", "k", b"x", 1)))
    fails(play, given)
    assert fails(play, given) == [], "the second time is a failure: it is left to its sender"
    assert deliveries(play.wait(10.0)) == []
    given = deliveries(wire.send(Message("c", "k", b"x", 1)))
    wire.lose()
    assert fails(play, given) == []
    assert deliveries(play.wait(10.0)) == []
    wire = play.peer(LOW)
    given = deliveries(wire.send(Message("c", "k", b"x", 1)))
    fails(play, given)
    play.call("acknowledge", given)
    assert deliveries(play.wait(10.0)) == []


def test_without_a_handler_by_then_it_is_let_go() -> None:
    play, wire = stage(limits=Limits(handler_grace=0.0))
    fails(play, deliveries(wire.send(Message("c", "k", b"x", 1))))
    play.node.unregister("", "", "h")
    assert deliveries(play.wait(10.0)) == []
    play.node.register("", "", "h")
    assert attempts(wire.send(Message("c", "k", b"x", 1))) == [2]


def test_an_unreliable_one_waits_too() -> None:
    play, wire = stage(limits=Limits(max_attempts=2))
    given = deliveries(wire.send(Message("c", "k", b"x", None)))
    fails(play, given)
    again = deliveries(play.wait(5.1))
    assert [one.attempt for one in again] == [2]
    fails(play, again)
    assert deliveries(play.wait(10.0)) == []
    assert wire.acks() == []


def test_a_dead_letter_that_fails_again_stays_one() -> None:
    play, wire = stage(limits=Limits(max_attempts=1))
    play.call("fail", deliveries(wire.send(Message("c", "k", b"x", 1))))
    for call, argument in (("handle_again", 1.0), ("give_up", "no")):
        play.node.replay(play.store.dead_letters(0, 9))
        play.call(call, deliveries(play.run()), argument)
        assert deliveries(play.wait(5.0)) == []
    assert len(play.store.dead_letters(0, 9)) == 1


# Giving up.


def test_what_is_given_up_is_a_dead_letter_at_once() -> None:
    play, wire = stage()
    play.hold_commits = True
    given = deliveries(wire.send(Message("c", "k", b"x", 1)))
    actions = play.call("give_up", given, "no such customer")
    [notice] = [one for one in every(actions, Notice) if one.kind is NoticeKind.DEAD_LETTER]
    assert "was given up by its handler: 'no such customer'" in notice.detail
    assert wire.acks() == [], "it is not stored yet"
    play.finish()
    play.hold_commits = False
    assert wire.acks() == [1]
    assert [(letter.body, letter.cause) for letter in play.store.dead_letters(0, 9)] == [(b"x", "no such customer")]
    assert wire.send(Message("c", "k", b"x", 1)) == [], "a copy is acknowledged"
    assert wire.acks() == [1]
    play.call("give_up", given, "again")
    assert len(play.store.dead_letters(0, 9)) == 1


def test_the_cause_is_kept_with_the_letter_as_text_that_any_store_takes() -> None:
    """It is the handler's own text, in which there may be anything: a lone surrogate is no UTF-8."""
    play, wire = stage(limits=Limits(max_attempts=1))
    for number, reason in enumerate(("\udc80 and \x1b[2J", "long" * 1000), 1):
        play.call("give_up", deliveries(wire.send(Message("c", "k", b"x", number))), reason)
    play.call("fail", deliveries(wire.send(Message("c", "k", b"x", 3))))
    causes = [letter.cause for letter in play.store.dead_letters(0, 9)]
    assert causes == ["\\udc80 and \x1b[2J", "long" * 250, "failed 1 times"]


def test_a_letter_that_is_not_stored_is_still_a_message() -> None:
    play, wire = stage()
    play.hold_commits = True
    play.call("give_up", deliveries(wire.send(Message("c", "k", b"x", 1))), "no")
    play.fail()
    play.hold_commits = False
    assert wire.acks() == []
    assert attempts(wire.send(Message("c", "k", b"x", 1))) == [1]


def test_with_no_room_for_letters_it_comes_again() -> None:
    """D-13."""
    play, wire = stage()
    play.store.full = True
    given = deliveries(wire.send(Message("c", "k", b"x", 1)))
    play.call("give_up", given, "no")
    given = deliveries(wire.send(Message("c", "k", b"x", 1)))
    play.call("give_up", given, "no")
    play.store.full = False
    assert (wire.acks(), play.store.dead_letters(0, 9)) == ([], [])


def test_an_unreliable_one_that_is_given_up_is_gone() -> None:
    play, wire = stage()
    play.call("give_up", deliveries(wire.send(Message("c", "k", b"x", None))), "no")
    assert (play.store.dead_letters(0, 9), play.node.stats().failed) == ([], 1)


def customers(net: ProgramNet) -> Callable[[], bool]:
    """A shop that is slow to open: its handler wants each order again until then, and never the bad ones."""
    served: Counter[bytes] = Counter()

    def customer(app: App) -> None:
        def order() -> None:
            if app.subscribed("orders") and not app.disk:
                receipt = app.send_many([("orders", "", b"%d" % number) for number in range(5)])
                app.when_stored(receipt, lambda error: error or app.disk.update(sent=True))

        app.every(1.0, order)

    def shop(app: App) -> None:
        opens = app.now + 3.0

        def serve(order: Delivery) -> None:
            if order.body == b"3":
                order.give_up("not on the menu")
            elif app.now < opens:
                order.fail(retry_in=1.0)
            else:
                served[order.body] += 1
                order.ack()

        app.subscribe("orders", handler=serve, settles=True)

    net.instance("customer", customer, remotes=["shop"])
    net.instance("shop", shop)
    return lambda: sorted(served) == [b"0", b"1", b"2", b"4"]


def test_a_shop_that_opens_late_serves_all_but_what_it_gives_up() -> None:
    rehearse(customers, range(10))


def test_a_life_in_which_messages_are_wanted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-22."""
    monkeypatch.setattr(SimNet, "again_chance", 0.7)
    assert SimNet(1, policy=Policy(dedupe=1000)).run().counts["again"]
