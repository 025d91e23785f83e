"""Messages from `send` to the handlers and back: who gets what, and when it is acknowledged."""

from __future__ import annotations

import random

import anyio
import anyio.lowlevel
import pytest

from tests.anyio.nodes import SOON, Inbox, Nodes, address, connected, noticed, until
from tolliver_proto import (
    Delivery,
    Limits,
    LocalProtocolError,
    NoticeKind,
    OutboxFull,
    OwnLimitExceeded,
    ReservedChannel,
)

pytestmark = pytest.mark.anyio
AGAIN = {"retry_interval": SOON}


# Subscriptions.


async def test_subscriptions_before_and_after_connecting(nodes: Nodes) -> None:
    async with nodes.pair(["before"]) as (left, right, inbox):
        assert (await left.send("before", "k", b"1")).recipients == 1
        await right.subscribe("after", "k", handler=inbox)
        await until(lambda: len(left.peers()[0].subscriptions) == 2)
        assert (await left.send("after", "k", b"2")).recipients == 1
        assert (await left.send("after", "other", b"3")).recipients == 0
        await inbox.holds(2)
        assert inbox.bodies == [b"1", b"2"]


async def test_subscribing_while_connections_come_and_go(nodes: Nodes) -> None:
    """Whatever the moment, in the end the peer's view is ours (T-29)."""
    async with nodes.open("right") as right, nodes.open("left") as left:

        async def connect() -> None:
            for _ in range(5):
                await left.new_connection(address(right))
                await left.remove_connection(address(right))
            await left.new_connection(address(right))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connect)
            for number in range(40):
                await right.subscribe(f"c{number}")
                if number % 2:
                    await right.unsubscribe(f"c{number}")
        expected = {f"c{number}" for number in range(0, 40, 2)}
        await until(lambda: {one.channel for one in left.peers()[0].subscriptions} == expected)


async def test_wildcards_are_the_subscribers(nodes: Nodes) -> None:
    async with nodes.pair(channels=()) as (left, right, _):
        inbox = Inbox()
        await right.subscribe("", "k", handler=inbox)
        await until(lambda: left.peers()[0].subscriptions)
        assert (await left.send("a", "k", b"1")).recipients == 1
        assert (await left.send("b", "k", b"2")).recipients == 1
        assert (await left.send("b", "", b"3")).recipients == 0  # an empty key of a message is no wildcard (T-24)
        await inbox.holds(2)
        await right.subscribe("", "", handler=inbox)
        await until(lambda: len(left.peers()[0].subscriptions) == 2)
        await left.wait_acked(await left.send("b", "", b"4"))
        assert inbox.bodies == [b"1", b"2", b"4"]


async def test_unsubscribing_removes_exactly_that_entry(nodes: Nodes) -> None:
    async with nodes.pair(["a", "b"]) as (left, right, inbox):
        await right.unsubscribe("a")
        await right.unsubscribe("never subscribed to")
        await until(lambda: len(left.peers()[0].subscriptions) == 1)
        assert (await left.send("a", "", b"1")).recipients == 0
        await left.wait_acked(await left.send("b", "", b"2"))
        assert inbox.bodies == [b"2"]


async def test_the_reserved_channel_is_reserved_everywhere(nodes: Nodes) -> None:
    async with nodes.open("left") as left:
        for call in (
            lambda: left.send("tolliver", "", b""),
            lambda: left.send_many([("tolliver", "", b"")]),
            lambda: left.subscribe("tolliver"),
            lambda: left.unsubscribe("tolliver"),
            lambda: left.subscribe("tolliver", handler=print),
        ):
            with pytest.raises(ReservedChannel):
                await call()
        with pytest.raises(ReservedChannel):
            left.unreliable_send("tolliver", "", b"")
        with pytest.raises(ReservedChannel):
            left.register_callback("tolliver", "", print)
        with pytest.raises(ReservedChannel):
            left.messages("tolliver")


# Handlers.


async def test_callbacks_plain_and_async(nodes: Nodes) -> None:
    async with nodes.pair(channels=()) as (left, right, _):
        seen: list[bytes] = []

        def plain(delivery: Delivery) -> None:
            seen.append(b"plain " + delivery.body)

        async def slow(delivery: Delivery) -> bool:
            await anyio.lowlevel.checkpoint()
            seen.append(b"async " + delivery.body)
            return True

        await right.subscribe("p", handler=plain)
        await right.subscribe("a", handler=slow)
        await until(lambda: len(left.peers()[0].subscriptions) == 2)
        for channel in "pa":
            await left.wait_acked(await left.send(channel, "k", b"1"))
        assert seen == [b"plain 1", b"async 1"]
        assert right.stats()["handled"] == 2


@pytest.mark.parametrize("how", ["raises", "returns False", "raises later"])
async def test_a_failed_message_comes_again_until_it_is_handled(nodes: Nodes, how: str) -> None:
    attempts: list[int] = []

    def handler(delivery: Delivery) -> object:
        attempts.append(delivery.attempt)
        if len(attempts) > 2:
            return None
        if how == "raises":
            raise RuntimeError("not now")
        return fails_later() if how == "raises later" else False

    async def fails_later() -> None:
        await anyio.lowlevel.checkpoint()
        raise RuntimeError("not now")

    async with nodes.pair(channels=(), left=AGAIN) as (left, right, _):
        await right.subscribe("news", handler=handler)
        await until(lambda: left.peers()[0].subscriptions)
        await left.wait_acked(await left.send("news", "", b"x"))
        assert attempts == [1, 2, 3]
        assert len(noticed(right, NoticeKind.HANDLER_FAILED)) == 2


async def test_all_matching_handlers_must_handle_it_well(nodes: Nodes) -> None:
    """T-45, T-57: each gets every copy, and one that fails is enough to have it sent again."""
    async with nodes.pair(["news"], left=AGAIN) as (left, right, inbox):
        verdicts = [False, True]
        right.register_callback("", "", lambda _delivery: verdicts.pop(0))
        await left.wait_acked(await left.send("news", "k", b"x"))
        assert inbox.bodies == [b"x", b"x"]
        assert verdicts == []


async def test_a_late_handler_gets_what_was_withheld(nodes: Nodes) -> None:
    async with nodes.pair(channels=(), left=AGAIN) as (left, right, inbox):
        await right.subscribe("news")
        await until(lambda: left.peers()[0].subscriptions)
        receipt = await left.send("news", "", b"x")
        await until(lambda: right.stats().get("withheld"))
        right.register_callback("news", "", inbox)  # T-46
        await left.wait_acked(receipt)
        assert inbox.bodies == [b"x"]


async def test_callbacks_do_not_subscribe_and_subscriptions_do_not_call(nodes: Nodes) -> None:
    async with nodes.pair(channels=()) as (left, right, inbox):
        await right.register_callback("news", "", inbox)
        assert (await left.send("news", "", b"1")).recipients == 0
        await right.subscribe("", "k")
        await until(lambda: left.peers()[0].subscriptions)
        await left.wait_acked(await left.send("news", "k", b"2"))
        assert inbox.bodies == [b"2"]


async def test_a_closed_registration_is_called_no_more(nodes: Nodes) -> None:
    async with nodes.pair(channels=(), left=AGAIN) as (left, right, inbox):
        started = anyio.Event()

        async def hangs(_delivery: Delivery) -> None:
            started.set()
            await anyio.sleep_forever()

        await right.subscribe("news")
        registration = right.register_callback("news", "", hangs)
        await until(lambda: left.peers()[0].subscriptions)
        receipt = await left.send("news", "", b"x")
        await started.wait()
        registration.close()
        registration.close()
        right.register_callback("news", "", inbox)
        await left.wait_acked(receipt)
        assert [delivery.attempt for delivery in inbox.deliveries] == [2]


# Iterators.


async def test_an_iterator_hands_out_messages_to_settle(nodes: Nodes) -> None:
    async with nodes.pair(channels=(), left=AGAIN) as (left, right, _), right.messages("news") as messages:
        await until(lambda: left.peers()[0].subscriptions)
        receipt = await left.send("news", "k", b"x")
        message = await anext(messages)
        assert (message.channel, message.key, message.body, message.attempt) == ("news", "k", b"x", 1)
        assert message.peer_id == left.instance_id
        assert message.reliable
        assert message.message_id
        message.fail()
        message.ack()  # the first word counts
        message = await anext(messages)
        assert message.attempt == 2
        message.ack()
        message.ack()
        await left.wait_acked(receipt)
        messages.close()
        with pytest.raises(StopAsyncIteration):
            await anext(messages)


async def test_leaving_an_iterator_fails_what_it_holds(nodes: Nodes) -> None:
    async with nodes.pair(channels=(), left=AGAIN) as (left, right, inbox):
        await right.subscribe("news")
        await until(lambda: left.peers()[0].subscriptions)
        receipt = await left.send_many([("news", "", b"%d" % number) for number in range(5)])
        async for message in right.messages("news", subscribe=False):
            message.ack()
            if message.body == b"1":
                break
        right.register_callback("news", "", inbox)
        await left.wait_acked(receipt)
        assert set(inbox.bodies) == {b"2", b"3", b"4"}
        assert right.node.stats()["handled"] == 5


async def test_runs_are_settled_at_once(nodes: Nodes) -> None:
    async with nodes.pair(channels=(), left=AGAIN) as (left, right, _):
        await right.subscribe("news")
        await until(lambda: left.peers()[0].subscriptions)
        receipt = await left.send_many([("news", "", b"%d" % number) for number in range(100)])
        runs = right.message_runs("news")
        bodies: list[bytes] = []
        failed = False
        async for run in runs:
            if not failed:
                failed = True
                run.fail()
                continue
            bodies += [delivery.body for delivery in run]
            run.ack()
            if len(set(bodies)) == 100:
                break
        await left.wait_acked(receipt)
        assert sorted(bodies) == sorted(b"%d" % number for number in range(100))


async def test_an_iterator_and_a_callback_both_get_it(nodes: Nodes) -> None:
    async with nodes.pair(["news"]) as (left, right, inbox), right.messages("news", "k") as messages:
        receipt = await left.send("news", "k", b"x")
        message = await anext(messages)
        with pytest.raises(TimeoutError):
            await left.wait_acked(receipt, timeout=0.05)
        message.ack()
        await left.wait_acked(receipt)
        assert inbox.bodies == [b"x"]


# Sending.


async def test_nobody_subscribed_means_nothing_kept(nodes: Nodes) -> None:
    async with nodes.pair() as (left, _right, _inbox):
        receipt = await left.send("nobody", "", b"x")
        assert receipt.recipients == 0
        await left.wait_acked(receipt)
        assert left.stats()["pending"] == 0


async def test_send_many_counts_each_one(nodes: Nodes) -> None:
    async with nodes.pair() as (left, _right, inbox):
        receipt = await left.send_many([("news", "", b"1"), ("nobody", "", b"2"), ("news", "k", b"3")])
        assert list(receipt.counts) == [1, 0, 1]
        assert receipt.recipients == 2
        await left.wait_acked(receipt)
        assert inbox.bodies == [b"1", b"3"]


async def test_send_many_stores_all_or_none(nodes: Nodes) -> None:
    limits = Limits(outbox_messages=10)
    async with nodes.pair(left={"limits": limits}) as (left, _right, inbox):
        with pytest.raises(OutboxFull):
            await left.send_many([("news", "", b"1")] * 11)
        with pytest.raises(LocalProtocolError):
            await left.send_many([("news", "", b"2"), ("news", "", "no bytes")])  # type: ignore[list-item]  # on purpose
        await left.wait_acked(await left.send("news", "", b"3"))
        assert inbox.bodies == [b"3"]


async def test_a_thousand_messages_come_in_order(nodes: Nodes) -> None:
    async with nodes.pair() as (left, _right, inbox):
        bodies = [b"%d" % number for number in range(1000)]
        receipts = []
        for start in range(0, 1000, 100):
            receipts.append(await left.send_many([("news", "", body) for body in bodies[start : start + 100]]))
        for receipt in receipts:
            await left.wait_acked(receipt)
        assert inbox.bodies == bodies


async def test_the_largest_body_passes_and_a_larger_one_is_refused(nodes: Nodes) -> None:
    body = random.Random(1).randbytes(16 * 2**20)
    async with nodes.pair() as (left, _right, inbox):
        with pytest.raises(OwnLimitExceeded, match="max_body"):
            await left.send("news", "", body + b"!")
        await left.wait_acked(await left.send("news", "", body))
        await left.wait_acked(await left.send("news", "", b"and on"))
        assert inbox.bodies == [body, b"and on"]


async def test_unreliable_messages_go_to_who_is_there(nodes: Nodes) -> None:
    async with nodes.pair() as (left, right, inbox):
        assert left.unreliable_send("news", "", b"1") == 1
        assert await left.unreliable_send("news", "", b"2") == 1
        assert left.unreliable_send("nobody", "", b"3") == 0
        await inbox.holds(2)
        assert inbox.bodies == [b"1", b"2"]
        assert not inbox.deliveries[0].reliable
        await left.remove_connection(address(right))
        await until(lambda: connected(left) == 0)
        assert left.unreliable_send("news", "", b"4") == 0
        assert left.stats()["pending"] == 0


async def test_what_was_sent_to_an_absent_peer_waits_for_it(nodes: Nodes) -> None:
    """Also over a restart of either side (T-31, T-32)."""
    async with nodes.pair():
        pass
    async with nodes.open("left") as left:
        assert (await left.send("news", "", b"1")).recipients == 1
        assert left.stats()["pending"] == 1
    inbox = Inbox()
    async with nodes.open("left") as left:
        await left.send("news", "", b"2")
        async with nodes.open("right", remotes=[address(left)]) as right:
            right.register_callback("news", "", inbox)
            await inbox.holds(2)
            await until(lambda: left.stats()["pending"] == 0)
    assert inbox.bodies == [b"1", b"2"]


async def test_messages_in_both_directions_at_once(nodes: Nodes) -> None:
    """Two peers that both send more than the sockets hold: neither may wait for the other."""
    body = bytes(2**20)
    async with nodes.pair() as (left, right, at_right):
        at_left = Inbox()
        await left.subscribe("back", handler=at_left)
        await until(lambda: right.peers()[0].subscriptions)
        there = await left.send_many([("news", "", body)] * 12)
        back = await right.send_many([("back", "", body)] * 12)
        await left.wait_acked(there)
        await right.wait_acked(back)
        assert len(at_left.bodies) == len(at_right.bodies) == 12
