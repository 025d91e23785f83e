"""Messages from `send` to the handlers: recipients, order, storage."""

from __future__ import annotations

import random

import pytest

from tests.ports import free_port
from tolliver_proto import (
    ConnectionClosing,
    Limits,
    LocalProtocolError,
    NoticeKind,
    OutboxFull,
    OwnLimitExceeded,
    ReservedChannel,
    Subscription,
)
from tolliver_proto.errors import Undelivered, UndeliveredReason

from .facade import until
from .kinds import EACH_ADAPTER, EVERY_LOOP, ONE_KIND
from .nodes import AGAIN, Inbox, Nodes, address, connected, noticed, subscribed

MIB = 2**20


# Subscriptions.


def test_subscriptions_before_and_after_connecting(nodes: Nodes) -> None:
    with nodes.pair(["before"]) as (left, right, inbox):
        assert left.send("before", "k", b"1").recipients == 1
        right.subscribe("after", "k", handler=inbox)
        subscribed(left, 2)
        assert left.send("after", "k", b"2").recipients == 1
        assert left.send("after", "other", b"3").recipients == 0
        inbox.holds(2)
        assert inbox.bodies == [b"1", b"2"]


def test_subscribing_while_connections_come_and_go(nodes: Nodes) -> None:
    """At any moment: in the end the peer's view is ours (T-29)."""
    with nodes.open("right") as right, nodes.open("left") as left:
        for number in range(40):
            if number % 8 == 0:
                connecting = left.start("new_connection", address(right))
            if number % 8 == 5:
                left.remove_connection(address(right))
                connecting.outcome()
            right.subscribe(f"c{number}")
            if number % 2:
                right.unsubscribe(f"c{number}")
        left.new_connection(address(right))
        expected = {f"c{number}" for number in range(0, 40, 2)}
        until(lambda: {one.channel for one in left.peers()[0].subscriptions} == expected)


@ONE_KIND
def test_wildcards_are_the_subscribers(nodes: Nodes) -> None:
    with nodes.pair(channels=()) as (left, right, inbox):
        right.subscribe("", "k", handler=inbox)
        subscribed(left)
        assert left.send("a", "k", b"1").recipients == 1
        assert left.send("b", "k", b"2").recipients == 1
        assert left.send("b", "", b"3").recipients == 0  # an empty key of a message is no wildcard (T-24)
        inbox.holds(2)
        right.subscribe("", "", handler=inbox)
        subscribed(left, 2)
        left.wait_acked(left.send("b", "", b"4"))
        assert inbox.bodies == [b"1", b"2", b"4"]


@ONE_KIND
def test_unsubscribing_removes_exactly_that_entry(nodes: Nodes) -> None:
    with nodes.pair(["a", "b"]) as (left, right, inbox):
        right.subscribe("", "")
        subscribed(left, 3)
        right.unsubscribe("a")
        right.unsubscribe("never subscribed to")
        subscribed(left, 2)
        assert left.send("a", "", b"1").recipients == 1  # the wildcard is still there (T-26)
        right.unsubscribe("", "")
        subscribed(left, 1)
        assert left.send("a", "", b"2").recipients == 0
        left.wait_acked(left.send("b", "", b"3"))
        assert b"3" in inbox.bodies
        assert b"2" not in inbox.bodies


def test_subscriptions_outlive_the_process_and_its_handlers_come_later(nodes: Nodes) -> None:
    """T-31, T-46."""
    with nodes.open("right") as right:
        right.subscribe("news", "k")
    inbox = Inbox()
    with nodes.open("left", **AGAIN) as left, nodes.open("right") as right:
        left.new_connection(address(right))
        assert left.peers()[0].subscriptions == (Subscription("news", "k"),)
        receipt = left.send("news", "k", b"x")
        until(lambda: right.stats().get("withheld"))
        right.register_callback("news", "k", inbox)
        left.wait_acked(receipt)
    assert inbox.bodies == [b"x"]


def test_the_reserved_channel_is_reserved_everywhere(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        for call in (
            lambda: left.send("tolliver", "", b""),
            lambda: left.send_many([("tolliver", "", b"")]),
            lambda: left.unreliable_send("tolliver", "", b""),
            lambda: left.subscribe("tolliver"),
            lambda: left.unsubscribe("tolliver"),
            lambda: left.subscribe("tolliver", handler=print),
            lambda: left.register_callback("tolliver", "", print),
            lambda: left.messages("tolliver"),
            lambda: left.message_runs("tolliver"),
        ):
            with pytest.raises(ReservedChannel):
                call()


# Sending.


@EACH_ADAPTER
def test_nobody_subscribed_means_nothing_kept_and_that_is_said(nodes: Nodes) -> None:
    """T-53: with the notice, the counter, and the answer to who waits."""
    with nodes.pair() as (left, _right, inbox):
        receipt = left.send("tides", "", b"x")
        mixed = left.send_many([("news", "", b"arrives"), ("tides", "", b"y"), ("tides", "", b"z")])
        assert (receipt.recipients, mixed.counts) == (0, [1, 0, 0])
        for one, count in ((receipt, 1), (mixed, 2)):
            with pytest.raises(Undelivered, match="no_recipients") as caught:
                left.wait_acked(one)
            assert (caught.value.peer, caught.value.reason, caught.value.count) == (None, "no_recipients", count)
        assert inbox.bodies == [b"arrives"], "the answer comes when all else is acknowledged"
        assert left.stats()["pending"] == 0
        assert left.stats()["no_recipients"] == 3
        assert ["'tides'" in text for text in noticed(left, NoticeKind.NO_RECIPIENTS)] == [True]


@EACH_ADAPTER
@pytest.mark.parametrize("by", ["remotes", "new_connection"])
def test_what_is_sent_before_a_new_remote_listens_reaches_it(nodes: Nodes, by: str) -> None:
    """T-62: from the opening, or the call, on; across dials that are refused, TCP and TLS."""
    listen, inbox = f"127.0.0.1:{free_port()}", Inbox()
    asked = {"remotes": [listen]} if by == "remotes" else {}
    with nodes.open("left", limits=Limits(redial_first=0.2, redial_max=0.4), **asked) as left:
        connecting = left.start("new_connection", listen) if by == "new_connection" else None
        until(lambda: sum(left.stats().dials_failed.values()))
        receipts = [left.send("news", "", b"%d" % number) for number in range(3)]
        with pytest.raises(TimeoutError, match="kept for remotes that connect"):
            left.wait_acked(receipts[0], timeout=0.05)
        with nodes.open("right", listen=listen, subscriptions=["news"], handlers=[("news", "", inbox)]):
            for receipt in receipts:
                left.wait_acked(receipt)
            if connecting is not None:
                connecting.wait()
            assert inbox.bodies == [b"0", b"1", b"2"]


def test_a_send_to_one_peer_reaches_no_other(nodes: Nodes) -> None:
    """P-25."""
    with nodes.open("carol") as third, nodes.pair() as (left, right, inbox):
        other = Inbox()
        third.subscribe("news", handler=other)
        left.new_connection(address(third))
        subscribed(left, 1, third.instance_id)
        assert left.send("news", "", b"1", to=right.instance_id).recipients == 1
        assert left.send_many([("news", "", b"2")], to=[third.instance_id]).counts == [1]
        until(lambda: left.unreliable_send("news", "", b"3", to=right.instance_id) == 1)
        left.wait_acked(left.send("news", "", b"4", require_recipients=2, to={right.instance_id, third.instance_id}))
        inbox.holds(3)
        assert (inbox.bodies, other.bodies) == ([b"1", b"3", b"4"], [b"2", b"4"])
        with pytest.raises(TypeError, match="names no peer"):
            left.send("news", "", b"5", to=str(right.instance_id))


@EACH_ADAPTER
def test_a_message_expires_when_its_send_says(nodes: Nodes) -> None:
    """P-27: by the store's clock, in whole seconds, and after a restart of the sender."""
    with nodes.open("left") as left:
        nodes.visit(left)
        receipt = left.send("news", "", b"old", expire_after=0.1)
        left.send_many([("news", "", b"older")], expire_after=0.1)
        kept = left.send("news", "", b"kept", expire_after=1000.0)
        with pytest.raises(Undelivered) as given_up:
            left.wait_acked(receipt)
        assert given_up.value.reason is UndeliveredReason.EXPIRED
        until(lambda: left.stats()["expired_messages"] == 2)
        left.send("news", "", b"young", expire_after=0.1)
        with pytest.raises(ValueError, match="above 0"):
            left.send("news", "", b"never", expire_after=0.0)
    with nodes.open("left") as left:
        until(lambda: left.stats()["pending"] == 1)
        assert kept.recipients == 1


@ONE_KIND
def test_nobody_hears_what_he_says_himself(nodes: Nodes) -> None:
    """T-56."""
    with nodes.pair() as (left, _right, inbox):
        own = Inbox()
        left.subscribe("news", handler=own)
        left.wait_acked(left.send("news", "", b"x"))
        assert (inbox.bodies, own.bodies) == ([b"x"], [])


@ONE_KIND
def test_send_many_counts_each_one(nodes: Nodes) -> None:
    with nodes.pair() as (left, _right, inbox):
        receipt = left.send_many([("news", "", b"1"), ("nobody", "", b"2"), ("news", "k", b"3")])
        assert list(receipt.counts) == [1, 0, 1]
        assert (receipt.recipients, receipt.deliveries) == (1, 2)
        with pytest.raises(Undelivered, match=r"^1 messages"):
            left.wait_acked(receipt)
        assert inbox.bodies == [b"1", b"3"]


def test_send_many_stores_all_or_none(nodes: Nodes) -> None:
    with nodes.pair(left={"limits": Limits(outbox_messages=10)}) as (left, _right, inbox):
        with pytest.raises(OutboxFull):
            left.send_many([("news", "", b"1")] * 11)
        with pytest.raises(LocalProtocolError):
            left.send_many([("news", "", b"2"), ("news", "", "no bytes")])
        left.wait_acked(left.send("news", "", b"3"))
        assert inbox.bodies == [b"3"]


def test_a_thousand_messages_come_in_order(nodes: Nodes) -> None:
    with nodes.pair() as (left, _right, inbox):
        bodies = [b"%d" % number for number in range(1000)]
        receipts = [left.send("news", "", body) for body in bodies[:100]]
        for start in range(100, 1000, 100):
            receipts.append(left.send_many([("news", "", body) for body in bodies[start : start + 100]]))
        for receipt in receipts:
            left.wait_acked(receipt)
        assert inbox.bodies == bodies


@EVERY_LOOP
def test_the_largest_body_passes_and_a_larger_one_is_refused(nodes: Nodes) -> None:
    body = random.Random(1).randbytes(16 * MIB)
    with nodes.pair() as (left, _right, inbox):
        with pytest.raises(OwnLimitExceeded, match="max_body"):
            left.send("news", "", body + b"!")
        left.wait_acked(left.send("news", "", body))
        left.wait_acked(left.send("news", "", b"and on"))
        assert inbox.bodies == [body, b"and on"]


def test_unreliable_messages_go_to_who_is_there(nodes: Nodes) -> None:
    with nodes.pair() as (left, right, inbox):
        assert left.unreliable_send("news", "", b"1") == 1
        assert left.unreliable_send("news", "k", b"2") == 1
        assert left.unreliable_send("nobody", "", b"3") == 0
        inbox.holds(2)
        assert inbox.bodies == [b"1", b"2"]
        assert inbox.deliveries[0].message.message_id is None
        left.remove_connection(address(right))
        until(lambda: connected(left) == 0)
        assert left.unreliable_send("news", "", b"4") == 0
        assert left.stats()["pending"] == 0


@EVERY_LOOP
def test_messages_in_both_directions_at_once(nodes: Nodes) -> None:
    """Two peers that both send more than all sockets hold: neither may wait for the other."""
    body = bytes(16 * MIB)
    with nodes.pair() as (left, right, at_right):
        at_left = Inbox()
        left.subscribe("back", handler=at_left)
        subscribed(right)
        sending = [left.start("send", "news", "", body), right.start("send", "back", "", body)]
        there, back = (one.wait() for one in sending)
        left.wait_acked(there)
        right.wait_acked(back)
        assert at_left.bodies == at_right.bodies == [body]


def test_one_message_for_several_peers(nodes: Nodes) -> None:
    with nodes.pair() as (left, _right, inbox), nodes.open("third") as third:
        another = Inbox()
        third.subscribe("", handler=another)
        third.new_connection(address(left))
        subscribed(left, peer=third.instance_id)
        receipt = left.send_many([("news", "", b"1"), ("other", "", b"2")])
        assert list(receipt.counts) == [2, 1]
        left.wait_acked(receipt)
        assert (inbox.bodies, another.bodies) == ([b"1"], [b"1", b"2"])


# Messages that wait.


def test_what_was_sent_to_an_absent_peer_waits_for_it(nodes: Nodes) -> None:
    """Also over a restart of either side (T-31, T-32)."""
    with nodes.pair():
        pass
    with nodes.open("left") as left:
        assert left.send("news", "", b"1").recipients == 1
        assert left.stats()["pending"] == 1
    inbox = Inbox()
    with nodes.open("left") as left:
        left.send("news", "", b"2")
        with nodes.open("right") as right:
            right.register_callback("news", "", inbox)
            right.new_connection(address(left))
            inbox.holds(2)
            until(lambda: left.stats()["pending"] == 0)
    assert inbox.bodies == [b"1", b"2"]


def test_what_waits_flows_when_the_peer_dials_in_after_a_removal(nodes: Nodes) -> None:
    """T-77."""
    with nodes.pair() as (left, right, inbox):
        left.remove_connection(address(right))
        until(lambda: not connected(left))
        receipt = left.send("news", "", b"x")
        assert receipt.recipients == 1
        with pytest.raises(TimeoutError):
            left.wait_acked(receipt, timeout=0.02)
        right.new_connection(address(left))
        left.wait_acked(receipt)
        assert inbox.bodies == [b"x"]


@EVERY_LOOP
def test_whoever_waits_for_an_ack_when_it_closes_is_told(nodes: Nodes) -> None:
    with nodes.pair() as (left, right, _inbox):
        right.close()
        until(lambda: not connected(left))
        waiting = left.start("wait_acked", left.send("news", "", b"x"))
        until(lambda: left.stats()["pending"])
        left.close()
        assert isinstance(waiting.outcome(), ConnectionClosing)
