"""Rules of Reactive Streams, as far as they concern an engine.

The names are those of the JVM's conformance kit. A rule is a small scenario over a `World` of a publisher and a
subscriber. It runs on the bare engine that it is about (the other side is a script) and on two engines whose bytes come
whole, one by one and cut by chance, whoever opened the connection; the wire monitor judges them all. `RULES` is the
table for reports: rule, name of the kit, test; what ran goes with each result as the property `tck`. The same on
adapters is in `tests/adapters`.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tolliver_proto import LocalProtocolError
from tolliver_proto.reactive import (
    UNBOUNDED,
    Cancel,
    Connection,
    OnComplete,
    OnError,
    OnNext,
    Request,
    Role,
    Subscribe,
    Subscribed,
)

from .drive import PAIRS, ROLES, Engine, Layer, World

Scenario = Callable[[World], None]
GIVES: tuple[Layer, ...] = ("bare publisher", *PAIRS)
TAKES: tuple[Layer, ...] = ("bare subscriber", *PAIRS)
BOTH: tuple[Layer, ...] = ("bare publisher", "bare subscriber", *PAIRS)


class Rule(NamedTuple):
    rule: str
    kit: str
    scenario: Scenario
    layers: tuple[Layer, ...]


RULES: list[Rule] = []


def rule(number: str, *kit: str, on: tuple[Layer, ...] = BOTH) -> Callable[[Scenario], Scenario]:
    def add(scenario: Scenario) -> Scenario:
        RULES.extend(Rule(number, name, scenario, on) for name in kit)
        return scenario

    return add


def numbered(count: int) -> list[bytes]:
    return [bytes([number]) for number in range(count)]


# 1: the publisher.


@rule(
    "1.1",
    "required_spec101_subscriptionRequestMustResultInTheCorrectNumberOfProducedElements",
    on=GIVES,
)
def no_more_than_requested(world: World) -> None:
    stream = world.open()
    for count in (1, 2, 3):
        with pytest.raises(LocalProtocolError):
            world.publisher.next(stream, b"early")
        world.subscriber.request(stream, count)
        world.run()
        assert world.publisher.demand(stream) == count
        world.publisher.next_many(stream, [b"x"] * count)
        world.run()
    assert len(world.elements(stream)) == 6


@rule("1.2", "required_spec102_maySignalLessThanRequestedAndTerminateSubscription")
def less_than_requested(world: World) -> None:
    stream = world.open(10)
    world.publisher.next_many(stream, numbered(3))
    world.publisher.complete(stream)
    world.run()
    assert world.elements(stream) == numbered(3)
    assert world.ends(stream) == [OnComplete(stream)]


@rule("1.3", "stochastic_spec103_mustSignalOnMethodsSequentially")
def one_after_the_other(world: World) -> None:
    """Frames of several streams never interleave; each stream is in order."""
    streams = [world.open(50, size=turn % 3) for turn in range(6)]
    for turn in range(50):
        for number, stream in enumerate(streams):
            world.publisher.next(stream, bytes([turn]) * (number % 3 or 5))
    for stream in streams:
        world.publisher.complete(stream)
    world.run()
    for stream in streams:
        assert [element[0] for element in world.elements(stream)] == [*range(50)]
        assert [type(event) for event in world.heard(stream)[:: len(world.heard(stream)) - 1]] == [
            Subscribed,
            OnComplete,
        ]


@rule("1.4", "optional_spec104_mustSignalOnErrorWhenFails")
def one_error(world: World) -> None:
    for good in range(3):
        stream = world.open(5)
        world.publisher.next_many(stream, numbered(good))
        world.publisher.error(stream, "failed")
        world.run()
        assert world.elements(stream)[-good or 5 :] == numbered(good)
        assert world.ends(stream)[-1] == OnError(stream, "failed")


@rule("1.4", "optional_spec104_mustSignalOnErrorWhenFails (element of the wrong size)", on=GIVES)
def one_error_for_a_wrong_size(world: World) -> None:
    stream = world.open(5, size=2)
    assert not world.publisher.next(stream, b"one")
    assert not world.publisher.next(stream, b"ok")
    assert not world.publisher.error(stream, "again")
    world.run()
    assert len(world.ends(stream)) == 1
    assert not world.elements(stream)


@rule(
    "1.5",
    "required_spec105_mustSignalOnCompleteWhenFiniteStreamTerminates",
    "required_createPublisher1MustProduceAStreamOfExactly1Element",
    "required_createPublisher3MustProduceAStreamOfExactly3Elements",
    "optional_spec105_emptyStreamMustTerminateBySignallingOnComplete",
)
def completes(world: World) -> None:
    for count in (0, 1, 3):
        stream = world.open(count)
        world.publisher.next_many(stream, numbered(count))
        world.publisher.complete(stream)
        world.run()
        assert world.heard(stream)[-count - 2 :] == [
            Subscribed(stream),
            *(OnNext(stream, element) for element in numbered(count)),
            OnComplete(stream),
        ]


@rule(
    "1.7",
    "required_spec107_mustNotEmitFurtherSignalsOnceOnCompleteHasBeenSignalled",
    "untested_spec107_mustNotEmitFurtherSignalsOnceOnErrorHasBeenSignalled",
    "untested_spec106_mustConsiderSubscriptionCancelledAfterOnErrorOrOnCompleteHasBeenCalled",
    on=GIVES,
)
def nothing_after_the_end(world: World) -> None:
    ends: list[Callable[[int], object]] = [world.publisher.complete, lambda number: world.publisher.error(number, "x")]
    for end in ends:
        stream = world.open(5)
        end(stream)
        world.subscriber.request(stream, 5)
        world.subscriber.cancel(stream)
        assert not world.publisher.next(stream, b"late")
        world.run()
        assert not world.publisher.complete(stream)
        assert not world.publisher.error(stream, "late")
        assert not world.publisher.demand(stream)
        world.run()
        assert not world.elements(stream)


@rule(
    "1.8",
    "required_spec312_cancelMustMakeThePublisherToEventuallyStopSignaling",
    "untested_spec108_possiblyCanceledSubscriptionShouldNotReceiveOnErrorOrOnCompleteSignals",
    on=GIVES,
)
def nothing_after_a_cancel(world: World) -> None:
    """At every step of a stream; the monitor sees that not one frame follows."""
    for sent in range(4):
        stream = world.open(3)
        world.publisher.next_many(stream, numbered(sent))
        world.subscriber.cancel(stream)
        world.run()
        assert world.asked[-1] == Cancel(stream)
        assert world.publisher.next_many(stream, numbered(3 - sent)) == 0
        assert not world.publisher.complete(stream)
        world.run()
        assert not world.ends(stream)


@rule(
    "1.9",
    "required_spec109_mustIssueOnSubscribeForNonNullSubscriber",
    "required_spec109_mayRejectCallsToSubscribeIfPublisherIsUnableOrUnwillingToServeThemRejectionMustTriggerOnErrorAfterOnSubscribe",
    "untested_spec109_subscribeShouldNotThrowNonFatalThrowable",
)
def answered_before_all_else(world: World) -> None:
    good = world.open(1)
    refused = world.subscriber.subscribe("nobody", 1)
    world.run()
    if world.layer == "bare subscriber":
        world.publisher.subscribed(refused)
    world.publisher.error(refused, "no such publisher")
    world.run()
    assert world.heard(good) == [Subscribed(good)]
    assert world.heard(refused) == [Subscribed(refused), OnError(refused, "no such publisher")]


@rule("1.9", "required_spec109_subscribeThrowNPEOnNullSubscriber", on=TAKES)
def subscribing_to_nothing(world: World) -> None:
    with pytest.raises(LocalProtocolError):
        world.subscriber.subscribe(None)


@rule("1.10", "untested_spec110_rejectASubscriptionRequestIfTheSameSubscriberSubscribesTwice")
def a_second_subscription_has_an_id_of_its_own(world: World) -> None:
    one, two = world.open(1, name="same"), world.open(1, name="same")
    assert one != two
    world.publisher.next(two, b"two")
    world.run()
    assert (world.elements(one), world.elements(two)) == ([], [b"two"])


@rule(
    "1.11",
    "optional_spec111_maySupportMultiSubscribe",
    "optional_spec111_registeredSubscribersMustReceiveOnNextOrOnCompleteSignals",
    "optional_spec111_multicast_mustProduceTheSameElementsInTheSameSequenceToAllOfItsSubscribersWhenRequestingOneByOne",
    "optional_spec111_multicast_mustProduceTheSameElementsInTheSameSequenceToAllOfItsSubscribersWhenRequestingManyUpfront",
    "optional_spec111_multicast_mustProduceTheSameElementsInTheSameSequenceToAllOfItsSubscribersWhenRequestingManyUpfrontAndCompleteAsExpected",
)
def several_subscriptions_to_one_name(world: World) -> None:
    many, single = world.open(5, name="same"), world.open(0, name="same")
    world.publisher.next_many(many, numbered(5))
    for element in numbered(5):
        world.subscriber.request(single, 1)
        world.run()
        world.publisher.next(single, element)
    for stream in (many, single):
        world.publisher.complete(stream)
    world.run()
    assert world.elements(many) == world.elements(single) == numbered(5)
    assert len(world.ends(many)) == len(world.ends(single)) == 1


# 2: the subscriber.


@rule(
    "2.1",
    "required_spec201_mustSignalDemandViaSubscriptionRequest",
    "required_spec201_blackbox_mustSignalDemandViaSubscriptionRequest",
    "required_exerciseWhiteboxHappyPath",
    on=TAKES,
)
def demand_is_signalled(world: World) -> None:
    stream = world.open(0)
    assert world.asked == [Subscribe("p", stream, 0)]
    world.subscriber.request(stream, 7)
    world.run()
    assert world.asked == [Subscribe("p", stream, 0), Request(stream, 7)]
    world.publisher.next_many(stream, numbered(2))
    world.publisher.complete(stream)
    world.run()
    assert world.elements(stream) == numbered(2)
    assert world.ends(stream) == [OnComplete(stream)]


@rule(
    "2.3",
    "required_spec203_mustNotCallMethodsOnSubscriptionOrPublisherInOnComplete",
    "required_spec203_mustNotCallMethodsOnSubscriptionOrPublisherInOnError",
    "required_spec203_blackbox_mustNotCallMethodsOnSubscriptionOrPublisherInOnComplete",
    "required_spec203_blackbox_mustNotCallMethodsOnSubscriptionOrPublisherInOnError",
    "untested_spec204_mustConsiderTheSubscriptionAsCancelledInAfterRecievingOnCompleteOrOnError",
    on=TAKES,
)
def calls_in_a_terminal_emit_nothing(world: World) -> None:
    def react(world: World, event: Any) -> None:
        if isinstance(event, OnComplete | OnError):
            world.subscriber.request(event.subscriber_id, 1)
            world.subscriber.request(event.subscriber_id, -1)
            world.subscriber.cancel(event.subscriber_id)

    world.react(react)
    one, two = world.open(1), world.open(1)
    world.publisher.complete(one)
    world.publisher.error(two, "failed")
    asked = len(world.asked)
    world.run()
    assert len(world.ends(one) + world.ends(two)) == 2
    assert len(world.asked) == asked


@rule(
    "2.5",
    "required_spec205_mustCallSubscriptionCancelIfItAlreadyHasAnSubscriptionAndReceivesAnotherOnSubscribeSignal",
    "required_spec205_blackbox_mustCallSubscriptionCancelIfItAlreadyHasAnSubscriptionAndReceivesAnotherOnSubscribeSignal",
    on=TAKES,
)
def the_second_of_two_can_be_cancelled(world: World) -> None:
    first, second = world.open(1), world.open(1)
    world.subscriber.cancel(second)
    world.publisher.next(first, b"x")
    world.run()
    assert world.asked[-1] == Cancel(second)
    assert world.elements(first) == [b"x"]


@rule(
    "2.12",
    "untested_spec212_mustNotCallOnSubscribeMoreThanOnceBasedOnObjectEquality_specViolation",
    on=("bare subscriber",),
)
def subscribed_twice(world: World) -> None:
    stream = world.open(1)
    world.publisher.subscribed(stream)
    world.run()
    assert isinstance(world.ends(stream)[0], OnError)
    assert world.subscriber.wants_write_shutdown


@rule("2.8", "required_spec208_mustBePreparedToReceiveOnNextSignalsAfterHavingCalledSubscriptionCancel", on=TAKES)
def elements_after_our_cancel(world: World) -> None:
    for size in (0, 1):
        stream, other = world.open(100, size), world.open(1)
        world.publisher.next_many(stream, numbered(100))
        world.publisher.next(other, b"alive")
        if world.layer in PAIRS:
            world.pair.flush(world.giving)  # 100 are on their way
        world.subscriber.cancel(stream)
        world.run()
        assert world.elements(stream) == []
        assert world.elements(other)[-1] == b"alive"


@rule(
    "2.9",
    "required_spec209_mustBePreparedToReceiveAnOnCompleteSignalWithPrecedingRequestCall",
    "required_spec209_mustBePreparedToReceiveAnOnCompleteSignalWithoutPrecedingRequestCall",
    "required_spec209_blackbox_mustBePreparedToReceiveAnOnCompleteSignalWithPrecedingRequestCall",
    "required_spec209_blackbox_mustBePreparedToReceiveAnOnCompleteSignalWithoutPrecedingRequestCall",
    "required_spec210_mustBePreparedToReceiveAnOnErrorSignalWithPrecedingRequestCall",
    "required_spec210_mustBePreparedToReceiveAnOnErrorSignalWithoutPrecedingRequestCall",
    "required_spec210_blackbox_mustBePreparedToReceiveAnOnErrorSignalWithPrecedingRequestCall",
    "required_spec210_blackbox_mustBePreparedToReceiveAnOnErrorSignalWithoutPrecedingRequestCall",
    on=TAKES,
)
def terminals_with_and_without_a_request(world: World) -> None:
    for requested in (0, 1):
        one, two = world.open(requested), world.open(requested)
        world.publisher.complete(one)
        world.publisher.error(two, "failed")
        world.run()
        assert world.ends(one)[-1] == OnComplete(one)
        assert world.ends(two)[-1] == OnError(two, "failed")


@rule("2.11", "untested_spec211_mustMakeSureThatAllCallsOnItsMethodsHappenBeforeTheProcessingOfTheRespectiveEvents")
def events_come_in_wire_order(world: World) -> None:
    one, two = world.open(100, size=1), world.open(100)
    for element in numbered(100):
        world.publisher.next(one, element)
        world.publisher.next(two, element)
    world.run()
    order = [(event.subscriber_id, event.element) for event in world.taking.events if isinstance(event, OnNext)]
    assert order == [(stream, element) for element in numbered(100) for stream in (one, two)]


@rule(
    "2.13",
    "required_spec213_onSubscribe_mustThrowNullPointerExceptionWhenParametersAreNull",
    "required_spec213_onNext_mustThrowNullPointerExceptionWhenParametersAreNull",
    "required_spec213_onError_mustThrowNullPointerExceptionWhenParametersAreNull",
    "required_spec213_blackbox_onSubscribe_mustThrowNullPointerExceptionWhenParametersAreNull",
    "required_spec213_blackbox_onNext_mustThrowNullPointerExceptionWhenParametersAreNull",
    "required_spec213_blackbox_onError_mustThrowNullPointerExceptionWhenParametersAreNull",
    on=GIVES,
)
def no_signal_has_nothing_in_it(world: World) -> None:
    """A value that would be null on the other side cannot be sent, and nothing of it goes out."""
    stream, fresh = world.open(5), world.subscriber.subscribe("p", 5)
    world.run()
    with pytest.raises(LocalProtocolError):
        world.publisher.subscribed(fresh, None)
    with pytest.raises(LocalProtocolError):
        world.publisher.next(stream, None)
    with pytest.raises(LocalProtocolError):
        world.publisher.error(stream, None)
    world.publisher.subscribed(fresh)
    world.publisher.next(stream, b"alive")
    world.run()
    assert world.heard(fresh) == [Subscribed(fresh)]
    assert world.elements(stream) == [b"alive"]


# 3: the subscription.


@rule("3.1", "untested_spec301_mustNotBeCalledOutsideSubscriberContext", on=TAKES)
def only_own_ids(world: World) -> None:
    world.subscriber.request(5, 1)
    world.subscriber.cancel(5)
    world.run()
    assert world.asked == []


@rule(
    "3.2",
    "required_spec302_mustAllowSynchronousRequestCallsFromOnNextAndOnSubscribe",
    "required_spec303_mustNotAllowUnboundedRecursion",
    "required_validate_boundedDepthOfOnNextAndRequestRecursion",
    on=PAIRS,
)
def request_from_within(world: World) -> None:
    """Each element asks for the next, from within its handling: the stack does not grow."""
    depths = set()

    def react(world: World, event: Any) -> None:
        if isinstance(event, Subscribed | OnNext):
            depths.add(depth())
            world.subscriber.request(event.subscriber_id, 1)

    world.react(react)
    stream = world.open(0)
    for _ in range(500):
        world.run()
        assert world.publisher.next(stream, b"x")
    world.run()
    assert len(world.elements(stream)) == 500
    assert max(depths) - min(depths) < 10


def depth() -> int:
    frame, count = sys._getframe(), 0
    while frame.f_back:
        frame, count = frame.f_back, count + 1
    return count


@rule(
    "3.4",
    "untested_spec304_requestShouldNotPerformHeavyComputations",
    "untested_spec305_cancelMustNotSynchronouslyPerformHeavyComputation",
    on=TAKES,
)
def one_cancel_however_often_called(world: World) -> None:
    stream = world.open(1)
    for _ in range(1000):
        world.subscriber.cancel(stream)
    world.run()
    assert world.asked == [Subscribe("p", stream, 1), Cancel(stream)]


@rule(
    "3.6",
    "required_spec306_afterSubscriptionIsCancelledRequestMustBeNops",
    "required_spec307_afterSubscriptionIsCancelledAdditionalCancelationsMustBeNops",
)
def calls_after_a_cancel(world: World) -> None:
    stream = world.open(1)
    for _ in range(3):
        world.subscriber.cancel(stream)
        world.subscriber.request(stream, 1)
    world.run()
    assert world.publisher.demand(stream) == 0 if world.layer != "bare subscriber" else True
    assert [event for event in world.asked if isinstance(event, Request)] == []
    assert world.heard(stream) == [Subscribed(stream)]


@rule("3.8", "required_spec308_requestMustRegisterGivenNumberElementsToBeProduced", on=GIVES)
def requests_add_up(world: World) -> None:
    for split in ([10], [1] * 10, [3, 7], [9, 1]):
        stream = world.open(0)
        for count in split:
            world.subscriber.request(stream, count)
        world.run()
        assert world.publisher.demand(stream) == 10


@rule(
    "3.9",
    "required_spec309_requestZeroMustSignalIllegalArgumentException",
    "required_spec309_requestNegativeNumberMustSignalIllegalArgumentException",
    "optional_spec309_requestNegativeNumberMaySignalIllegalArgumentExceptionWithSpecificMessage",
)
def a_request_of_nothing(world: World) -> None:
    for count in (0, -1):
        stream = world.open(1)
        world.subscriber.request(stream, count)
        world.run()
        (error,) = world.ends(stream)[-1:]
        assert "3.9" in error.message
        if world.layer != "bare subscriber":
            assert world.publisher.demand(stream) == 0


@rule("3.9", "required_spec309_requestNegativeNumberMustSignalIllegalArgumentException (initial demand)", on=TAKES)
def a_negative_initial_demand(world: World) -> None:
    stream = world.subscriber.subscribe("p", -1)
    world.run()
    assert "3.9" in world.ends(stream)[0].message


@rule(
    "3.10",
    "untested_spec310_requestMaySynchronouslyCallOnNextOnSubscriber",
    "untested_spec311_requestMaySynchronouslyCallOnCompleteOrOnError",
    on=("bare publisher",),
)
def answers_in_the_same_flush(world: World) -> None:
    stream = world.open(0)
    world.subscriber.request(stream, 2)
    world.pair.deliver(world.taking)
    world.publisher.next_many(stream, numbered(2))
    world.publisher.complete(stream)
    assert len(world.publisher.data_to_send()) == 1


def connections() -> int:
    """Those that are alive: a compiled one takes no weak reference."""
    gc.collect()
    return sum(type(one) is Connection for one in gc.get_objects())


@rule("3.13", "required_spec313_cancelMustMakeThePublisherEventuallyDropAllReferencesToTheSubscriber", on=PAIRS)
def nothing_is_kept(world: World) -> None:
    for _ in range(200):
        world.subscriber.cancel(world.open(3))
        world.run()
    for side in (world.publisher, world.subscriber):
        assert not side._publisher._streams
        assert not side._subscriber._streams
    del side
    before = connections()
    for name in ("publisher", "subscriber", "pair", "giving", "taking"):
        delattr(world, name)
    assert connections() == before - 2


@rule("3.14", "untested_spec314_cancelMayCauseThePublisherToShutdownIfNoOtherSubscriptionExists", on=PAIRS)
def the_publisher_may_leave_after_a_cancel(world: World) -> None:
    world.subscriber.cancel(world.open(1))
    world.run()
    world.publisher.goodbye("nobody listens")
    world.run()
    assert world.giving.closed
    assert world.taking.closed
    assert world.giving.error is world.taking.error is None


@rule(
    "3.15",
    "untested_spec315_cancelMustNotThrowExceptionAndMustSignalOnError",
    "untested_spec316_requestMustNotThrowExceptionAndMustOnErrorTheSubscriber",
    on=TAKES,
)
def calls_on_a_closed_connection(world: World) -> None:
    stream = world.open(1)
    world.publisher.goodbye("enough")
    world.run()
    world.subscriber.request(stream, 1)
    world.subscriber.request(stream, 0)
    world.subscriber.cancel(stream)
    (error,) = world.ends(stream)
    assert "enough" in error.message


@rule(
    "3.17",
    "required_spec317_mustSupportAPendingElementCountUpToLongMaxValue",
    "required_spec317_mustSupportACumulativePendingElementCountUpToLongMaxValue",
    "required_spec317_mustNotSignalOnErrorWhenPendingAboveLongMaxValue",
    "required_validate_maxElementsFromPublisher",
    on=GIVES,
)
def demand_without_bound(world: World) -> None:
    for counts in ([UNBOUNDED], [UNBOUNDED // 2] * 3, [UNBOUNDED, UNBOUNDED]):
        stream = world.open(0)
        for count in counts:
            world.subscriber.request(stream, count)
        world.run()
        assert world.publisher.demand(stream) == UNBOUNDED
        world.publisher.next_many(stream, numbered(20))
        world.run()
        assert world.publisher.demand(stream) == UNBOUNDED
        assert world.ends(stream) == []


# The tests.

CASES = [
    pytest.param(one, layer, publishes, id=f"{one.kit}-{layer}-{publishes} publishes")
    for one in {case.scenario: case for case in RULES}.values()
    for layer in one.layers
    for publishes in ROLES
]


@pytest.mark.parametrize(("one", "layer", "publishes"), CASES)
def test_rule(one: Rule, layer: Layer, publishes: Role, record_property: Callable[[str, object], None]) -> None:
    for also in RULES:
        if also.scenario is one.scenario:
            record_property("tck", [layer, also.rule, also.kit.partition(" ")[0]])
    one.scenario(World(layer, publishes))


def test_a_name_stands_once() -> None:
    names = [one.kit for one in RULES]
    assert len(names) == len(set(names))


# 4: a relay, which is a subscriber on one connection and a publisher on another.


RELAY = {
    "4.1": ("required_mustRequestFromUpstreamForElementsThatHaveBeenRequestedLongAgo",),
    "4.2": (
        "mustImmediatelyPassOnOnErrorEventsReceivedFromItsUpstreamToItsDownstream",
        "required_spec104_mustCallOnErrorOnAllItsSubscribersIfItEncountersANonRecoverableError",
    ),
}


@pytest.mark.parametrize("layer", PAIRS)
def test_a_relay(layer: Layer, record_property: Callable[[str, object], None]) -> None:
    """4.1, 4.2: demand goes up, elements go down, an end goes down at once and to all."""
    for number, names in RELAY.items():
        record_property("tck", [layer, number, *names])
    upstream, downstream = World(layer, Role.SERVER), World(layer, Role.CLIENT)
    source, sink = upstream.publisher, downstream.subscriber
    taken = upstream.open(0)
    given, other = downstream.open(0), downstream.open(0)

    def relay() -> None:
        upstream.run()
        downstream.run()

    for count in (3, 100):  # all that was wanted long ago, in pieces
        sink.request(given, count)
        relay()
        for piece in pieces(downstream.publisher.demand(given), 7):
            upstream.subscriber.request(taken, piece)
            relay()
            assert source.demand(taken) == piece
            source.next_many(taken, [b"x"] * piece)
            relay()
            downstream.publisher.next_many(given, upstream.elements(taken)[-piece:])
            relay()
        assert downstream.elements(given)[-count:] == [b"x"] * count
    source.error(taken, "failed upstream")
    relay()
    for stream in (given, other):  # neither waits for a request
        downstream.publisher.error(stream, upstream.ends(taken)[0].message)
        relay()
        assert downstream.ends(stream) == [OnError(stream, "failed upstream")]


def pieces(whole: int, most: int) -> list[int]:
    return [min(most, whole - at) for at in range(0, whole, most)]


def test_a_publisher_asked_by_hostile_requests_keeps_to_the_rules() -> None:
    """3.1, 3.9: whatever a subscriber sends, the monitor finds nothing in what is answered."""
    engine = Engine()
    assert isinstance(engine.conn, Connection)
    for number in range(5):
        engine.feed(Subscribe("p", number, number - 2), Request(number, 2 - number), Cancel(number), Cancel(number))
    assert not engine.own.closed
