"""Notices that a peer or a program may cause as often as it likes: the first at once, then the sum once a minute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tolliver_proto import Acl, Action, HandshakeRequest, Notice, NoticeKind, PeerIdentity, Rights
from tolliver_proto._common.timers import Timers
from tolliver_proto._node.notices import EVERY, PEERS_KNOWN, TEXTS, THROTTLED, NoticeTally
from tolliver_proto._testing.inspection import inside
from tolliver_proto.errors import CertificateError

from .play import HIGH, LOW, ME, Play, every

KINDS = NoticeKind
ONLY_HIGH = Acl(default=Rights.none(), peers={HIGH: Rights()})


THERE = PeerIdentity(address="there")


def broken(play: Play) -> list[Action]:
    wire = play.accepted(LOW, THERE)
    play.node.receive_data(wire.cid, b"\x63", now=play.now)
    return play.run()


def mistaken(play: Play) -> list[Action]:
    return play.accepted(LOW, PeerIdentity(uuids=frozenset({HIGH}), address="there")).request()


def denied(play: Play) -> list[Action]:
    play.node.set_acl(ONLY_HIGH)
    return play.accepted(LOW, THERE).request()


def oneself(play: Play) -> list[Action]:
    return play.accepted(ME, THERE).request()


def double(play: Play) -> list[Action]:
    if not play.node.stats().peers_up:
        play.accepted(LOW, THERE).request()
    return play.accepted(LOW, THERE).request()


def refused(play: Play) -> list[Action]:
    cid = play.node.new_cid(now=play.now, address="there")
    assert cid is not None
    play.node.lost(cid, CertificateError("unknown CA"), now=play.now)
    return play.run()


def failed(play: Play) -> list[Action]:
    play.node.notice(KINDS.HANDLER_FAILED, "it raised", LOW, now=play.now)
    return play.run()


def unanswered(play: Play) -> list[Action]:
    play.node.notice(KINDS.RESPONDER_FAILED, "it raised", LOW, now=play.now)
    return play.run()


def full(play: Play) -> list[Action]:
    play.node.notice(KINDS.STORE_ERROR, "the disk is full", now=play.now)
    return play.run()


CAUSES: dict[NoticeKind, Callable[[Play], list[Action]]] = {
    KINDS.PROTOCOL_ERROR: broken,
    KINDS.IDENTITY_MISMATCH: mistaken,
    KINDS.ACCESS_DENIED: denied,
    KINDS.SELF_CONNECTION: oneself,
    KINDS.DUPLICATE_CLOSED: double,
    KINDS.CERTIFICATE_REFUSED: refused,
    KINDS.HANDLER_FAILED: failed,
    KINDS.RESPONDER_FAILED: unanswered,
    KINDS.STORE_ERROR: full,
}


OF_OURSELVES = {KINDS.HANDLER_FAILED, KINDS.RESPONDER_FAILED, KINDS.STORE_ERROR}


def told(actions: list[Action], kind: NoticeKind) -> list[Notice]:
    return [notice for notice in every(actions, Notice) if notice.kind is kind]


def test_each_kind_that_is_throttled_has_its_cause_here() -> None:
    assert set(CAUSES) == THROTTLED


@pytest.mark.parametrize("kind", CAUSES)
def test_the_first_is_told_at_once_and_then_the_sum(kind: NoticeKind) -> None:
    play = Play()
    seen = [notice for _ in range(3) for notice in told(CAUSES[kind](play), kind)]
    (first,) = seen
    (rest,) = told(play.wait(EVERY), kind)
    assert rest.detail == f"2 more like it within a minute; the last one: {first.detail}"
    assert rest.peer == first.peer
    assert ("there" in first.detail) is (kind not in OF_OURSELVES)
    assert play.node.stats().notices[kind] == 3, "each is counted"
    assert told(play.wait(EVERY), kind) == [], "and a minute without one is the end of it"
    assert told(CAUSES[kind](play), kind) == seen


def store_errors(play: Play, *details: str) -> list[str]:
    for detail in details:
        play.node.notice(KINDS.STORE_ERROR, detail, now=play.now)
    return [notice.detail for notice in told(play.run(), KINDS.STORE_ERROR)]


def sums_of_store_errors(play: Play) -> list[str]:
    return [notice.detail for notice in told(play.wait(EVERY), KINDS.STORE_ERROR)]


def test_each_text_of_a_store_error_is_told_once_within_a_minute() -> None:
    play = Play()
    full, damaged = "the disk is full", "an index is damaged"
    assert store_errors(play, full, damaged, full) == [full, damaged]
    assert sums_of_store_errors(play) == [f"1 more like it within a minute; the last one: {full}"]
    assert store_errors(play, full, damaged) == [damaged]
    assert sums_of_store_errors(play) == [f"1 more like it within a minute; the last one: {full}"]
    assert sums_of_store_errors(play) == []
    assert play.node.stats().notices[KINDS.STORE_ERROR] == 5, "each is counted"


def test_texts_of_a_store_error_without_end_are_a_few_notices_and_a_sum() -> None:
    play, most = Play(), TEXTS[KINDS.STORE_ERROR]
    details = [f"page {number} is damaged" for number in range(most + 501)]
    assert store_errors(play, *details, details[0]) == details[: most + 1]
    assert sums_of_store_errors(play) == [
        f"1 more like it within a minute; the last one: {details[0]}",
        f"500 more in other words within a minute; the last one: {details[-1]}",
    ]


def test_texts_of_store_errors_at_peers_without_end_take_a_bounded_share_of_memory() -> None:
    play = Play()
    for number in range(PEERS_KNOWN + 500):
        peer = UUID(int=LOW.int + (number // 3 << 16))
        play.node.notice(KINDS.STORE_ERROR, f"row {number} is damaged", peer, now=play.now)
    assert len(told(play.run(), KINDS.STORE_ERROR)) == PEERS_KNOWN + 1
    (rest,) = told(play.wait(EVERY), KINDS.STORE_ERROR)
    assert (rest.peer, rest.detail.partition(" ")[0]) == (None, "499")


def test_peers_are_told_apart() -> None:
    play = Play()
    for peer in (LOW, HIGH):
        play.node.notice(KINDS.HANDLER_FAILED, "it raised", peer, now=play.now)
    assert [notice.peer for notice in told(play.run(), KINDS.HANDLER_FAILED)] == [LOW, HIGH]


def test_who_claims_ever_new_uuids_takes_a_bounded_share_of_memory() -> None:
    """And leaves the other kinds theirs."""
    play = Play()
    wrong = PeerIdentity(uuids=frozenset({HIGH}), address="there")
    seen: list[Notice] = []
    for number in range(PEERS_KNOWN + 500):
        claimed = UUID(int=LOW.int + (number << 16))
        wire = play.accepted(claimed, wrong)
        seen += told(wire.send(HandshakeRequest(1, claimed)), KINDS.IDENTITY_MISMATCH)
        wire.lose()
    assert len(seen) == PEERS_KNOWN + 1
    assert len(inside(play.node).context.tally._untold[KINDS.IDENTITY_MISMATCH]) == PEERS_KNOWN + 1
    (rest,) = told(play.wait(EVERY), KINDS.IDENTITY_MISMATCH)
    assert (rest.peer, rest.detail.partition(" ")[0]) == (None, "499")
    assert str(claimed) in rest.detail, "the last one"
    assert play.node.stats().notices[KINDS.IDENTITY_MISMATCH] == PEERS_KNOWN + 500
    play.wait(EVERY)
    assert not inside(play.node).context.tally._untold[KINDS.IDENTITY_MISMATCH], "and gives it back"


happenings = st.lists(
    st.tuples(
        st.sampled_from([KINDS.PROTOCOL_ERROR, KINDS.STORE_ERROR, KINDS.UNSUBSCRIBED]),
        st.sampled_from([LOW, HIGH, None]),
        st.sampled_from("abcde"),
        st.floats(0.0, 70.0),
    ),
    max_size=30,
)


@given(happenings)
def test_nothing_is_lost_and_nothing_is_told_twice_within_a_minute(
    series: list[tuple[NoticeKind, UUID | None, str, float]],
) -> None:
    timers, sums = Timers(), Counter[tuple[NoticeKind, UUID | None]]()
    at: dict[tuple[NoticeKind, UUID | None, str], list[float]] = {}
    now = 0.0

    def say(kind: NoticeKind, peer: UUID | None, count: int, text: str = "") -> None:
        sums[kind, peer] += count
        at.setdefault((kind, peer, text if kind in TEXTS else ""), []).append(now)

    def say_sum(kind: NoticeKind, peer: UUID | None, detail: str) -> None:
        say(kind, peer, int(detail.partition(" ")[0]), detail.rpartition(" ")[2])

    tally = NoticeTally(timers, say_sum)

    def pass_time(until: float) -> None:
        nonlocal now
        while (first := timers.earliest()) is not None and first[0] <= until:
            now = first[0]
            key = timers.pop_due(now)
            assert isinstance(key, tuple)
            tally.fall_due(key[1], now)
        now = until

    for kind, peer, text, pause in series:
        pass_time(now + pause)
        if kind not in THROTTLED:
            tally.add(kind, peer, 1, "of them", now)
        elif tally.is_first(kind, peer, text, now):
            say(kind, peer, 1, text)
    pass_time(now + 2 * EVERY)
    assert sums == Counter((kind, peer) for kind, peer, *_ in series)
    for times in at.values():
        assert all(after - before >= EVERY - 1e-6 for before, after in pairwise(times))
    assert timers.earliest() is None
