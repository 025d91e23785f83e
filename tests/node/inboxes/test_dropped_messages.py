"""Notices of what a receiver acknowledges and drops (T-46, T-10, D-5)."""

from __future__ import annotations

from tolliver_proto import Acl, Action, Message, Notice, NoticeKind, Rights, Subscribe, encode
from tolliver_proto.testing import MemoryStore

from ..play import LOW, OTHER, Play, every

DROPS = (NoticeKind.UNWANTED, NoticeKind.REFUSED, NoticeKind.IGNORED)


def told(actions: list[Action]) -> list[Notice]:
    return [notice for notice in every(actions, Notice) if notice.kind in DROPS]


def test_what_nobody_wants_is_told_at_once_and_then_by_the_minute() -> None:
    play = Play(subscriptions=[("mine", "")])
    wire = play.peer(LOW)
    [first] = told(wire.send(Message("news", "k", b"x", 1)))
    assert (first.kind, first.peer) == (NoticeKind.UNWANTED, LOW)
    assert first.detail.startswith("1 messages")
    assert first.detail.endswith("'news' 1")
    for number in range(2, 50):
        assert told(wire.send(Message("news" if number % 3 else "sport", "k", b"x", number))) == []
    [later] = told(play.wait(60.0))
    assert later.detail.startswith("48 messages")
    assert later.detail.endswith("'news' 32, 'sport' 16")
    assert told(play.wait(600.0)) == []
    assert len(told(wire.send(Message("news", "k", b"x", 60)))) == 1
    assert play.node.stats().unwanted == 50


def test_each_peer_has_its_own_sum_and_only_so_many_names() -> None:
    play = Play(subscriptions=[("mine", "")])
    one, other = play.peer(LOW), play.peer(OTHER)
    assert len(told(one.send(Message("a", "k", b"x", 1)) + other.send(Message("a", "k", b"x", 1)))) == 2
    for number in range(2, 60):
        one.send(Message("c" * 4000 if number == 2 else f"c{number}", "k", b"x", number))
    [later] = told(play.wait(60.0))
    assert later.peer == LOW
    assert "others 38" in later.detail
    assert len(later.detail) < 1000


def test_unreliable_ones_and_probes_are_no_news() -> None:
    """Nobody was told that they arrived, or nobody sent them."""
    play = Play(subscriptions=[("mine", "")])
    wire = play.peer(LOW)
    assert told(wire.send(Message("news", "k", b"x", None), Message("tolliver.probe", "", b"", 7))) == []
    assert wire.acks() == [7]


def test_what_a_peer_may_not_publish_is_told() -> None:
    play = Play(acl=Acl(peers={LOW: Rights(publish=(("mine", "*"),))}), handlers=[("", "", "h")])
    play.call("subscribe", "", "")
    [notice] = told(play.peer(LOW).send(Message("yours", "k", b"x", 1)))
    assert (notice.kind, notice.peer) == (NoticeKind.REFUSED, LOW)
    assert notice.detail.endswith("'yours' 1")


def test_what_cannot_be_understood_is_told_with_the_reason() -> None:
    play = Play(store=MemoryStore())
    wire = play.peer(LOW)
    bad = encode(Subscribe("c", "k", 6))
    play.node.receive_data(wire.cid, bad[:-11] + b"\x09" + bad[-10:], now=play.now)
    [notice] = told(play.run())
    assert (notice.kind, notice.detail.rpartition("By reason: ")[2]) == (NoticeKind.IGNORED, "'bad_control' 1")
