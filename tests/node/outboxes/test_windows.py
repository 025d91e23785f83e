"""Messages that are sent before a new remote is up: the window that keeps them (T-62), and sends to nobody (T-53)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tolliver_proto import (
    Ack,
    Acl,
    Action,
    ConnectionLost,
    Dial,
    Limits,
    Notice,
    NoticeKind,
    Policy,
    Receipt,
    Rights,
    Role,
    ShutdownWrite,
    Stored,
)
from tolliver_proto._node.link import Link, Recipients
from tolliver_proto._node.outboxes.connect_windows import Keeping
from tolliver_proto._testing.inspection import inside
from tolliver_proto.errors import CertificateError, Undelivered, UndeliveredReason
from tolliver_proto.node import Acked, QuotaPolicy, RemoteState
from tolliver_proto.store import StoredMessage

from ..play import HIGH, LOW, OTHER, Play, Wire, every, notices, only

WANTED = ("c", "")
NOBODY = (None, UndeliveredReason.NO_RECIPIENTS)
WINDOW = 20.0


def asking(**options: object) -> tuple[Play, int]:
    """A remote was asked for: its dial is under way, and TCP is not made. Returns the cid too."""
    play = Play(**options)  # type: ignore[arg-type]
    return play, only(play.call("connect", "there"), Dial).cid


def fail(play: Play, cid: int, late: bool = False) -> int:
    """That dial comes to nothing, or its connection does once the transport stands; returns the cid of the next one."""
    ended = stands(play, cid).lose() if late else play.call("dial_failed", cid, ConnectionLost("refused"))
    return only(ended + play.wait(2.0), Dial).cid


def stands(play: Play, cid: int, uuid: object = LOW) -> Wire:
    return play.dialled([Dial(cid, "there")], uuid)  # type: ignore[arg-type]


def answers(actions: list[Action]) -> list[tuple[Receipt, object]]:
    """Receipts that are answered, each with peer and reason, or None for an acknowledgement."""
    return [
        (receipt, None if acked.error is None else (acked.error.peer, acked.error.reason))
        for acked in every(actions, Acked)
        for receipt in acked.tokens
    ]


def asked(play: Play, receipt: Receipt) -> list[object]:
    """The answer to who asks now, if there is one."""
    play.node.watch(receipt)
    told = [answer for one, answer in answers(play.run()) if one is receipt]
    play.node.unwatch(receipt)
    return told


def is_empty(play: Play) -> bool:
    """Nothing is stored, counted or in use any more."""
    play.wait(1.0)
    return (play.store.messages, list(inside(play.node).ledger.refcounts), list(inside(play.node).ledger.ids.live)) == (
        [],
        [],
        [],
    )


# The window of a remote that was never up.


@pytest.mark.parametrize("failures", [0, 1, 5])
def test_what_is_sent_from_the_call_on_reaches_a_new_remote(failures: int) -> None:
    """While its name is looked up, TCP and TLS are made, and dials fail."""
    play, cid = asking()
    sent = [play.send("c", "k", b"first")]
    for number in range(failures):
        cid = fail(play, cid, late=number % 2 == 1)
        sent.append(play.send("c", "k", b"%d" % number))
    wire = stands(play, cid)
    sent.append(play.send("c", "k", b"last"))
    play.send("other", "k", b"not wanted")
    assert [one.recipients for one in sent] == [0] * len(sent)
    wire.respond(WANTED)
    assert wire.bodies() == [b"first", *[b"%d" % number for number in range(failures)], b"last"]
    assert [asked(play, one) for one in sent] == [[]] * len(sent), "it counts from then on"


def test_all_that_was_kept_arrives_however_much_the_peer_takes_at_once() -> None:
    play, cid = asking(limits=Limits(window_messages=2))
    sent = [b"%d" % number for number in range(7)]
    for body in sent:
        play.send("c", "k", body)
    wire = stands(play, cid)
    wire.respond(WANTED)
    got: list[bytes] = []
    while messages := wire.messages():
        got += [message.body for message in messages]
        wire.ack(*messages)
    assert got == sent


def test_a_window_lasts_for_twenty_seconds_from_the_call() -> None:
    play, cid = asking()
    receipt = play.send("c", "k", b"early")
    play.node.watch(receipt)
    cid = fail(play, cid)
    assert answers(play.wait(WINDOW - play.now - 0.1)) == []
    actions = play.wait(0.2)
    assert answers(actions) == [(receipt, NOBODY)]
    assert NoticeKind.NO_RECIPIENTS in notices(actions)
    assert play.node.stats().no_recipients == 1
    assert is_empty(play)
    for dial in every(actions, Dial):
        cid = dial.cid
    late = play.send("c", "k", b"late")
    assert asked(play, late) == [NOBODY]
    wire = stands(play, cid)
    kept = play.send("c", "k", b"kept, as its transport stands")
    wire.respond(WANTED)
    assert wire.bodies() == [b"kept, as its transport stands"]
    assert asked(play, kept) == []


def test_a_dial_that_stands_as_its_window_ends_keeps_what_was_sent_since() -> None:
    play, cid = asking()
    play.send("c", "k", b"before")
    cid = [dial.cid for dial in every(play.wait(15.0), Dial)][-1]
    wire = stands(play, cid)
    play.send("c", "k", b"since")
    play.wait(WINDOW - play.now + 0.1)
    wire.respond(WANTED)
    assert wire.bodies() == [b"since"]


def test_a_remote_has_one_window() -> None:
    """Asking for it again begins no other one; asking for it after a `disconnect` does."""
    play, _ = asking()
    play.wait(10.0)
    play.call("connect", "there")
    play.send("c", "k", b"x")
    play.wait(10.1)
    assert is_empty(play)
    play.call("connect", "there")
    assert asked(play, play.send("c", "k", b"y")) == [NOBODY]
    play.call("disconnect", "there")
    play.call("connect", "there")
    receipt = play.send("c", "k", b"z")
    assert asked(play, receipt) == []
    play.node.watch(receipt)
    assert answers(play.call("disconnect", "there")) == [(receipt, NOBODY)], "nobody asks for that remote any more"


def test_a_remote_that_was_up_has_none() -> None:
    """It keeps from where its transport stands, and messages go to its peer by what that subscribed to."""
    play, cid = asking()
    wire = stands(play, cid)
    wire.respond(WANTED)
    dial = only(wire.lose() + play.wait(1.0), Dial)
    known, new = play.send("c", "k", b"known"), play.send("d", "k", b"new to it")
    assert (known.recipients, asked(play, new)) == (1, [NOBODY])
    wire = play.dialled([dial])
    play.send("d", "k", b"sent meanwhile")
    wire.respond(WANTED, ("d", ""))
    assert wire.bodies() == [b"known", b"sent meanwhile"]


@pytest.mark.parametrize("how", ["refused for good", "closed", "disconnected"])
def test_a_window_ends_with_its_remote(how: str) -> None:
    play = Play()
    play.node.connect("there", keep_trying=how != "refused for good")
    cid = only(play.run(), Dial).cid
    receipt = play.send("c", "k", b"x")
    play.node.watch(receipt)
    endings: dict[str, Callable[[], list[Action]]] = {
        "refused for good": lambda: play.call("dial_failed", cid, CertificateError("it is of another CA")),
        "closed": lambda: play.call("close"),
        "disconnected": lambda: play.call("disconnect", "there"),
    }
    play.wait(5.0)
    commits = len(play.commits)
    assert answers(endings[how]()) == [(receipt, NOBODY)]
    if how != "closed":
        play.wait(0.04)
        assert len(play.commits) == commits, "the removal waits for another commit"
        play.wait(0.02)
    assert len(play.commits) == commits + 1
    assert is_empty(play)


def test_a_list_that_could_not_be_stored_costs_nothing_of_the_window() -> None:
    """Its connection is closed, and the next dial is handed what this one was."""
    play, cid = asking()
    receipt = play.send("c", "k", b"x")
    wire = stands(play, cid)
    play.hold_commits = True
    wire.respond(WANTED)
    play.fail()
    play.hold_commits = False
    assert (wire.bodies(), asked(play, receipt)) == ([], [])
    dial = only(wire.lose() + play.wait(1.0), Dial)
    again = play.dialled([dial])
    again.respond(WANTED)
    [message] = again.messages()
    assert message.body == b"x"
    play.node.watch(receipt)
    assert answers(again.ack(message)) == [(receipt, None)]
    assert is_empty(play)


def test_what_was_claimed_and_not_stored_is_kept_though_its_peer_was_up_meanwhile() -> None:
    """The peer is up on the connection that it has made, and that one loses against ours, whose list then fails."""
    play, cid = asking()
    play.send("c", "k", b"x")
    wire, other = stands(play, cid), play.accepted(LOW)
    play.hold_commits = True
    other.request(WANTED)
    wire.respond(WANTED)
    play.finish()
    play.fail()
    play.hold_commits = False
    assert (wire.bodies(), other.bodies()) == ([], [])
    other.lose()
    wire.lose()
    again = play.accepted(LOW)
    again.request(WANTED)
    assert again.bodies() == [b"x"]


@pytest.mark.parametrize("seconds", [0.0, WINDOW + 1.0], ids=["in_the_window", "after_the_window"])
def test_who_waits_for_a_new_peer_that_gets_nothing_is_answered_by_the_others(seconds: float) -> None:
    """The one recipient acknowledges while the new peer's list is stored, and that fails."""
    play = Play()
    known = play.peer(OTHER, WANTED)
    wire = play.dialled(play.call("connect", "there"))
    receipt = play.send("c", "k", b"x")
    play.hold_commits = True
    wire.respond(WANTED)
    play.node.watch(receipt)
    play.wait(seconds)
    [message, *_] = known.messages()
    assert answers(known.ack(message)) == []
    assert answers(play.fail()) == [(receipt, None)]


def test_a_window_lasts_until_its_remote_is_up_though_its_peer_was_known_before() -> None:
    """The list is stored, and the peer forgotten before its connection stands."""
    play, cid = asking()
    wire = stands(play, cid)
    play.hold_commits = True
    wire.respond(WANTED)
    play.node.forget_peer(LOW, now=play.now)
    play.hold_commits = False
    play.finish()
    dial = only(wire.lose() + play.wait(3.0), Dial)
    play.send("c", "k", b"x")
    again = play.dialled([dial])
    again.respond(WANTED)
    assert again.bodies() == [b"x"]


def test_a_peer_that_dials_us_gets_what_was_kept_for_its_address() -> None:
    """A dial was answered, so that its peer is known, and was lost before the list was stored."""
    play, cid = asking()
    wire = stands(play, cid)
    play.hold_commits = True
    wire.respond()
    play.fail()
    play.hold_commits = False
    wire.lose()
    receipt, nobodys = play.send("c", "k", b"x"), play.send("other", "k", b"y")
    theirs = play.accepted(LOW)
    theirs.request(WANTED)
    assert theirs.bodies() == [b"x"]
    assert (asked(play, receipt), asked(play, nobodys)) == ([], [NOBODY]), "the window is over"


@pytest.mark.parametrize("is_acknowledged", [False, True])
def test_a_peer_that_was_forgotten_gets_nothing_again_that_was_sent_to_it(is_acknowledged: bool) -> None:
    """T-77. It had dialled us, and only now answers at its address, for which the messages were kept, too."""
    play, cid = asking()
    wire = play.peer(LOW, WANTED)
    play.send("c", "k", b"x")
    if is_acknowledged:
        wire.ack(*wire.messages())
    play.call("forget_peer", LOW)
    play.send("c", "k", b"y")
    wire = stands(play, cid)
    wire.respond(WANTED)
    assert wire.bodies() == [b"y"]


def test_a_peer_that_another_dial_found_gets_what_was_kept_for_this_address() -> None:
    """It is at two addresses. Where it is connected by one of them, the other is not dialled any more."""
    play, cid = asking()
    receipt = play.send("c", "k", b"x")
    for number in range(3):
        wire = play.dialled(play.call("connect", f"there {number}"))
        wire.respond(WANTED)
    stands(play, cid).respond(WANTED)  # the fourth connection waits until the third was asked
    [probe, *_] = wire.messages()
    assert probe.message_id is not None
    closed = only(wire.send(Ack(probe.message_id)) + play.wait(0.0), ShutdownWrite).cid
    assert (closed, wire.bodies()) == (cid, [])
    play.call("lost", cid, None)
    play.wait(3.0)
    assert [one.state for one in play.node.remotes()] == [RemoteState.CONNECTED] * 4
    assert (wire.bodies(), asked(play, receipt)) == ([b"x"], [])


def test_a_window_that_ends_while_the_list_is_stored_has_handed_over() -> None:
    for fails in (False, True):
        play, cid = asking()
        receipt = play.send("c", "k", b"x")
        wire = stands(play, cid)
        play.hold_commits = True
        wire.respond(WANTED)
        play.wait(WINDOW)
        play.node.watch(receipt)
        assert answers(play.run()) == []
        if fails:
            assert answers(play.fail()) == [(receipt, NOBODY)]
        else:
            play.finish()
            assert asked(play, receipt) == []


def test_what_one_peer_got_meanwhile_another_gets_too_and_each_once() -> None:
    play, cid = asking()
    other = only(play.call("connect", "elsewhere"), Dial).cid
    receipt = play.send("c", "k", b"x")
    one = stands(play, cid)
    one.respond(WANTED)
    [message] = one.messages()
    play.node.watch(receipt)
    assert answers(one.ack(message)) == [(receipt, None)], "a window delays no answer of what had a recipient"
    two = stands(play, other, HIGH)
    two.respond(WANTED)
    [message] = two.messages()
    assert asked(play, receipt) == [], "what was handed over counts from then on"
    two.ack(message)
    assert asked(play, receipt) == [None]
    assert is_empty(play)


def test_a_window_delays_no_answer_of_a_send_that_had_recipients() -> None:
    play = Play()
    known = play.peer(OTHER, WANTED)
    cid = only(play.call("connect", "there"), Dial).cid
    receipt = play.send("c", "k", b"x")
    play.node.watch(receipt)
    assert answers(known.ack(*known.messages())) == [(receipt, None)]
    for number in range(200):  # receipts of many sends: this one is remembered for as long as its message is kept
        one = play.send("c", "k", b"%d" % number)
        known.ack(*known.messages())
        del one
    wire = stands(play, cid)
    wire.respond(WANTED)
    messages = wire.messages()
    assert len(messages) == 201
    assert asked(play, receipt) == []
    wire.ack(*messages)
    assert asked(play, receipt) == [None]
    assert is_empty(play)


def test_what_is_given_up_by_one_is_still_kept_for_the_other() -> None:
    play = Play()
    play.peer(OTHER, WANTED).lose()
    cid = only(play.call("connect", "there"), Dial).cid
    receipt = play.send("c", "k", b"x")
    play.node.watch(receipt)
    assert answers(play.call("forget_peer", OTHER)) == [(receipt, (OTHER, UndeliveredReason.FORGOTTEN))]
    wire = stands(play, cid)
    wire.respond(WANTED)
    assert wire.bodies() == [b"x"]


def test_a_peer_that_is_skipped_at_its_quota_does_not_get_it_as_a_new_one() -> None:
    play = Play(policy=Policy(quota_policy=QuotaPolicy.SKIP), limits=Limits(outbox_messages=1))
    play.peer(LOW, WANTED).lose()
    cid = only(play.call("connect", "there"), Dial).cid
    play.send("c", "k", b"1")
    skipped = play.send("c", "k", b"2")
    wire = stands(play, cid)
    wire.respond(WANTED)
    assert wire.bodies() == [b"1"]
    assert asked(play, skipped) == [(LOW, UndeliveredReason.SKIPPED)]


def test_all_windows_together_keep_four_shares_of_distinct_messages() -> None:
    """T-62: 16 MiB. More is not kept, counted, told, and its send waits for nobody."""
    play, cid = asking(limits=Limits(keep_bytes=1000))
    more = [only(play.call("connect", number), Dial).cid for number in range(20)]
    first = play.send("c", "k", bytes(100))
    size = play.store.messages[0].size
    sent = 1
    while play.node.stats().not_kept == 0:
        play.send("c", "k", bytes(100))
        sent += 1
        assert sent < 100
    assert 4000 <= (sent - 1) * size < 4000 + size, "a message that many windows keep counts once"
    assert play.node.stats().not_kept == 21, "of each remote"
    assert not inside(play.node).sender.blocked
    assert asked(play, first) == []
    wire = stands(play, cid)
    wire.respond(WANTED)
    assert len(wire.bodies()) == sent - 1
    for number, other in enumerate(more):
        wire = stands(play, other, OTHER if number else HIGH)
        wire.respond(("d", ""))
    play.send("c", "k", b"to who subscribes")


@pytest.mark.parametrize(("first", "both", "not_kept"), [(100, [], []), (4000, [], ["2"]), (3900, [200], ["2"])])
def test_what_only_a_connection_kept_that_failed_is_told_as_not_kept(
    first: int, both: list[int], not_kept: list[str]
) -> None:
    """T-62: the window of its remote was full, so that the next connection will not get these. Some messages are kept
    for both."""
    play, cid = asking(limits=Limits(keep_bytes=1000))
    cid = fail(play, cid, late=True)
    play.send("c", "k", bytes(first))
    wire = stands(play, cid)
    for size in both:
        play.send("c", "k", bytes(size))
    receipt = play.node.send_many([("c", "k", b"1"), ("c", "k", b"2")], now=play.now)
    actions = play.run()
    assert notices(actions) == []
    actions = wire.lose()
    told = [one for one in every(actions, Notice) if one.kind is NoticeKind.NOT_KEPT]
    assert [one.detail.split()[0] for one in told] == not_kept
    assert play.node.stats().not_kept == sum(map(int, not_kept))
    assert asked(play, receipt) == ([(*NOBODY,)] if not_kept else [])
    wire = play.dialled(every(actions + play.wait(2.0), Dial))
    wire.respond(WANTED)
    assert wire.bodies() == [bytes(first), *map(bytes, both), *([] if not_kept else [b"1", b"2"])]


@pytest.mark.parametrize("others", [0, 1], ids=["alone", "beside_another_remote"])
def test_what_a_list_that_could_not_be_stored_was_to_get_is_told_as_not_kept(others: int) -> None:
    """As above, the connection fails because of this list. A message of the same commit has failed by itself."""
    play, cid = asking(limits=Limits(keep_bytes=1000))
    cid = fail(play, cid, late=True)
    play.send("c", "k", bytes(4000))
    wire = stands(play, cid)
    more = [play.dialled(play.call("connect", "elsewhere"), OTHER) for _ in range(others)]
    play.node.send_many([("c", "k", b"1"), ("c", "k", b"2"), ("d", "k", b"3")], now=play.now)
    play.run()
    play.hold_commits = True
    play.send("d", "k", b"4")
    play.send("c", "k", b"5")
    wire.respond(WANTED)
    play.finish()
    actions = play.fail()
    told = [one for one in every(actions, Notice) if one.kind is NoticeKind.NOT_KEPT]
    assert [(one.peer, one.detail.split()[0]) for one in told] == [(LOW, "2")]
    assert play.node.stats().not_kept == 2
    assert all(one.lose() for one in more)


def test_a_later_connection_keeps_its_share_though_the_windows_are_full() -> None:
    play = Play(limits=Limits(keep_bytes=200))
    wire = play.dialled(play.call("connect", "back"))
    wire.respond()
    play.call("connect", "there")
    for _ in range(9):
        play.send("c", "k", bytes(100))
    [dial] = [dial for dial in every(wire.lose() + play.wait(0.2), Dial) if dial.remote == "back"]
    wire = play.dialled([dial])
    play.send("c", "k", b"for who is back")
    wire.respond(WANTED)
    assert wire.bodies() == [b"for who is back"]


def test_a_message_for_one_peer_goes_to_no_other_remote() -> None:
    play, cid = asking()
    receipt = play.send("c", "k", b"x", to=HIGH)
    wire = stands(play, cid)
    wire.respond(WANTED)
    assert wire.bodies() == []
    assert asked(play, receipt) == [NOBODY]


def test_a_window_lets_a_peer_that_may_not_have_it_have_nothing() -> None:
    play, cid = asking(acl=Acl(peers={LOW: Rights(subscribe=())}))
    play.send("c", "k", b"x")
    wire = stands(play, cid)
    wire.respond(WANTED)
    assert wire.bodies() == []
    assert is_empty(play)


def test_a_window_is_begun_once_for_each_link() -> None:
    """However often its peer says its request before the final (T-63)."""
    keeping, link = Keeping(100), Link(1, Role.SERVER, None, 1)
    keeping.begin(link, 1)
    keeping.add([StoredMessage(1, 1, "c", "k", b"x", 10)], Recipients(()), None)
    keeping.begin(link, 2)
    assert (keeping.open, keeping.size) == (1, 10)
    assert [kept.message.seq for kept in keeping.end(link)] == [1]
    assert (keeping.open, keeping.size, bool(keeping)) == (0, 0, False)


def test_a_message_that_was_kept_is_forgotten_by_a_restart() -> None:
    play, _ = asking()
    receipt = play.send("c", "k", b"x")
    assert (receipt.recipients, len(play.store.messages)) == (0, 1)
    play = play.restart()
    assert is_empty(play)


# Sends to nobody.


def test_a_send_that_nobody_is_owed_is_answered_so() -> None:
    play = Play()
    receipt = play.send("tides", "k", b"x")
    play.node.watch(receipt)
    error = only(play.run(), Acked).error
    assert isinstance(error, Undelivered)
    assert (error.peer, error.reason, error.count) == (None, UndeliveredReason.NO_RECIPIENTS, 1)
    assert receipt.undelivered[0].reason is UndeliveredReason.NO_RECIPIENTS
    assert "None" not in str(error)
    assert "no recipients" in str(error).replace("_", " ")


def test_the_answer_comes_when_all_else_is_acknowledged() -> None:
    """So it says all that there is to say."""
    play = Play()
    wire = play.peer(LOW, WANTED)
    receipt = play.node.send_many([("c", "k", b"1"), ("tides", "", b"2"), ("c", "k", b"3"), ("tides", "", b"4")])
    play.run()
    assert asked(play, receipt) == []
    play.node.watch(receipt)
    answer = only(wire.ack(*wire.messages()), Acked)
    assert answer.error is not None
    assert (answer.error.peer, answer.error.reason, answer.error.count) == (*NOBODY, 2)
    assert asked(play, receipt) == [NOBODY]


def test_what_is_given_up_for_a_peer_is_told_at_once_all_the_same() -> None:
    play = Play()
    play.peer(LOW, WANTED).lose()
    play.peer(OTHER, WANTED).lose()
    receipt = play.node.send_many([("c", "k", b"1"), ("tides", "", b"2")])
    play.run()
    play.node.watch(receipt)
    assert answers(play.call("forget_peer", LOW)) == [(receipt, (LOW, UndeliveredReason.FORGOTTEN))]


def test_sends_to_nobody_are_told_once_and_then_by_the_minute() -> None:
    play = Play()
    play.node.send("one", "k", b"x", now=play.now)
    first = only(play.run(), Notice)
    assert (first.kind, first.peer) == (NoticeKind.NO_RECIPIENTS, None)
    assert "'one'" in first.detail
    play.node.send("two", "k", b"x", now=play.now)
    play.node.send_many([("three", "k", b"x"), ("four", "k", b"y")], now=play.now)
    assert every(play.run(), Notice) == []
    told = only(play.wait(60.1), Notice)
    assert told.detail.startswith("3 ")
    assert "'four'" in told.detail
    assert play.node.stats().no_recipients == 4
    assert every(play.wait(600.0), Notice) == []


def test_a_send_that_stores_nothing_waits_for_no_commit_still() -> None:
    play = Play()
    receipt = play.node.send("tides", "k", b"x", now=play.now)
    assert only(play.run(), Stored).tokens == [receipt]
    assert play.commits == []
