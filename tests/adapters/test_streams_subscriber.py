"""Adapter as a subscriber, rule by rule, against a scripted peer."""

from __future__ import annotations

import gc
import os
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

import pytest

from tolliver_proto import ConnectionLost, LocalProtocolError
from tolliver_proto.reactive import (
    UNBOUNDED,
    Cancel,
    ConnectionClosed,
    Goodbye,
    OnNext,
    OnNextPacked,
    Request,
    StreamError,
    Subscribe,
    Subscribed,
)

from .facade import Cancelled, Gate, until
from .kinds import KINDS
from .rules import Case, Rules, play
from .scripted import Scripted
from .streams import Stage, StreamsFacade, Taken

RULES = rule = Rules()
ON_A_LOOP = [kind for kind in KINDS if kind != "blocking"]


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def subscribed(streams: StreamsFacade, peer: Scripted, size: int = 0, **options: Any) -> tuple[Taken, int]:
    """A subscription that the peer has answered, and its id."""
    taken = streams.subscribe("p", **options)
    stream = peer.hear_subscribe(len(peer.all(Subscribe)) + 1)
    peer.subscribed(stream, size)
    return taken, stream


def has_no_peer(streams: StreamsFacade) -> bool:
    return not streams.peers()


@rule(
    "2.1",
    "required_spec201_mustSignalDemandViaSubscriptionRequest",
    "required_spec201_blackbox_mustSignalDemandViaSubscriptionRequest",
    "required_exerciseWhiteboxHappyPath",
)
def demand_is_signalled(stage: Stage) -> None:
    """With the subscription, by the window, and by hand."""
    streams, peer = stage.taking()
    by_hand, stream = subscribed(streams, peer, prefetch=0)
    peer.sync()
    assert peer.all(Subscribe) == [Subscribe("p", stream, 0)]
    first = by_hand.start_next()
    peer.sync()
    assert peer.all(Request) == []
    by_hand.request(2)
    peer.hear(lambda: peer.all(Request))
    peer.next_many(stream, numbered(2))
    assert first.wait() == b"0"
    assert next(by_hand) == b"1"
    peer.complete(stream)
    assert list(by_hand) == []
    window, stream = subscribed(streams, peer, prefetch=8)
    assert peer.all(Subscribe)[-1] == Subscribe("p", stream, 8)
    late, other = subscribed(streams, peer, demand=0, prefetch=8)
    assert peer.all(Subscribe)[-1] == Subscribe("p", other, 0)
    coming = late.start_next()
    peer.hear(lambda: peer.requested(other) == 8)
    peer.next(other, b"x")
    assert coming.wait() == b"x"
    peer.next_many(stream, numbered(8))
    assert window.take(8) == numbered(8)
    coming = window.start_next()
    peer.hear(lambda: peer.requested(stream) == 8)
    peer.complete(stream)
    assert isinstance(coming.outcome(), StopAsyncIteration)


@rule("2.2", "untested_spec202_shouldAsynchronouslyDispatch")
def a_slow_handler_holds_back_no_other(stage: Stage) -> None:
    streams, peer = stage.taking()
    slow, one = subscribed(streams, peer)
    fast, two = subscribed(streams, peer)
    gate, got_slow, got_fast = stage.gate(), [], []  # type: ignore[var-annotated]  # bytes

    def waits(element: bytes) -> Gate:
        got_slow.append(element)
        return gate

    ends = [slow.for_each(waits), fast.for_each(got_fast.append)]
    peer.next_many(one, numbered(10))
    peer.next_many(two, numbered(10))
    peer.complete(one)
    peer.complete(two)
    ends[1].wait()
    until(lambda: got_slow, "the first element of the slow one")
    assert (got_slow, got_fast) == (numbered(1), numbered(10))
    gate.open()
    ends[0].wait()
    assert got_slow == numbered(10)


@rule(
    "2.3",
    "required_spec203_mustNotCallMethodsOnSubscriptionOrPublisherInOnComplete",
    "required_spec203_mustNotCallMethodsOnSubscriptionOrPublisherInOnError",
    "required_spec203_blackbox_mustNotCallMethodsOnSubscriptionOrPublisherInOnComplete",
    "required_spec203_blackbox_mustNotCallMethodsOnSubscriptionOrPublisherInOnError",
    "untested_spec204_mustConsiderTheSubscriptionAsCancelledInAfterRecievingOnCompleteOrOnError",
)
def words_after_the_end_emit_nothing(stage: Stage) -> None:
    streams, peer = stage.taking()
    for fails in (False, True):
        taken, stream = subscribed(streams, peer)
        peer.next(stream, b"last")
        peer.error(stream, "failed") if fails else peer.complete(stream)
        assert next(taken) == b"last"
        until(partial(getattr, taken, "closed"), "the end")
        taken.request(1)
        taken.request(-1)
        taken.cancel(3)
        with suppress(StreamError):
            assert list(taken) == []
        peer.sync()
        assert not peer.all(Request, Cancel)
    assert streams.stats()["streams_taken"] == 0


@rule(
    "2.5",
    "required_spec205_mustCallSubscriptionCancelIfItAlreadyHasAnSubscriptionAndReceivesAnotherOnSubscribeSignal",
    "required_spec205_blackbox_mustCallSubscriptionCancelIfItAlreadyHasAnSubscriptionAndReceivesAnotherOnSubscribeSignal",
)
def the_second_of_two_can_be_cancelled(stage: Stage) -> None:
    streams, peer = stage.taking()
    first, one = subscribed(streams, peer)
    second, two = subscribed(streams, peer)
    second.cancel()
    peer.hear_cancel(two)
    peer.next(one, b"x")
    assert next(first) == b"x"
    assert peer.all(Cancel) == [Cancel(two)]


@rule("2.12", "untested_spec212_mustNotCallOnSubscribeMoreThanOnceBasedOnObjectEquality_specViolation")
def answered_twice(stage: Stage) -> None:
    """An error of the connection (R-19): it ends, and the application sees why."""
    streams, peer = stage.taking()
    taken, stream = subscribed(streams, peer)
    peer.subscribed(stream)
    peer.hear(lambda: peer.all(Goodbye))
    assert "R-19" in str(taken.start_next().outcome())
    until(partial(has_no_peer, streams), "the end of the connection")


@rule("2.6", "untested_spec206_mustCallSubscriptionCancelIfItIsNoLongerValid")
def leaving_cancels_once(stage: Stage) -> None:
    """The block is left, or the subscription is dropped; also where both come, and where nothing was ever taken."""
    streams, peer = stage.taking()
    left, stream = subscribed(streams, peer)
    peer.next_many(stream, numbered(3))
    left.leave()
    left.cancel()
    left.drop()
    peer.hear_cancel(stream)
    dropped, other = subscribed(streams, peer)
    peer.next_many(other, numbered(3))
    assert next(dropped) == b"0"
    dropped.drop()
    peer.hear_cancel(other)
    fresh = streams.subscribe("fresh")
    third = peer.hear_subscribe(len(peer.all(Subscribe)) + 1)
    fresh.drop()
    peer.hear_cancel(third)
    peer.sync()
    assert peer.all(Cancel) == [Cancel(number) for number in (stream, other, third)]
    assert streams.stats()["streams_taken"] == 0


@rule("2.6", "untested_spec206_mustCallSubscriptionCancelIfItIsNoLongerValid", kinds=ON_A_LOOP)
def a_task_that_is_cancelled_cancels(stage: Stage) -> None:
    streams, peer = stage.taking()
    taken, stream = subscribed(streams, peer)
    under_way = taken.for_each(lambda _: None)
    peer.next(stream, b"x")
    peer.sync()
    assert under_way.cancel
    under_way.cancel()
    with pytest.raises(Cancelled):
        under_way.wait()
    peer.hear_cancel(stream)
    taken.drop()
    peer.sync()
    assert peer.all(Cancel) == [Cancel(stream)]


@rule(
    "2.7", "untested_spec207_mustEnsureAllCallsOnItsSubscriptionTakePlaceFromTheSameThreadOrTakeCareOfSynchronization"
)
def requests_at_the_same_time_add_up(stage: Stage) -> None:
    """16 tasks, or threads where threads call."""
    streams, peer = stage.taking()
    taken, stream = subscribed(streams, peer, prefetch=0)
    asking = [taken.start_requests(1, 1000) for _ in range(16)]
    for handle in asking:
        handle.wait()
    peer.hear(lambda: peer.requested(stream) >= 16_000)
    peer.sync()
    assert peer.requested(stream) == 16_000


@rule("2.8", "required_spec208_mustBePreparedToReceiveOnNextSignalsAfterHavingCalledSubscriptionCancel")
def elements_after_our_cancel(stage: Stage) -> None:
    """100 are on their way when it is cancelled, in both modes: what follows on the wire is read right."""
    streams, peer = stage.taking()
    for size in (0, 1, 3):
        left, stream = subscribed(streams, peer, size)
        other, alive = subscribed(streams, peer)
        peer.sync()
        left.cancel()
        peer.next_many(stream, [b"abc"[: size or 3]] * 100)
        if size:
            peer.say(OnNextPacked(stream, (b"abc"[:size],) * 50))
        peer.next(alive, b"alive")
        peer.complete(stream)
        assert next(other) == b"alive"
        assert list(left) == []
        other.cancel()


@rule(
    "2.9",
    "required_spec209_mustBePreparedToReceiveAnOnCompleteSignalWithPrecedingRequestCall",
    "required_spec209_mustBePreparedToReceiveAnOnCompleteSignalWithoutPrecedingRequestCall",
    "required_spec209_blackbox_mustBePreparedToReceiveAnOnCompleteSignalWithPrecedingRequestCall",
    "required_spec209_blackbox_mustBePreparedToReceiveAnOnCompleteSignalWithoutPrecedingRequestCall",
)
@rule(
    "2.10",
    "required_spec210_mustBePreparedToReceiveAnOnErrorSignalWithPrecedingRequestCall",
    "required_spec210_mustBePreparedToReceiveAnOnErrorSignalWithoutPrecedingRequestCall",
    "required_spec210_blackbox_mustBePreparedToReceiveAnOnErrorSignalWithPrecedingRequestCall",
    "required_spec210_blackbox_mustBePreparedToReceiveAnOnErrorSignalWithoutPrecedingRequestCall",
)
def ends_with_and_without_a_request(stage: Stage) -> None:
    streams, peer = stage.taking()
    for requested in (0, 1):
        completes, one = subscribed(streams, peer, prefetch=0)
        fails, two = subscribed(streams, peer, prefetch=0)
        if requested:
            completes.request(1)
            fails.request(1)
        coming = [completes.start_next(), fails.start_next()]
        peer.complete(one)
        peer.error(two, "failed over there")
        assert isinstance(coming[0].outcome(), StopAsyncIteration)
        error = coming[1].outcome()
        assert isinstance(error, StreamError)
        assert (error.name, error.text) == ("p", "failed over there")
        assert completes.closed
        assert fails.closed


@rule("2.11", "untested_spec211_mustMakeSureThatAllCallsOnItsMethodsHappenBeforeTheProcessingOfTheRespectiveEvents")
def signals_come_in_the_order_of_the_wire(stage: Stage) -> None:
    """Of each stream: the answer, each element, the end; single elements, packed ones and runs of both."""
    streams, peer = stage.taking()
    one, first = subscribed(streams, peer, 2)
    two, second = subscribed(streams, peer)
    elements = [b"%02d" % number for number in range(100)]
    for at in range(0, 100, 10):
        peer.next_many(first, elements[at : at + 5])
        peer.next_many(second, elements[at : at + 10])
        peer.say(OnNextPacked(first, tuple(elements[at + 5 : at + 10])))
    got: list[bytes] = []
    ended = one.for_each(got.append)
    peer.complete(first)
    peer.error(second, "failed")
    ended.wait()
    assert got == elements
    assert one.element_size == 2
    assert two.take(100) == elements
    assert isinstance(two.start_next().outcome(), StreamError)


@rule("2.13", "untested_spec213_failingOnSignalInvocation")
def a_handler_that_raises_cancels(stage: Stage) -> None:
    """The caller has the error, the peer a cancel, and no other stream notices. A codec's error is the same."""
    streams, peer = stage.taking()

    def fails(_element: bytes) -> None:
        raise KeyError("of mine")

    class Fussy:
        def encode(self, value: str) -> bytes:
            return value.encode()

        def decode(self, raw: bytes) -> str:
            return raw.decode("ascii")

    taken, stream = subscribed(streams, peer)
    other, alive = subscribed(streams, peer)
    decoding, fussy = subscribed(streams, peer, codec=Fussy())
    under_way = taken.for_each(fails)
    peer.next_many(stream, numbered(3))
    assert isinstance(under_way.outcome(), KeyError)
    peer.hear_cancel(stream)
    peer.next_many(fussy, [b"good", b"\xff", b"late"])
    assert next(decoding) == "good"
    assert isinstance(decoding.start_next().outcome(), UnicodeDecodeError)
    peer.hear_cancel(fussy)
    peer.next(alive, b"alive")
    assert next(other) == b"alive"
    peer.sync()
    assert peer.all(Cancel) == [Cancel(stream), Cancel(fussy)]


@rule(
    "2.13",
    "required_spec213_onSubscribe_mustThrowNullPointerExceptionWhenParametersAreNull",
    "required_spec213_onNext_mustThrowNullPointerExceptionWhenParametersAreNull",
    "required_spec213_onError_mustThrowNullPointerExceptionWhenParametersAreNull",
    "required_spec213_blackbox_onSubscribe_mustThrowNullPointerExceptionWhenParametersAreNull",
    "required_spec213_blackbox_onNext_mustThrowNullPointerExceptionWhenParametersAreNull",
    "required_spec213_blackbox_onError_mustThrowNullPointerExceptionWhenParametersAreNull",
)
@rule("1.9", "required_spec109_subscribeThrowNPEOnNullSubscriber")
def none_is_a_type_error(stage: Stage) -> None:
    """A name, a handler, a demand, a codec. Nothing goes out for any of them but a cancel of what had begun."""
    streams, peer = stage.taking()
    wrong: tuple[tuple[Any, dict[str, Any]], ...] = (
        (None, {}),
        (b"p", {}),
        ("p", {"demand": "1"}),
        ("p", {"demand": True}),
        ("p", {"prefetch": 1.5}),
        ("p", {"codec": 5}),
    )
    for name, options in wrong:
        with pytest.raises(TypeError):
            streams.subscribe(name, **options)
    with pytest.raises(ValueError, match="prefetch=-1"):
        streams.subscribe("p", prefetch=-1)
    peer.sync()
    assert peer.all(Subscribe) == []
    assert streams.stats()["streams_taken"] == 0
    for handler in (None, 5):
        taken, stream = subscribed(streams, peer)
        assert isinstance(taken.for_each(handler).outcome(), TypeError)
        with pytest.raises(TypeError):
            taken.request(None)  # type: ignore[arg-type]  # that is the test
        taken.cancel()
        peer.hear_cancel(stream)


@rule("3.1", "untested_spec301_mustNotBeCalledOutsideSubscriberContext")
def whatever_the_application_does_the_rules_are_kept(stage: Stage) -> None:
    """Random calls over several streams, which the peer ends at random: the monitor finds nothing."""
    streams, peer = stage.taking()
    random = Random(7)
    taken: list[tuple[Taken, int]] = []
    for _ in range(150):
        action = random.randrange(6)
        one, stream = random.choice(taken) if taken else (None, 0)
        if action == 0 or one is None:
            taken.append(subscribed(streams, peer, prefetch=random.randrange(3)))
        elif action == 1:
            one.request(random.randrange(-1, 3))
        elif action == 2:
            one.cancel()
        elif action == 3:
            peer.sync()
            with suppress(LocalProtocolError):
                peer.next(stream, b"x")
        elif action == 4 and len(taken) > 2:
            peer.sync()
            if not peer.cancelled(stream):
                peer.complete(stream)
            taken.remove((one, stream))
    peer.sync()


@rule("3.2", "required_spec302_mustAllowSynchronousRequestCallsFromOnNextAndOnSubscribe")
@rule(
    "3.3",
    "required_spec303_mustNotAllowUnboundedRecursion",
    "required_validate_boundedDepthOfOnNextAndRequestRecursion",
)
def request_from_the_handler(stage: Stage) -> None:
    """Each of 10,000 elements asks for one: the stack does not grow. `make tck` does it with 100,000."""
    whole = int(os.environ.get("TOLLIVER_ELEMENTS", "10000"))
    streams, peer = stage.taking()
    taken, stream = subscribed(streams, peer, 1, prefetch=0)
    depths: set[int] = set()
    count, window = 0, 1000

    def handle(_element: bytes) -> None:
        nonlocal count
        count += 1
        if not count % 1000:
            depths.add(depth())
        taken._subscription.request(1)

    taken.request(window)
    ended = taken.for_each(handle)
    given = 0
    while given < whole:
        peer.hear(partial(peer.has_requested, stream, given + 1))
        fresh = min(peer.requested(stream), whole) - given
        peer.say(OnNextPacked(stream, (b"x",) * fresh))
        given += fresh
    peer.complete(stream)
    ended.wait()
    assert count == whole
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
)
@rule("3.7", "required_spec307_afterSubscriptionIsCancelledAdditionalCancelationsMustBeNops")
@rule("3.6", "required_spec306_afterSubscriptionIsCancelledRequestMustBeNops")
def one_cancel_however_often_called(stage: Stage) -> None:
    streams, peer = stage.taking()
    taken, stream = subscribed(streams, peer)
    taken.cancel(1000)
    taken.request(1, 1000)
    taken.cancel(1000)
    peer.hear_cancel(stream)
    peer.sync()
    assert peer.all(Cancel, Request) == [Cancel(stream)]
    assert list(taken) == []


@rule(
    "3.8",
    "required_spec308_requestMustRegisterGivenNumberElementsToBeProduced",
)
def requests_add_up(stage: Stage) -> None:
    streams, peer = stage.taking()
    for counts in ([10], [1] * 10, [3, 7], [9, 1]):
        taken, stream = subscribed(streams, peer, prefetch=0)
        for count in counts:
            taken.request(count)
        peer.hear(partial(peer.has_requested, stream, 10))
        peer.next_many(stream, numbered(10))
        assert taken.take(10) == numbered(10)
        peer.complete(stream)
        assert list(taken) == []


@rule(
    "3.9",
    "required_spec309_requestZeroMustSignalIllegalArgumentException",
    "required_spec309_requestNegativeNumberMustSignalIllegalArgumentException",
    "optional_spec309_requestNegativeNumberMaySignalIllegalArgumentExceptionWithSpecificMessage",
)
def a_request_of_nothing(stage: Stage) -> None:
    """It raises nothing: the stream ends with an error, and the peer sees a cancel (R-16)."""
    streams, peer = stage.taking()
    for count in (0, -1, -(2**70)):
        taken, stream = subscribed(streams, peer)
        taken.request(count)
        peer.hear_cancel(stream)
        error = taken.start_next().outcome()
        assert isinstance(error, StreamError)
        assert "3.9" in error.text
    asked = streams.subscribe("p", demand=-1)
    error = asked.start_next().outcome()
    assert isinstance(error, StreamError)
    assert "3.9" in error.text
    peer.sync()
    assert len(peer.all(Cancel)) == 4
    assert streams.stats()["streams_taken"] == 0


@rule("1.1", "required_spec101_subscriptionRequestMustResultInTheCorrectNumberOfProducedElements")
def more_than_was_asked_for(stage: Stage) -> None:
    """The peer's fault ends its stream and no other (R-18)."""
    streams, peer = stage.taking()
    taken, stream = subscribed(streams, peer, prefetch=0)
    other, alive = subscribed(streams, peer)
    taken.request(1)
    peer.sync()
    peer.next_many(stream, numbered(3))
    peer.next(alive, b"alive")
    assert next(taken) == b"0"
    assert "1.1" in str(taken.start_next().outcome())
    peer.hear_cancel(stream)
    assert next(other) == b"alive"


@rule(
    "3.10",
    "untested_spec310_requestMaySynchronouslyCallOnNextOnSubscriber",
    "untested_spec311_requestMaySynchronouslyCallOnCompleteOrOnError",
)
def the_answer_may_come_at_once(stage: Stage) -> None:
    """All in one piece: the answer to the subscription, the elements and the end."""
    streams, peer = stage.taking()
    taken = streams.subscribe("p")
    stream = peer.hear_subscribe()
    peer.say(Subscribed(stream, 1), OnNext(stream, b"a"), OnNextPacked(stream, (b"b", b"c")))
    peer.complete(stream)
    assert list(taken) == [b"a", b"b", b"c"]


@rule("3.13", "required_spec313_cancelMustMakeThePublisherEventuallyDropAllReferencesToTheSubscriber")
def nothing_is_kept_of_a_stream(stage: Stage) -> None:
    streams, peer = stage.taking()
    alive: weakref.WeakSet[Any] = weakref.WeakSet()
    for turn in range(50):
        taken, stream = subscribed(streams, peer, turn % 3)
        alive.add(taken.look(lambda it: it._stream))
        peer.next(stream, b"abc"[: turn % 3 or 3])
        if turn % 2:
            taken.cancel()
        taken.drop()
        del taken

    def gone() -> bool:
        streams._look(lambda _: gc.collect())
        return not alive

    until(gone, "the end of all subscriptions")
    assert streams.stats()["streams_taken"] == 0
    assert streams.stats()["unread_bytes"] == 0


@rule("3.14", "untested_spec314_cancelMayCauseThePublisherToShutdownIfNoOtherSubscriptionExists")
def the_publisher_may_leave_after_a_cancel(stage: Stage) -> None:
    streams, peer = stage.taking()
    taken, stream = subscribed(streams, peer)
    taken.cancel()
    peer.hear_cancel(stream)
    peer.goodbye("nobody listens")
    peer.hear(lambda: peer.all(Goodbye))
    assert list(taken) == []
    until(partial(has_no_peer, streams), "the end of the connection")


@rule(
    "3.15",
    "untested_spec315_cancelMustNotThrowExceptionAndMustSignalOnError",
    "untested_spec316_requestMustNotThrowExceptionAndMustOnErrorTheSubscriber",
)
def words_on_a_connection_that_is_over(stage: Stage) -> None:
    """In order or broken: the iteration says it, `request` and `cancel` raise nothing."""
    for in_order in (True, False):
        streams, peer = stage.taking()
        taken, stream = subscribed(streams, peer)
        waiting, _ = subscribed(streams, peer)
        peer.next(stream, b"before")
        coming = waiting.start_next()
        if in_order:
            peer.goodbye("enough")
            peer.hear(partial(peer.all, Goodbye))
        else:
            peer.sync()
        peer.shut()
        until(partial(has_no_peer, streams), "the end of the connection")
        taken.request(1)
        taken.request(0)
        assert next(taken) == b"before"
        for error in (coming.outcome(), taken.start_next().outcome()):
            if in_order:
                assert isinstance(error, ConnectionClosed)
                assert error.reason == "enough"
            else:
                assert isinstance(error, ConnectionLost)
        taken.cancel(2)
        assert isinstance(streams.start("subscribe", "p").outcome(), LookupError)
        streams.close()


@rule(
    "3.17",
    "required_spec317_mustSupportAPendingElementCountUpToLongMaxValue",
    "required_spec317_mustSupportACumulativePendingElementCountUpToLongMaxValue",
    "required_spec317_mustNotSignalOnErrorWhenPendingAboveLongMaxValue",
)
def demand_without_bound(stage: Stage) -> None:
    streams, peer = stage.taking()
    for counts in ([UNBOUNDED], [UNBOUNDED // 2] * 3, [UNBOUNDED, 2**70]):
        taken, stream = subscribed(streams, peer, prefetch=0)
        for count in counts:
            taken.request(count)
        peer.hear(partial(peer.has_requested, stream, UNBOUNDED - 1))
        peer.next_many(stream, numbered(20))
        peer.complete(stream)
        assert list(taken) == numbered(20)


@pytest.mark.parametrize(("kind", "form", "case"), RULES.params())
def test_rule(case: Case, stage: Stage, record_property: Callable[[str, object], None]) -> None:
    play(case, stage, record_property)
