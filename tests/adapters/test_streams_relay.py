"""Relay of a stream, which obeys both columns of the rules.

Two streams of one kind, joined by a source that is a subscription, stand between two peers by hand. The one upstream
and the one downstream each have a monitor, so each test judges the relay as a subscriber and as a publisher.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import pytest

from tolliver_proto.reactive import UNBOUNDED, Cancel, OnComplete, OnError, OnNext, Request, Subscribe, Subscribed

from .facade import until
from .rules import Case, Rules, play
from .scripted import Scripted
from .streams import Stage, StreamsFacade

RULES = rule = Rules()


def relay(stage: Stage, **options: Any) -> tuple[StreamsFacade, Scripted, Scripted]:
    """Takes "in" upstream, and gives it downstream as "out", in capitals."""
    taking, upstream = stage.taking()
    (peer,) = taking.peers()
    giving, downstream = stage.giving()
    giving.publish("out", taking.mapped(peer, "in", bytes.upper, **options))
    return taking, upstream, downstream


@rule("4.1")
def demand_goes_up_and_elements_go_down(stage: Stage) -> None:
    taking, upstream, downstream = relay(stage, prefetch=4)
    given = downstream.subscribe("out", 0)
    downstream.hear(partial(downstream.heard, given))
    downstream.sync()
    assert downstream.heard(given) == [Subscribed(given)]
    downstream.request(given, 2)
    taken = upstream.hear_subscribe()
    assert upstream.all(Subscribe) == [Subscribe("in", taken, 4)]
    upstream.subscribed(taken)
    upstream.next_many(taken, [b"a", b"b", b"c"])
    assert downstream.hear_elements(given, 2) == [b"A", b"B"]
    downstream.sync()
    assert downstream.elements(given) == [b"A", b"B"]
    downstream.request(given, 10)
    upstream.hear(partial(upstream.has_requested, taken, 2))
    upstream.next_many(taken, [b"d", b"e"])
    upstream.complete(taken)
    assert downstream.hear_end(given) == OnComplete(given)
    assert downstream.elements(given) == [b"A", b"B", b"C", b"D", b"E"]
    until(lambda: not taking.stats()["streams_taken"], "the end of what is taken")
    upstream.sync()
    assert upstream.all(Cancel) == []


@rule("4.1", "required_mustRequestFromUpstreamForElementsThatHaveBeenRequestedLongAgo")
def asks_for_what_was_requested_long_ago(stage: Stage) -> None:
    """All was wanted at once, and the relay asks upstream for it piece by piece, without another word from downstream;
    another subscriber wants little, and does not change that."""
    _, upstream, downstream = relay(stage, prefetch=4)
    little, much = downstream.subscribe("out", 1), downstream.subscribe("out", 100)
    upstream.hear_subscribe(2)
    streams = [frame.subscriber_id for frame in upstream.all(Subscribe)]
    for taken in streams:
        upstream.subscribed(taken)
        upstream.next_many(taken, [b"x"] * 4)
    assert downstream.hear_elements(little, 1)
    assert len(downstream.hear_elements(much, 4)) == 4
    upstream.hear(lambda: any(map(upstream.requested, streams)))
    (asking,) = filter(upstream.requested, streams)
    given = 0
    while given < 96:
        upstream.hear(partial(upstream.has_requested, asking, given + 1))
        fresh = min(96 - given, upstream.requested(asking) - given)
        upstream.next_many(asking, [b"y"] * fresh)
        given += fresh
    assert len(downstream.hear_elements(much, 100)) == 100
    downstream.sync()
    assert len(downstream.elements(much)) == 100
    assert downstream.elements(little) == [b"X"]


@rule("4.1", "required_spec317_mustNotSignalOnErrorWhenPendingAboveLongMaxValue")
def demand_without_bound_stays_within_the_window(stage: Stage) -> None:
    _, upstream, downstream = relay(stage, prefetch=8)
    given = downstream.subscribe("out", UNBOUNDED)
    downstream.request(given, UNBOUNDED)
    taken = upstream.hear_subscribe()
    upstream.subscribed(taken)
    upstream.sync()
    assert upstream.all(Request) == []
    upstream.next_many(taken, [b"x"] * 8)
    assert len(downstream.hear_elements(given, 8)) == 8
    upstream.hear(partial(upstream.has_requested, taken, 4))
    upstream.sync()
    assert upstream.requested(taken) <= 8


@rule("4.1", "required_spec312_cancelMustMakeThePublisherToEventuallyStopSignaling")
def a_cancel_goes_up(stage: Stage) -> None:
    """Before the first element, between two, and while the relay waits for one: once each."""
    taking, upstream, downstream = relay(stage)
    for number, demand in enumerate((1, 2, 10), 1):
        given = downstream.subscribe("out", demand)
        taken = upstream.hear_subscribe(number)
        upstream.subscribed(taken)
        if number > 1:
            upstream.next_many(taken, [b"x"] * 2)
            downstream.hear_elements(given, 2)
        downstream.cancel(given)
        upstream.hear_cancel(taken)
    upstream.sync()
    assert len(upstream.all(Cancel)) == 3
    assert taking.stats()["streams_taken"] == 0


@rule("4.2", "mustImmediatelyPassOnOnErrorEventsReceivedFromItsUpstreamToItsDownstream")
def an_error_goes_down_at_once(stage: Stage) -> None:
    """After the elements that came before it."""
    taking, upstream, downstream = relay(stage)
    for number, elements in enumerate(([], [b"a", b"b"]), 1):
        given = downstream.subscribe("out", 10)
        taken = upstream.hear_subscribe(number)
        upstream.subscribed(taken)
        upstream.next_many(taken, elements)
        upstream.error(taken, "failed upstream")
        end = downstream.hear_end(given)
        assert "failed upstream" in end.message
        assert downstream.heard(given) == [
            Subscribed(given),
            *(OnNext(given, element.upper()) for element in elements),
            end,
        ]
    until(lambda: not taking.stats()["streams_taken"], "the end of what is taken")
    upstream.sync()
    assert upstream.all(Cancel) == []


@rule("4.2", "mustImmediatelyPassOnOnErrorEventsReceivedFromItsUpstreamToItsDownstream")
def an_end_needs_no_request(stage: Stage) -> None:
    """The source is the subscription itself: an error, a complete or a lost connection waits for no demand, but
    for the elements before it."""
    taking, upstream = stage.taking()
    (peer,) = taking.peers()
    giving, downstream = stage.giving()
    giving.publish("out", taking.passed_on(peer, "in"))
    for number, demand in enumerate((0, 2, 0, 1), 1):
        given = downstream.subscribe("out", demand)
        taken = upstream.hear_subscribe(number)
        upstream.subscribed(taken)
        upstream.next_many(taken, [b"x"] * (demand + number // 3))
        downstream.hear_elements(given, demand)
        if number < 4:
            upstream.error(taken, "failed") if number % 2 else upstream.complete(taken)
        else:
            upstream.shut()
        if number > 2:
            downstream.sync()
            assert downstream.ends(given) == []
            downstream.request(given, 1)
        end = downstream.hear_end(given)
        assert isinstance(end, OnComplete if number == 2 else OnError)
        assert len(downstream.elements(given)) == demand + number // 3


@rule("2.6", "untested_spec206_mustCallSubscriptionCancelIfItIsNoLongerValid")
@rule("4.1")
def a_cancel_ends_a_subscription_that_is_a_source(stage: Stage) -> None:
    """Given by a function, or itself and held by the program beside: dropping it is not what cancels it. While the
    relay waits for demand, for its first element, and for the next one."""
    taking, upstream = stage.taking()
    (peer,) = taking.peers()
    giving, downstream = stage.giving()
    giving.publish("by a function", taking.passed_on(peer, "in"))
    for number, (form, demand) in enumerate(product(("by a function", "itself"), (1, 10, 2)), 1):
        held = taking.subscribe("in", peer=peer) if form == "itself" else None
        publication = held and giving.publish(form, held.itself)
        given = downstream.subscribe(form, demand)
        downstream.hear(partial(downstream.heard, given))
        taken = upstream.hear_subscribe(number)
        upstream.subscribed(taken)
        if demand < 10:
            upstream.next_many(taken, [b"x"] * 2)
            downstream.hear_elements(given, demand)
        downstream.cancel(given)
        upstream.hear_cancel(taken)
        assert held is None or held.closed
        if publication:
            publication.close()
    upstream.sync()
    assert len(upstream.all(Cancel)) == 6
    assert taking.stats()["streams_taken"] == giving.stats()["streams_given"] == 0


@rule("4.1")
def a_subscription_is_cancelled_with_the_last_of_its_streams(stage: Stage) -> None:
    """One subscription that several are given shares its elements among them, as tasks and threads do."""
    taking, upstream = stage.taking()
    (peer,) = taking.peers()
    giving, downstream = stage.giving()
    held = taking.subscribe("in", peer=peer)
    giving.publish("shared", lambda _name: held.itself)
    taken = upstream.hear_subscribe()
    upstream.subscribed(taken)
    streams = [downstream.subscribe("shared", 10) for _ in range(2)]
    for stream in streams:
        downstream.hear(partial(downstream.heard, stream))
    downstream.cancel(streams[0])
    downstream.sync()
    upstream.next(taken, b"x")
    assert downstream.hear_elements(streams[1], 1) == [b"x"]
    upstream.sync()
    assert upstream.all(Cancel) == []
    downstream.cancel(streams[1])
    upstream.hear_cancel(taken)


@rule("4.2")
def all_streams_of_a_subscription_hear_its_end(stage: Stage) -> None:
    taking, upstream = stage.taking()
    (peer,) = taking.peers()
    giving, downstream = stage.giving()
    held = taking.subscribe("in", peer=peer)
    giving.publish("shared", lambda _name: held.itself)
    taken = upstream.hear_subscribe()
    upstream.subscribed(taken)
    streams = [downstream.subscribe("shared", demand) for demand in (0, 10, 0)]
    for stream in streams:
        downstream.hear(partial(downstream.heard, stream))
    upstream.complete(taken)
    for stream in streams:
        assert downstream.hear_end(stream) == OnComplete(stream)


@rule("4.2", "required_spec104_mustCallOnErrorOnAllItsSubscribersIfItEncountersANonRecoverableError")
def all_subscribers_hear_of_an_error(stage: Stage) -> None:
    """On two connections; and the end of the connection upstream is such an error."""
    taking, upstream, downstream = relay(stage)
    (giving,) = (streams for streams in stage.opened if streams is not taking)
    other = stage.dial(giving)
    given = [(script, script.subscribe("out", 10)) for script in (downstream, downstream, other)]
    upstream.hear_subscribe(3)
    for frame in upstream.all(Subscribe):
        upstream.subscribed(frame.subscriber_id)
        upstream.next(frame.subscriber_id, b"x")
    for script, stream in given:
        assert script.hear_elements(stream, 1) == [b"X"]
    upstream.shut()
    for script, stream in given:
        end = script.hear_end(stream)
        assert isinstance(end, OnError)
        assert "ConnectionLost" in end.message


@rule("4.2", "optional_spec104_mustSignalOnErrorWhenFails")
def what_the_relay_raises_goes_down_and_cancels_upstream(stage: Stage) -> None:
    taking, upstream = stage.taking()
    (peer,) = taking.peers()
    giving, downstream = stage.giving()
    giving.publish("out", taking.mapped(peer, "in", int))
    given = downstream.subscribe("out", 10)
    taken = upstream.hear_subscribe()
    upstream.subscribed(taken)
    upstream.next(taken, b"no number")
    assert "ValueError" in downstream.hear_end(given).message
    upstream.hear_cancel(taken)


@pytest.mark.parametrize(("kind", "form", "case"), RULES.params())
def test_rule(case: Case, stage: Stage, record_property: Callable[[str, object], None]) -> None:
    play(case, stage, record_property)
