"""Message keys over every adapter: a message, or a job, is stored once for each key, over restarts (P-60)."""

from __future__ import annotations

import pytest
from tolliver import Request, SendState
from tolliver.codecs import Json

from tolliver_proto import Limits, OwnLimitExceeded, Policy, Receipt
from tolliver_proto.errors import Undelivered, UndeliveredReason

from .kinds import EACH_ADAPTER, ONE_KIND
from .nodes import AGAIN, Inbox, Nodes, address


def told(receipt: Receipt) -> tuple[bool, SendState]:
    return receipt.repeats, receipt.state


def test_a_message_is_sent_once_for_each_key_over_restarts(nodes: Nodes) -> None:
    with nodes.pair() as (left, _, inbox):
        left.wait_subscribed("news", timeout=30)
        first = left.send("news", "", b"1", message_key="order-1")
        left.wait_acked(first)
        assert told(left.send("news", "", b"2", message_key="order-1")) == (True, SendState.ACKNOWLEDGED)
        assert not left.send("news", "", "3", message_key="order-2", codec=Json()).repeats
        inbox.holds(2)
        assert inbox.bodies == [b"1", b'"3"']
        assert left.stats().message_keys == 2
    with nodes.open("left", **AGAIN) as left:
        again = left.send("news", "", b"4", message_key="order-1")
        assert told(again) == (True, SendState.ACKNOWLEDGED)
        left.wait_acked(again)


@EACH_ADAPTER
def test_a_job_is_put_once_for_each_key_over_restarts(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        queue = left.work_queue("jobs")
        first = queue.put(b"1", message_key="job-1")
        assert told(first) == (False, SendState.WAITING)
        assert told(queue.put(b"2", "k", message_key="job-1")) == (True, SendState.WAITING)
    with nodes.open("left", **AGAIN) as left, nodes.open("right") as right:
        queue = left.work_queue("jobs")
        again = queue.put(b"3", message_key="job-1")
        assert told(again) == (True, SendState.WAITING)
        assert len(queue.pending()) == 1
        right.new_connection(address(left))
        jobs = right.work("jobs")
        job = next(jobs)
        assert job.body == b"1"
        job.ack()
        left.wait_acked(again)
        assert again.state is SendState.ACKNOWLEDGED
        jobs.close()


@EACH_ADAPTER
def test_a_request_with_a_key_is_stored_once(nodes: Nodes) -> None:
    asked = []

    def double(request: Request) -> bytes:
        asked.append(request.request_id)
        return request.body * 2

    with nodes.open("right", subscriptions=[]) as right, nodes.open("left") as left:
        right.respond("sums", double)
        left.new_connection(address(right))
        assert left.request("sums", b"2", durable=True, message_key="sum-1", timeout=30).body == b"22"
        with pytest.raises(TimeoutError):  # its reply came before
            left.request("sums", b"2", durable=True, message_key="sum-1", timeout=0.2)
        with pytest.raises(ValueError, match="durable=True"):
            left.request("sums", b"2", message_key="sum-2")
        assert len(asked) == 1


@ONE_KIND
def test_what_was_given_up_is_told_to_who_sends_it_again(nodes: Nodes) -> None:
    with nodes.pair() as (left, right, _):
        left.wait_subscribed("news", timeout=30)
        peer = right.instance_id
    with nodes.open("left", **AGAIN) as left:
        left.send("news", "", b"1", message_key="order-1")
        left.forget_peer(peer)
    with nodes.open("left", **AGAIN) as left:
        again = left.send("news", "", b"2", message_key="order-1")
        assert told(again) == (True, SendState.GIVEN_UP)
        with pytest.raises(Undelivered, match="was given up: forgotten") as caught:
            left.wait_acked(again)
        assert caught.value.reason is UndeliveredReason.FORGOTTEN


@ONE_KIND
def test_a_send_without_recipients_takes_no_key_and_keys_are_bounded(nodes: Nodes) -> None:
    inbox = Inbox()
    with nodes.open("left", limits=Limits(max_message_keys=1), policy=Policy(key_window=3600.0)) as left:
        assert left.send("news", "", b"1", message_key="a").recipients == 0
        with nodes.open("right", handlers=[("news", "", inbox)]) as right:
            right.subscribe("news")
            left.new_connection(address(right))
            assert left.send("news", "", b"2", message_key="a").recipients == 1
            with pytest.raises(OwnLimitExceeded, match="max_message_keys"):
                left.send("news", "", b"3", message_key="b")
            inbox.holds(1)
            assert inbox.bodies == [b"2"]
