"""Complaints of users of other libraries that this one answers; the pages `docs/from-*.md` link to them."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from tests.adapters.relay import Relay
from tests.anyio.nodes import Nodes, until
from tests.ports import free_address
from tolliver_proto import Limits

pytestmark = pytest.mark.anyio
QUICK = {"limits": Limits(redial_first=0.005)}
MESSAGES = [b"%d" % number for number in range(20)]


async def test_defaults_lose_nothing_while_the_receiver_is_away(nodes: Nodes) -> None:
    """No option is set, and neither end is told that the other was away."""
    remote = free_address()
    async with nodes.open("left", **QUICK) as left:
        async with nodes.open("right", listen=remote) as right:
            await right.subscribe("news")
            await left.new_connection(remote)
            await left.wait_subscribed("news")
        await until(lambda: not left.stats().peers_up)
        for body in MESSAGES:
            assert (await left.send("news", "", body)).recipients == 1
    seen: list[bytes] = []
    async with (
        nodes.open("right", listen=remote, handlers=[("news", "", lambda delivery: seen.append(delivery.body))]),
        nodes.open("left", remotes=[remote], **QUICK),
    ):
        await until(lambda: len(seen) == len(MESSAGES))
    assert seen == MESSAGES


async def test_a_subscriber_is_alive_after_a_reconnect(nodes: Nodes) -> None:
    """Its subscriptions and handlers are there again, and it has called nothing for it."""
    seen: list[bytes] = []
    async with nodes.open("right") as right, nodes.open("left", **QUICK) as left:
        await right.subscribe("news", handler=lambda delivery: seen.append(delivery.body))
        with Relay(right.port or 0) as relay:
            await left.new_connection(relay.address)
            for body in MESSAGES[:5]:
                dials = relay.dials
                relay.cut()
                await until(lambda dials=dials: relay.dials > dials)  # type: ignore[misc]  # bound now, not later
                await left.wait_acked(await left.send("news", "", body))
            left.remove_connection(relay.address)
    assert sorted({*seen}) == MESSAGES[:5]


async def test_a_cancelled_receive_loses_nothing(nodes: Nodes) -> None:
    """Each wait for a message is cancelled after a while, as `wait_for` and timeouts do, also as a message comes."""
    seen: list[bytes] = []
    async with (
        nodes.pair() as (left, right),
        right.messages("news", subscribe=False) as news,
        anyio.create_task_group() as tasks,
    ):

        async def send() -> None:
            for body in MESSAGES:
                await left.send("news", "", body)

        tasks.start_soon(send)
        for turn in range(10_000):
            with anyio.CancelScope() as scope:
                if turn % 2:
                    scope.cancel()
                else:
                    scope.deadline = anyio.current_time() + 0.001 * (turn % 7)
                message = await anext(news)
                seen.append(message.body)
                message.ack()
            await anyio.lowlevel.checkpoint()
            if len(seen) == len(MESSAGES):
                break
    assert seen == MESSAGES
