"""Bridge on every adapter: from reliable messages to a stream.

The test looks at what the sender still keeps: a message is acknowledged when the subscriber is through with it, and
sent again where it never is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from tolliver.anyio import bridge as async_bridge
from tolliver.blocking import bridge as thread_bridge

from tolliver_proto.reactive import StreamError

from .facade import Facade, until
from .nodes import AGAIN, Nodes, address
from .streams import PeerFacade, Stage, Taken

NEWS = "tolliver://news"


class Bridged(NamedTuple):
    """A sender, and the peer that publishes what another instance receives of it."""

    sender: Facade
    peer: PeerFacade

    def send(self, count: int) -> Any:
        return self.sender.send_many([("news", "", b"%d" % number) for number in range(count)])

    def subscribe(self, **options: Any) -> Taken:
        """A stream that has begun: what is sent from now on is for it, and need not be sent twice."""
        stream = self.peer.subscribe(NEWS, **options)
        until(lambda: stream.element_size == 0, "the stream has begun")
        return stream

    def until_kept(self, count: int) -> None:
        until(lambda: self.sender.stats()["pending"] == count, f"the sender keeps {count}")


@pytest.fixture
def again() -> dict[str, Any]:
    """The sender's options."""
    return {}


@pytest.fixture
def bridged(nodes: Nodes, stage: Stage, again: dict[str, Any]) -> Iterator[Bridged]:
    with nodes.open("receiver") as receiver, nodes.open("sender", **again) as sender:
        receiver.subscribe("news")
        sender.new_connection(address(receiver))
        publisher, _, peer = stage.pair()
        bridge = thread_bridge if receiver.world.kind == "blocking" else async_bridge
        publisher.publish("tolliver://*", bridge(receiver._instance))
        yield Bridged(sender, peer)


def numbers(elements: list[bytes]) -> list[int]:
    return [int(element) for element in elements]


def test_each_message_comes_once_in_order_and_is_acknowledged_as_it_is_taken(bridged: Bridged) -> None:
    stream = bridged.subscribe(prefetch=1)
    receipt = bridged.send(100)
    assert numbers(stream.take(100)) == list(range(100))
    bridged.until_kept(1)
    asking = stream.start_next()
    bridged.sender.wait_acked(receipt)
    stream.cancel()
    assert isinstance(asking.outcome(), StopIteration | StopAsyncIteration)


def test_a_slow_subscriber_holds_acknowledgements_back(bridged: Bridged) -> None:
    stream = bridged.subscribe(prefetch=8)
    bridged.send(100)
    stream.take(1)
    assert bridged.sender.stats()["pending"] == 100
    stream.take(60)
    until(lambda: bridged.sender.stats()["pending"] <= 48, "acknowledgements")
    assert bridged.sender.stats()["pending"] >= 100 - 60


@pytest.mark.parametrize("again", [AGAIN], ids=["soon"])
def test_what_was_not_taken_comes_again_to_the_next_subscriber(bridged: Bridged) -> None:
    """Also to one that comes when there is nothing else to send."""
    with_first = bridged.subscribe(prefetch=1)
    receipt = bridged.send(20)
    assert numbers(with_first.take(5)) == [0, 1, 2, 3, 4]
    bridged.until_kept(16)
    with_first.cancel()
    left = set(range(4, 20))
    for kept in (1, 0):
        stream = bridged.subscribe(prefetch=1)
        while left:
            (last,) = numbers(stream.take(1))
            left.discard(last)
        bridged.until_kept(1)
        if kept:
            stream.cancel()
            left = {last}
    asking = stream.start_next()
    bridged.sender.wait_acked(receipt)
    stream.cancel()
    asking.outcome()


@pytest.mark.parametrize("again", [AGAIN], ids=["soon"])
@pytest.mark.parametrize("prefetch", [10, 256])
def test_a_subscriber_that_comes_and_goes_gets_on(bridged: Bridged, prefetch: int) -> None:
    """It takes less than half of its window each time, and would have the same elements for ever."""
    bridged.send(20)
    for rounds in range(1, 4):
        stream = bridged.subscribe(prefetch=prefetch)
        stream.take(5)
        until(lambda rounds=rounds: bridged.sender.stats()["pending"] <= 20 - 3 * rounds, "acknowledgements")  # type: ignore[misc]  # bound now
        stream.cancel()


def test_a_name_that_cannot_be_had_is_refused_with_text(bridged: Bridged) -> None:
    for name, text in (
        ("tolliver://", "ValueError: 'tolliver://' names no channel"),
        ("tolliver://other/key", "LookupError: the instance behind 'tolliver://other/key' is not subscribed"),
    ):
        with pytest.raises(StreamError, match=text):
            bridged.peer.subscribe(name).take(1)
