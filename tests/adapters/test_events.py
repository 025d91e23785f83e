"""Events: what happens to an instance is told to any number of listeners, on every adapter."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tolliver._driver.events import KEPT, EventFeed, EventsMissed

from tolliver_proto import Notice, NoticeKind, PeerDown, PeerUp
from tolliver_proto.node import SubscriptionsChanged

from .facade import Items, until
from .kinds import ONE_KIND
from .nodes import Nodes, address


def following(events: Items, kind: type) -> Any:
    """The next event of that kind."""
    while not isinstance(event := events.start_next().wait(), kind):
        pass
    return event


def test_a_peer_and_what_it_wants_are_told_and_so_is_its_end(nodes: Nodes) -> None:
    with nodes.open("left") as left, left.events() as events:
        with nodes.open("right") as right:
            right.new_connection(address(left))
            assert following(events, PeerUp).peer == right.instance_id
            right.subscribe("news", "today")
            told = following(events, SubscriptionsChanged)
            assert (told.peer, told.subscriptions) == (right.instance_id, {("news", "today")})
        down = following(events, PeerDown)
        assert (down.peer, down.error) == (right.instance_id, None)


def test_each_listener_has_all_and_an_iterator_ends_with_its_instance(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        one, other, gone = left.events(), left.events(), left.events()
        assert "closed" not in repr(one)
        gone.close()
        with nodes.open("right", remotes=[address(left)]):
            assert following(one, PeerUp) == following(other, PeerUp)
        with pytest.raises(StopIteration):
            next(gone)
        following(one, PeerDown)
        waiting = one.start_next()
    assert isinstance(waiting.outcome(), StopAsyncIteration)
    following(other, PeerDown)
    assert isinstance(other.start_next().outcome(), StopAsyncIteration)
    assert "closed" in repr(one)


def test_a_function_is_called_for_each_and_may_fail(nodes: Nodes, caplog: pytest.LogCaptureFixture) -> None:
    told: list[Any] = []

    def on_event(event: Any) -> Any:
        told.append(event)
        if len(told) == 1:
            raise ValueError("not this one")
        return nodes.world.later(nodes.gate().open())

    with (
        caplog.at_level(logging.ERROR, "tolliver"),
        nodes.open("left", on_event=on_event) as left,
        nodes.open("right", remotes=[address(left)], subscriptions=["news"]),
    ):
        until(lambda: len(told) == 2)
    assert [type(event) for event in told[:2]] == [SubscriptionsChanged, PeerUp]
    [record] = [record for record in caplog.records if "on_event" in record.message]
    assert record.exc_info is not None


def test_a_notice_is_an_event(nodes: Nodes) -> None:
    def fails(_delivery: Any) -> None:
        raise ValueError("no")

    with nodes.pair() as (left, right, _):
        right.register_callback("news", "", fails)
        with right.events() as events:
            left.wait_subscribed("news")
            left.send("news", "", b"x")
            assert following(events, Notice).kind is NoticeKind.HANDLER_FAILED


def test_who_waits_for_subscribers_goes_on_when_they_are_there(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        waiting = left.start("wait_subscribed", "news", "today", peers=1)
        with pytest.raises(TimeoutError):
            left.wait_subscribed("news", peers=2, timeout=0.01)
        with nodes.open("right", remotes=[address(left)], subscriptions=["news"]) as right:
            assert waiting.wait() == 1
            assert left.wait_subscribed("news", peers=0) == 1
            right.unsubscribe("news")
            until(lambda: left.wait_subscribed("news", peers=0) == 0)
        with nodes.open("right", remotes=[address(left)], subscriptions=["news"]):
            assert left.wait_subscribed("news") == 1
        assert left.wait_subscribed("news") == 1  # it is away, and would get it


@ONE_KIND
def test_who_waits_for_subscribers_is_told_that_the_instance_closes(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        waiting = left.start("wait_subscribed", "news")
    assert "closed" in str(waiting.outcome())


class Silent:
    def set(self) -> None:
        pass


def test_a_slow_listener_keeps_the_newest_and_is_told_how_many_it_missed() -> None:
    feed: EventFeed[int] = EventFeed()
    queue = feed.listen(Silent())
    for number in range(KEPT + 2):
        feed.tell(number)
    assert queue.take() == EventsMissed(2)
    assert queue.take() == 2
    feed.tell(KEPT + 2)
    assert [queue.take() for _ in range(KEPT + 1)] == [*range(3, KEPT + 3), None]


def test_a_listener_that_nobody_holds_is_forgotten() -> None:
    feed: EventFeed[int] = EventFeed()
    feed.listen(Silent())
    feed.tell(1)
    assert not [*feed._queues]
