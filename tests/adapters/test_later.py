"""Messages for later over every adapter: for a time, or for a subscriber, over restarts (P-90 to P-97)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from time import monotonic

import pytest
from tolliver import SendState
from tolliver.codecs import Json

from tolliver_proto import Limits, OutboxFull

from .kinds import EACH_ADAPTER, ONE_KIND
from .nodes import AGAIN, Inbox, Nodes, address


@EACH_ADAPTER
def test_a_message_waits_for_its_time_over_restarts(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        receipt = left.send("news", "", b"1", after=1)
        assert (receipt.later, receipt.recipients, receipt.state) == (1, 0, SendState.WAITING)
        began = monotonic()
        left.send("news", "", 2, codec=Json(), not_before=datetime.now(UTC) + timedelta(seconds=1.5))
        left.send("news", "", b"3", after=3600, message_key="k")
        assert left.stats().later == 3
    with nodes.open("left", **AGAIN) as left, nodes.open("right") as right:
        inbox = Inbox()
        right.subscribe("news", handler=inbox)
        right.new_connection(address(left))
        inbox.holds(2)
        assert monotonic() - began >= 1  # never early
        assert inbox.bodies == [b"1", b"2"]
        assert left.stats().later == 1
        again = left.send("news", "", b"3", message_key="k")
        assert (again.repeats, again.later) == (True, 1)


@EACH_ADAPTER
def test_a_job_is_put_at_its_time_over_restarts(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        left.work_queue("jobs").put(b"1", after=0.5)
    with nodes.open("left", **AGAIN) as left, nodes.open("right") as right:
        left.work_queue("jobs")
        right.new_connection(address(left))
        jobs = right.work("jobs")
        job = next(jobs)
        assert job.body == b"1"
        job.ack()
        jobs.close()


@EACH_ADAPTER
def test_many_wait_for_one_time(nodes: Nodes) -> None:
    with nodes.open("left") as left, nodes.open("right") as right:
        inbox = Inbox()
        right.subscribe("news", handler=inbox)
        right.new_connection(address(left))
        left.wait_subscribed("news", timeout=30)
        due = datetime.now(UTC) + timedelta(seconds=0.5)
        receipt = left.send_many([("news", "", b"1"), ("news", "", b"2")], not_before=due)
        assert (receipt.later, receipt.recipients) == (2, 0)
        left.send_many([("news", "", 3)], after=0.5, codec=Json())
        left.work_queue("jobs").put_many([b"1", b"2"], after=3600)
        with pytest.raises(ValueError, match="require_recipients=1"):
            left.send_many([("news", "", b"4")], after=1, require_recipients=1)
        assert left.stats().later == 5
        inbox.holds(3)
        assert (datetime.now(UTC) >= due, sorted(inbox.bodies)) == (True, [b"1", b"2", b"3"])
        assert left.stats().later == 2


@EACH_ADAPTER
def test_a_channel_keeps_for_its_first_subscriber_over_restarts(nodes: Nodes) -> None:
    with nodes.open("left", limits=Limits(outbox_messages=3)) as left:
        assert left.send("orders", "", b"1", keep=True).recipients == 1
        left.send_many([("orders", "a", b"2"), ("orders", "b", b"3")])
        with pytest.raises(OutboxFull, match="first subscriber"):
            left.send("orders", "", b"4")
        assert left.stats().kept == 3
    with nodes.open("left", **AGAIN) as left, nodes.open("right") as right:
        inbox = Inbox()
        right.subscribe("orders", handler=inbox)
        right.new_connection(address(left))
        left.wait_subscribed("orders", timeout=30)
        left.send("orders", "", b"4")
        inbox.holds(4)
        assert inbox.bodies == [b"1", b"2", b"3", b"4"]
        assert left.stats().kept == 0


@ONE_KIND
def test_what_is_wrong_with_a_time_is_said(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        later = datetime.now(UTC)
        with pytest.raises(ValueError, match="no time zone"):
            left.send("news", "", b"1", not_before=datetime.now())
        with pytest.raises(ValueError, match="give one of them"):
            left.send("news", "", b"1", not_before=later, after=1)
        with pytest.raises(ValueError, match="require_recipients=1"):
            left.send("news", "", b"1", after=1, require_recipients=1)
        with pytest.raises(ValueError, match="after=-1"):
            left.send("news", "", b"1", after=-1)
        with pytest.raises(TypeError, match="not_before=5"):
            left.send("news", "", b"1", not_before=5)
        assert left.stats().later == 0
