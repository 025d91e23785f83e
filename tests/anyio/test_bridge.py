"""Bridge on anyio: from reliable messages to a stream under demand.

`left` sends to `right`, `right` is the source of a stream, and the test looks at what `left` still keeps: a message is
acknowledged when the subscriber is through with it, not before, and sent again if it never is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import quote

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tolliver._streams.bridge import AwaitedSource, wanted_by
from tolliver.anyio import Instance, Streams, StreamsOptions, Subscription, bridge, create_streams

from tests.anyio.nodes import Nodes, address, until
from tolliver_proto import Policy, Receipt
from tolliver_proto.reactive import UNBOUNDED, StreamError

NEWS = "tolliver://news"
AGAIN = {"retry_interval": 0.05}  # seconds


class Bridged(NamedTuple):
    """`left` sends to `right`; `taker` subscribes to what `giver` publishes of it."""

    left: Instance
    right: Instance
    giver: Streams
    taker: Streams
    sources: list[AwaitedSource]

    async def send(self, count: int) -> Receipt:
        return await self.left.send_many([("news", "", b"%d" % number) for number in range(count)])

    @property
    def kept(self) -> int:
        """Messages that `left` keeps."""
        return self.left.stats()["pending"]


@asynccontextmanager
async def bridged(
    nodes: Nodes, *, left: Any = None, right: Any = None, subscribe: bool = False
) -> AsyncIterator[Bridged]:
    """`left` and `right` are options of these."""
    async with (
        nodes.open("right", **(right or {})) as receiver,
        nodes.open("left", **(left or {})) as sender,
        create_streams(StreamsOptions(listen="127.0.0.1:0", plaintext=True)) as giver,
        create_streams(StreamsOptions(plaintext=True)) as taker,
    ):
        sources: list[AwaitedSource] = []
        await receiver.subscribe("news")
        await sender.new_connection(address(receiver))
        giver.publish("tolliver://*", _remembered(bridge(receiver, subscribe=subscribe), sources))
        giver.publish("*", bridge(receiver))
        await taker.connect(f"127.0.0.1:{giver.port}")
        yield Bridged(sender, receiver, giver, taker, sources)


def _remembered(make: Callable[[str], Any], sources: list[Any]) -> Callable[[str], Any]:
    def source(name: str) -> Any:
        sources.append(make(name))
        return sources[-1]

    return source


@asynccontextmanager
async def begun(streams: Streams, **options: Any) -> AsyncIterator[Subscription[Any]]:
    """A stream for which messages are held from now on: they need not be sent twice."""
    async with streams.subscribe(NEWS, **options) as stream:
        await until(lambda: stream.element_size == 0)
        yield stream


async def take(stream: Subscription[Any], count: int) -> list[int]:
    return [int(await anext(stream)) for _ in range(count)]


# Elements and acknowledgements.


@pytest.mark.anyio
@pytest.mark.parametrize("prefetch", [1, 7, 256])
async def test_each_message_comes_once_and_in_order(nodes: Nodes, prefetch: int) -> None:
    async with bridged(nodes) as all_of_it, begun(all_of_it.taker, prefetch=prefetch) as stream:
        await all_of_it.send(500)
        assert await take(stream, 500) == list(range(500))


@pytest.mark.anyio
async def test_the_sender_hears_when_the_subscriber_is_through(nodes: Nodes) -> None:
    async with bridged(nodes) as all_of_it, begun(all_of_it.taker, prefetch=1) as stream:
        receipt = await all_of_it.send(3)
        await take(stream, 3)
        with pytest.raises(TimeoutError):
            await all_of_it.left.wait_acked(receipt, timeout=0.05)
        async with anyio.create_task_group() as asking:
            asking.start_soon(anext, stream)
            await all_of_it.left.wait_acked(receipt)
            asking.cancel_scope.cancel()


@pytest.mark.anyio
@pytest.mark.parametrize(("demand", "early"), [(None, 0), (2, 2)], ids=["window", "less"])
async def test_a_slow_subscriber_holds_acknowledgements_back(nodes: Nodes, demand: int | None, early: int) -> None:
    """Also where its first grant is less than its window; but then up to so many are acknowledged too early."""
    async with bridged(nodes) as all_of_it, begun(all_of_it.taker, demand=demand, prefetch=8) as stream:
        await all_of_it.send(100)
        await take(stream, 1)
        (source,) = all_of_it.sources
        await until(lambda: len(source._held) >= 8 - early)
        await anyio.sleep(0.05)
        assert all_of_it.kept >= 100 - early
        assert len(source._held) <= 8
        await take(stream, 60)
        await until(lambda: all_of_it.kept <= 48)
        await anyio.sleep(0.05)
        assert all_of_it.kept >= 100 - 60 - early
        assert len(source._held) <= 8


@pytest.mark.anyio
async def test_a_slow_subscriber_gets_no_copies_where_the_instance_dedupes(nodes: Nodes) -> None:
    """The sender does not know that they are on their way, and sends them again."""
    async with (
        bridged(nodes, left=AGAIN, right={"policy": Policy(dedupe=1000)}) as all_of_it,
        begun(all_of_it.taker, prefetch=1) as stream,
    ):
        await all_of_it.send(20)
        taken = await take(stream, 5)
        received = all_of_it.right.stats()["received_bytes"]
        await until(lambda: all_of_it.right.stats()["received_bytes"] > received)
        taken += await take(stream, 15)
        assert taken == list(range(20))
        with anyio.move_on_after(0.1):
            taken += await take(stream, 1)
        assert len(taken) == 20


@pytest.mark.anyio
async def test_what_was_not_taken_comes_again_to_the_next_subscriber(nodes: Nodes) -> None:
    async with bridged(nodes, left=AGAIN) as all_of_it:
        async with begun(all_of_it.taker, prefetch=1) as stream:
            receipt = await all_of_it.send(20)
            assert await take(stream, 5) == [0, 1, 2, 3, 4]
            # With its request for the fifth it was through with the fourth.
            await until(lambda: all_of_it.kept == 16)
        left = set(range(4, 20))
        async with begun(all_of_it.taker, prefetch=1) as stream:
            while left:
                left.difference_update(await take(stream, 1))
            async with anyio.create_task_group() as asking:
                asking.start_soon(anext, stream)
                await all_of_it.left.wait_acked(receipt)
                asking.cancel_scope.cancel()


@pytest.mark.anyio
async def test_a_subscriber_that_is_lost_loses_nothing(nodes: Nodes) -> None:
    async with bridged(nodes, left=AGAIN) as all_of_it:
        async with create_streams(StreamsOptions(plaintext=True)) as other:
            await other.connect(f"127.0.0.1:{all_of_it.giver.port}")
            async with begun(other) as stream:
                await all_of_it.send(10)
                await take(stream, 1)
        assert all_of_it.kept == 10
        left = set(range(10))
        async with begun(all_of_it.taker) as stream:
            while left:
                left.difference_update(await take(stream, 1))


@pytest.mark.anyio
async def test_with_demand_without_bound_what_was_passed_on_counts(nodes: Nodes) -> None:
    async with bridged(nodes) as all_of_it, begun(all_of_it.taker, demand=UNBOUNDED, prefetch=0):
        await all_of_it.left.wait_acked(await all_of_it.send(300))


@pytest.mark.anyio
async def test_two_subscribers_get_all_of_it_each_and_both_have_to_be_through(nodes: Nodes) -> None:
    async with (
        bridged(nodes) as all_of_it,
        all_of_it.taker.subscribe(NEWS, demand=UNBOUNDED, prefetch=0) as quick,
        all_of_it.taker.subscribe(NEWS, demand=0, prefetch=0) as slow,
    ):
        await until(lambda: len(all_of_it.sources) == 2)
        receipt = await all_of_it.send(10)
        assert [int(await anext(quick)) for _ in range(10)] == list(range(10))
        assert all_of_it.kept == 10
        slow.request(UNBOUNDED)
        assert [int(await anext(slow)) for _ in range(10)] == list(range(10))
        await all_of_it.left.wait_acked(receipt)


@pytest.mark.anyio
async def test_the_end_of_the_instance_is_no_completion(nodes: Nodes) -> None:
    async with (
        create_streams(StreamsOptions(listen="127.0.0.1:0", plaintext=True)) as giver,
        create_streams(StreamsOptions(plaintext=True)) as taker,
    ):
        async with nodes.open("right") as right:
            await right.subscribe("news")
            giver.publish("tolliver://*", bridge(right))
            await taker.connect(f"127.0.0.1:{giver.port}")
            stream = taker.subscribe(NEWS)
            await until(lambda: stream.element_size == 0)
        with pytest.raises(StreamError, match="the instance behind this stream was closed: subscribe again"):
            await anext(stream)


# Names.


@given(st.text(), st.text())
def test_every_name_can_be_written(channel: str, key: str) -> None:
    assert wanted_by(f"tolliver://{quote(channel, safe='')}/{quote(key, safe='')}") == (channel, key)
    assert wanted_by(f"tolliver://{quote(channel, safe='')}/{quote(key)}") == (channel, key)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("tolliver://news", ("news", "")),
        ("tolliver://news/", ("news", "")),
        ("tolliver://a%2Fb/c%20d", ("a/b", "c d")),
        ("tolliver://a/b/c", ("a", "b/c")),
        ("tolliver:///", ("", "")),
        ("tolliver:///key", ("", "key")),
    ],
)
def test_what_a_name_stands_for(name: str, wanted: tuple[str, str]) -> None:
    assert wanted_by(name) == wanted


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tolliver://", "ValueError: 'tolliver://' names no channel: write \"tolliver://channel/key\""),
        ("news/a", "'news/a' names no channel"),
        ("tolliver://ne%ws", 'a "%" without two hexadecimal digits behind it'),
        ("tolliver://news/%ff", "is no UTF-8 behind its percent signs"),
        ("tolliver://other", "LookupError: the instance behind 'tolliver://other' is not subscribed to any of that"),
    ],
)
async def test_a_name_that_cannot_be_had_is_refused_with_text(nodes: Nodes, name: str, text: str) -> None:
    async with bridged(nodes) as all_of_it:
        with pytest.raises(StreamError) as refused:
            await anext(all_of_it.taker.subscribe(name))
        assert text in str(refused.value)
        assert all_of_it.right.stats()["own_subscriptions"] == 1


@pytest.mark.anyio
async def test_a_stream_may_subscribe_the_instance(nodes: Nodes) -> None:
    async with (
        bridged(nodes, subscribe=True) as all_of_it,
        all_of_it.taker.subscribe("tolliver://weather/berlin", prefetch=1) as stream,
    ):
        await until(lambda: any(len(peer.subscriptions) == 2 for peer in all_of_it.left.peers()))
        await all_of_it.left.send("weather", "potsdam", b"another key")
        await all_of_it.left.send("weather", "berlin", b"21")
        assert await anext(stream) == b"21"
