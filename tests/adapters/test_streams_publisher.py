"""Adapter as a publisher, rule by rule, against a scripted peer.

The sources are plain ones, and the same in the form of the adapter's own world.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tolliver_proto import Acl, Rights
from tolliver_proto.reactive import (
    UNBOUNDED,
    Goodbye,
    OnComplete,
    OnError,
    OnNext,
    Request,
    Subscribe,
    Subscribed,
)

from .facade import until
from .kinds import EACH_ADAPTER
from .rules import Case, Rules, play
from .streams import Form, Stage

RULES = rule = Rules()


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def endless(_name: str) -> Iterator[bytes]:
    while True:
        yield b"x"


class Left:
    """A source of its own for each subscriber, which counts those that were closed."""

    def __init__(self, count: int = 10**9, size: int = 1) -> None:
        self.count = count
        self.size = size  # bytes of each element, at least
        self.closed = 0

    def __call__(self, _name: str) -> Iterator[bytes]:
        try:
            for number in range(self.count):
                yield (b"%d" % number).rjust(self.size)
        finally:
            self.closed += 1


@rule("1.1", "required_spec101_subscriptionRequestMustResultInTheCorrectNumberOfProducedElements")
@rule("3.8", "required_spec308_requestMustRegisterGivenNumberElementsToBeProduced")
def no_more_than_requested(stage: Stage) -> None:
    streams, peer = stage.giving()
    streams.publish("p", stage.source(numbered(100)))
    stream, total = peer.subscribe("p"), 0
    for counts in ([1], [1, 1], [3, 7], [9, 1, 2]):
        peer.say(*(Request(stream, count) for count in counts))
        total += sum(counts)
        assert peer.hear_elements(stream, total) == numbered(total)
        peer.sync()
        assert len(peer.elements(stream)) == total


@rule("1.2", "required_spec102_maySignalLessThanRequestedAndTerminateSubscription")
@rule("1.5", "required_spec105_mustSignalOnCompleteWhenFiniteStreamTerminates")
@rule("1.5", "required_createPublisher1MustProduceAStreamOfExactly1Element")
@rule("1.5", "required_createPublisher3MustProduceAStreamOfExactly3Elements")
def less_than_requested(stage: Stage) -> None:
    streams, peer = stage.giving()
    for count in (1, 3):
        streams.publish(f"p{count}", stage.source(numbered(count)))
        stream = peer.subscribe(f"p{count}", 10)
        peer.hear_end(stream)
        assert peer.heard(stream) == [
            Subscribed(stream),
            *(OnNext(stream, element) for element in numbered(count)),
            OnComplete(stream),
        ]


@EACH_ADAPTER
def test_the_end_of_a_list_needs_no_demand_and_that_of_an_iterator_is_unknown_until_it_is_pulled(stage: Stage) -> None:
    streams, peer = stage.giving()
    streams.publish("none", [])
    streams.publish("list", numbered(3))
    streams.publish("iterator", lambda _name: iter(numbered(3)))
    none, listed, iterated = peer.subscribe("none"), peer.subscribe("list", 3), peer.subscribe("iterator", 3)
    assert (peer.hear_end(none), peer.hear_end(listed)) == (OnComplete(none), OnComplete(listed))
    assert peer.elements(listed) == numbered(3)
    assert peer.hear_elements(iterated, 3) == numbered(3)
    peer.sync()
    assert OnComplete(iterated) not in peer.heard(iterated)
    peer.request(iterated, 1)
    assert peer.hear_end(iterated) == OnComplete(iterated)


@rule("1.3", "stochastic_spec103_mustSignalOnMethodsSequentially")
def eight_publish_at_once(stage: Stage) -> None:
    """From eight threads where threads call, and eight sources that are read at the same time: frames stay whole."""
    streams, peer = stage.giving()

    def elements(number: int) -> list[bytes]:
        return [b"%d" % turn * (1 + 2000 * (turn % 7 == number % 7)) for turn in range(300)]

    publishing = [streams.start("publish", f"p{number}", stage.source(elements(number))) for number in range(8)]
    for handle in publishing:
        handle.wait()
    given = [peer.subscribe(f"p{number}", 1) for number in range(8)]
    for number, stream in enumerate(given):
        peer.request(stream, 100 + number)
        peer.request(stream, 1000)
    for number, stream in enumerate(given):
        assert peer.hear_end(stream) == OnComplete(stream)
        assert peer.elements(stream) == elements(number)


@rule("1.4", "optional_spec104_mustSignalOnErrorWhenFails")
def one_error_of_a_source_that_raises(stage: Stage) -> None:
    streams, peer = stage.giving()

    def at_start(_name: str) -> list[bytes]:
        raise ValueError("at start")

    def at_first(_name: str) -> Iterator[bytes]:
        yield from map(int.to_bytes, [-1])

    def in_the_middle(_name: str) -> Iterator[bytes]:
        yield from numbered(3)
        raise ValueError

    def at_the_end(_name: str) -> Iterator[bytes]:
        try:
            yield from numbered(3)
        finally:
            raise ValueError("at the end")

    streams.publish("at start", at_start if stage.form == "plain" else stage.source(at_start))
    streams.publish("at first", stage.source(at_first))
    streams.publish("in the middle", stage.source(in_the_middle))
    streams.publish("at the end", stage.source(at_the_end))
    expected = (
        ("at start", 0, "ValueError: at start"),
        ("at first", 0, "OverflowError: can't convert negative int to unsigned"),
        ("in the middle", 3, "ValueError"),
        ("at the end", 3, "ValueError: at the end"),
    )
    for name, count, text in expected:
        stream = peer.subscribe(name, 10)
        peer.hear_end(stream)
        peer.sync()
        assert peer.heard(stream) == [
            Subscribed(stream),
            *(OnNext(stream, element) for element in numbered(count)),
            OnError(stream, text),
        ]


@rule("1.4", "optional_spec104_mustSignalOnErrorWhenFails")
def one_error_for_an_element_that_cannot_be_sent(stage: Stage) -> None:
    """Of the wrong size, or nothing that is bytes; what came before it is sent."""
    streams, peer = stage.giving()
    streams.publish("size", stage.source([b"ab", b"cd", b"odd", b"ef"]), element_size=2)
    streams.publish("kind", stage.source([b"a", "b", b"c"]))
    for name, good, said in (("size", [b"ab", b"cd"], "1.4"), ("kind", [b"a"], "bytes")):
        stream = peer.subscribe(name, 10)
        end = peer.hear_end(stream)
        peer.sync()
        assert peer.elements(stream) == good
        assert peer.ends(stream) == [end]
        assert said in end.message


@rule("1.4", "optional_spec104_mustSignalOnErrorWhenFails")
def a_source_that_raises_while_it_is_closed(stage: Stage) -> None:
    """Its stream is over, so the peer hears nothing of it, and other streams go on."""
    streams, peer = stage.giving()
    closed = []

    def stubborn(_name: str) -> Iterator[bytes]:
        try:
            while True:
                yield b"x"
        finally:
            closed.append(True)
            raise ValueError("in close")

    streams.publish("stubborn", stage.source(stubborn))
    streams.publish("other", stage.source(numbered(3)))
    stream, other = peer.subscribe("stubborn", 2), peer.subscribe("other", 1)
    peer.hear_elements(stream, 2)
    peer.cancel(stream)
    until(lambda: closed, "closing the source")
    peer.sync()
    assert peer.ends(stream) == []
    peer.request(other, 3)
    assert peer.hear_end(other) == OnComplete(other)


@rule("1.5", "optional_spec105_emptyStreamMustTerminateBySignallingOnComplete")
def an_end_needs_no_request(stage: Stage) -> None:
    """The source knows its length; a generator has to be asked for one element more."""
    streams, peer = stage.giving()
    for count in (0, 3):
        streams.publish(f"p{count}", stage.source(numbered(count)))
        stream = peer.subscribe(f"p{count}", count)
        if stage.form == "own":
            peer.hear_elements(stream, count)
            peer.request(stream, 1)
        peer.hear_end(stream)
        assert peer.elements(stream) == numbered(count)
        assert peer.heard(stream)[-1] == OnComplete(stream)


@rule(
    "1.7",
    "required_spec107_mustNotEmitFurtherSignalsOnceOnCompleteHasBeenSignalled",
    "untested_spec107_mustNotEmitFurtherSignalsOnceOnErrorHasBeenSignalled",
    "untested_spec106_mustConsiderSubscriptionCancelledAfterOnErrorOrOnCompleteHasBeenCalled",
)
def nothing_after_the_end(stage: Stage) -> None:
    streams, peer = stage.giving()

    def failing(_name: str) -> Iterator[bytes]:
        yield b"1"
        raise ValueError("failed")

    streams.publish("ends", stage.source([b"1"]))
    streams.publish("fails", stage.source(failing))
    for name in ("ends", "fails"):
        stream = peer.subscribe(name, 5)
        peer.hear_end(stream)
        before = len(peer.heard(stream))
        peer.request(stream, 5)
        peer.cancel(stream)
        peer.request(stream, 5)
        peer.sync()
        assert len(peer.heard(stream)) == before
    assert streams.stats()["streams_given"] == 0


@rule(
    "1.8",
    "required_spec312_cancelMustMakeThePublisherToEventuallyStopSignaling",
    "untested_spec108_possiblyCanceledSubscriptionShouldNotReceiveOnErrorOrOnCompleteSignals",
)
def nothing_after_a_cancel(stage: Stage) -> None:
    """At every step of a stream, also with much on its way: the monitor sees that not one frame follows."""
    streams, peer = stage.giving()
    source = Left(size=8192)  # so that what fills the buffers is soon looked through
    streams.publish("p", stage.source(source))
    for demand, seen in ((0, 0), (3, 0), (3, 1), (3, 3), (100_000, 10), (UNBOUNDED, 10)):
        stream = peer.subscribe("p", demand)
        peer.hear_elements(stream, seen)
        peer.cancel(stream)
        peer.sync()
        heard = len(peer.heard(stream))
        peer.request(stream, 10)
        peer.sync()
        assert len(peer.heard(stream)) == heard
        assert peer.ends(stream) == []
    until(lambda: source.closed >= 4, "closing what was read from")


@rule("1.8", "required_spec312_cancelMustMakeThePublisherToEventuallyStopSignaling")
def a_source_that_waits_is_left_when_it_is_cancelled(stage: Stage) -> None:
    streams, peer = stage.giving()
    closed, gate = [], stage.gate()

    def waits() -> Iterator[Any]:
        try:
            yield b"first"
            yield gate
            yield b"second"
        finally:
            closed.append(True)

    streams.publish("p", lambda _name: stage.world.waiting(waits()))
    stream = peer.subscribe("p", 10)
    peer.hear_elements(stream, 1)
    peer.cancel(stream)
    peer.sync()
    gate.open()
    until(lambda: closed, "closing the source")
    peer.sync()
    assert peer.heard(stream) == [Subscribed(stream), OnNext(stream, b"first")]


@rule(
    "1.9",
    "required_spec109_mustIssueOnSubscribeForNonNullSubscriber",
    "required_spec109_mayRejectCallsToSubscribeIfPublisherIsUnableOrUnwillingToServeThemRejectionMustTriggerOnErrorAfterOnSubscribe",
    "untested_spec109_subscribeShouldNotThrowNonFatalThrowable",
)
def each_subscription_is_answered_once(stage: Stage) -> None:
    """Also one that is refused: it is unknown, or the access rules are against it."""
    acl = Acl(default=Rights(subscribe=(("open*", "*"),)))
    streams, peer = stage.giving(acl=acl)
    streams.publish("open", stage.source([b"1"]))
    streams.publish("secret", stage.source([b"1"]))
    expected = {"open": "", "open but unknown": "R-14", "secret": "D-4", "\0\n": "D-4", "": "D-4"}
    for name, said in expected.items():
        stream = peer.subscribe(name, 2)
        end = peer.hear_end(stream)
        peer.sync()
        assert [type(frame) for frame in peer.heard(stream)].count(Subscribed) == 1
        assert peer.heard(stream)[0] == Subscribed(stream)
        if said:
            assert said in end.message
            assert len(peer.heard(stream)) == 2


@rule("1.9", "required_spec109_subscribeThrowNPEOnNullSubscriber")
def publishing_nothing(stage: Stage) -> None:
    streams = stage.open()
    for name, source in ((None, []), (b"p", []), ("p", None), ("p", 5), ("p", "text"), ("p", b"bytes")):
        with pytest.raises(TypeError):
            streams.publish(name, source)
    streams.publish("p", stage.source([]))
    with pytest.raises(ValueError, match="published already"):
        streams.publish("p", [])
    with pytest.raises(TypeError, match="codec"):
        streams.publish("q", [], codec=object())
    with pytest.raises(ValueError, match="element_size"):
        streams.publish("q", [], element_size=-1)


@rule("1.10", "untested_spec110_rejectASubscriptionRequestIfTheSameSubscriberSubscribesTwice")
def an_id_that_is_active_is_refused(stage: Stage) -> None:
    """Another subscription to the same name has an id of its own; the same id is an error of the connection (R-13)."""
    streams, peer = stage.giving()
    streams.publish("p", stage.source(endless))
    one, two = peer.subscribe("p", 1), peer.subscribe("p", 2)
    assert peer.hear_elements(one, 1) == [b"x"]
    assert peer.hear_elements(two, 2) == [b"x"] * 2
    peer.say(Subscribe("p", one, 1))
    peer.hear(lambda: peer.all(Goodbye))
    assert "duplicate" in peer.all(Goodbye)[0].reason
    until(lambda: not streams.peers(), "the end of the connection")


@rule("1.11", "optional_spec111_maySupportMultiSubscribe")
@rule("1.11", "optional_spec111_registeredSubscribersMustReceiveOnNextOrOnCompleteSignals")
@rule(
    "1.11",
    "optional_spec111_multicast_mustProduceTheSameElementsInTheSameSequenceToAllOfItsSubscribersWhenRequestingOneByOne",
    "optional_spec111_multicast_mustProduceTheSameElementsInTheSameSequenceToAllOfItsSubscribersWhenRequestingManyUpfront",
    "optional_spec111_multicast_mustProduceTheSameElementsInTheSameSequenceToAllOfItsSubscribersWhenRequestingManyUpfrontAndCompleteAsExpected",
)
def each_subscriber_gets_all(stage: Stage) -> None:
    """One by one, many at once, and on another connection."""
    streams, peer = stage.giving()
    other = stage.dial(streams)
    streams.publish("p", stage.source(numbered(20)))
    single, many, there = peer.subscribe("p", 0), peer.subscribe("p", 21), other.subscribe("p", 100)
    for count in range(1, 21):
        peer.request(single, 1)
        assert peer.hear_elements(single, count) == numbered(count)
    peer.request(single, 1)
    for script, stream in ((peer, single), (peer, many), (other, there)):
        assert script.hear_end(stream) == OnComplete(stream)
        assert script.elements(stream) == numbered(20)


@rule("1.11", "optional_spec111_maySupportMultiSubscribe")
def what_can_be_read_once_has_one_subscriber(stage: Stage) -> None:
    streams, peer = stage.giving()
    streams.publish("p", stage.source(iter(numbered(3))))
    first = peer.subscribe("p", 1)
    peer.hear_elements(first, 1)
    second = peer.subscribe("p", 5)
    refused = peer.hear_end(second)
    assert peer.heard(second) == [Subscribed(second), refused]
    assert "read but once" in refused.message
    peer.request(first, 5)
    assert peer.hear_end(first) == OnComplete(first)
    assert peer.elements(first) == numbered(3)


@rule(
    "3.2",
    "required_spec302_mustAllowSynchronousRequestCallsFromOnNextAndOnSubscribe",
    "required_spec303_mustNotAllowUnboundedRecursion",
    "required_validate_boundedDepthOfOnNextAndRequestRecursion",
)
def one_by_one(stage: Stage) -> None:
    """Each element is asked for when the one before has come, the first before the answer to the subscription."""
    streams, peer = stage.giving()
    streams.publish("p", stage.source(endless))
    stream = peer.subscribe("p")
    for count in range(1, 201):
        peer.request(stream, 1)
        peer.hear_elements(stream, count)
    peer.sync()
    assert len(peer.elements(stream)) == 200


@rule(
    "3.4",
    "untested_spec304_requestShouldNotPerformHeavyComputations",
    "untested_spec305_cancelMustNotSynchronouslyPerformHeavyComputation",
)
def many_requests_and_cancels(stage: Stage) -> None:
    """A thousand of each, and others are served meanwhile."""
    streams, peer = stage.giving()
    streams.publish("p", stage.source(endless))
    stream, other = peer.subscribe("p"), peer.subscribe("p")
    peer.say(*(Request(stream, 1) for _ in range(1000)), Request(other, 1))
    assert peer.hear_elements(other, 1)
    assert len(peer.hear_elements(stream, 1000)) == 1000
    for _ in range(1000):
        peer.cancel(stream)
    peer.sync()
    peer.request(other, 1)
    assert len(peer.hear_elements(other, 2)) == 2


@rule(
    "3.6",
    "required_spec306_afterSubscriptionIsCancelledRequestMustBeNops",
    "required_spec307_afterSubscriptionIsCancelledAdditionalCancelationsMustBeNops",
)
def words_after_a_cancel(stage: Stage) -> None:
    streams, peer = stage.giving()
    streams.publish("p", stage.source(endless))
    stream = peer.subscribe("p", 1)
    peer.hear_elements(stream, 1)
    for _ in range(3):
        peer.cancel(stream)
        peer.request(stream, 1)
        peer.request(stream, 0)
    peer.sync()
    assert peer.heard(stream) == [Subscribed(stream), OnNext(stream, b"x")]


@rule(
    "3.9",
    "required_spec309_requestZeroMustSignalIllegalArgumentException",
    "required_spec309_requestNegativeNumberMustSignalIllegalArgumentException",
    "optional_spec309_requestNegativeNumberMaySignalIllegalArgumentExceptionWithSpecificMessage",
)
def a_request_of_nothing(stage: Stage) -> None:
    """On the wire; or a negative demand with the subscription."""
    streams, peer = stage.giving()
    source = Left()
    streams.publish("p", stage.source(source))
    for demand, count in ((1, 0), (1, -1), (0, -(2**63)), (-1, None)):
        stream = peer.subscribe("p", demand)
        peer.hear_elements(stream, max(0, demand))
        if count is not None:
            peer.request(stream, count)
        end = peer.hear_end(stream)
        peer.sync()
        assert peer.heard(stream)[0] == Subscribed(stream)
        assert peer.heard(stream)[-1] == end
        assert "3.9" in end.message
    until(lambda: source.closed >= 2, "closing what was read from")
    assert streams.stats()["streams_given"] == 0


@rule(
    "3.10",
    "untested_spec310_requestMaySynchronouslyCallOnNextOnSubscriber",
    "untested_spec311_requestMaySynchronouslyCallOnCompleteOrOnError",
)
def a_request_is_answered_without_another_word(stage: Stage) -> None:
    """Elements and the end follow one request."""
    streams, peer = stage.giving()
    streams.publish("p", stage.source(numbered(2)))
    stream = peer.subscribe("p")
    peer.request(stream, 3)
    peer.hear_end(stream)
    assert peer.elements(stream) == numbered(2)


@rule("3.13", "required_spec313_cancelMustMakeThePublisherEventuallyDropAllReferencesToTheSubscriber")
def nothing_is_kept_of_a_stream(stage: Stage) -> None:
    """The source is dead, and the tables are empty."""
    streams, peer = stage.giving()

    class Source:
        def __iter__(self) -> Iterator[bytes]:
            return endless("")

        def close(self) -> None:
            pass

    alive: weakref.WeakSet[Source] = weakref.WeakSet()

    def opened(_name: str) -> Source:
        source = Source()
        alive.add(source)
        return source

    streams.publish("p", stage.source(opened))
    for turn in range(50):
        stream = peer.subscribe("p", turn % 3)
        if turn % 2:
            peer.hear_elements(stream, turn % 3)
        peer.cancel(stream)
        peer.sync()

    def gone() -> bool:
        streams._look(lambda _: gc.collect())
        return not alive

    until(gone, "the end of all sources")
    assert streams.stats()["streams_given"] == 0
    assert streams._look(lambda it: (len(it._outbound), len(it._unflushed))) == (0, 0)


@rule("3.14", "untested_spec314_cancelMayCauseThePublisherToShutdownIfNoOtherSubscriptionExists")
def a_publication_is_withdrawn(stage: Stage) -> None:
    """After the last cancel the publisher may go: streams that run go on, new ones are refused, the name is free."""
    streams, peer = stage.giving()
    publication = streams.publish("p", stage.source(endless))
    running, left = peer.subscribe("p", 1), peer.subscribe("p", 1)
    peer.hear_elements(running, 1)
    peer.cancel(left)
    peer.sync()
    publication.close()
    publication.close()
    refused = peer.subscribe("p", 1)
    assert "R-14" in peer.hear_end(refused).message
    peer.request(running, 1)
    assert len(peer.hear_elements(running, 2)) == 2
    peer.cancel(running)
    peer.sync()
    streams.publish("p", stage.source([]))
    assert isinstance(peer.hear_end(peer.subscribe("p", 1)), OnComplete)


@rule(
    "3.17",
    "required_spec317_mustSupportAPendingElementCountUpToLongMaxValue",
    "required_spec317_mustSupportACumulativePendingElementCountUpToLongMaxValue",
    "required_spec317_mustNotSignalOnErrorWhenPendingAboveLongMaxValue",
    "required_validate_maxElementsFromPublisher",
)
def demand_without_bound(stage: Stage) -> None:
    streams, peer = stage.giving()
    streams.publish("p", stage.source(lambda _name: (b"x" for _ in range(5000))))
    for counts in ([UNBOUNDED], [UNBOUNDED // 2] * 3, [UNBOUNDED, UNBOUNDED, 1]):
        stream = peer.subscribe("p")
        peer.say(*(Request(stream, count) for count in counts))
        assert peer.hear_end(stream) == OnComplete(stream)
        assert len(peer.elements(stream)) == 5000


@pytest.mark.parametrize(("kind", "form", "case"), RULES.params(own=("asyncio", "trio", "twisted")))
def test_rule(case: Case, stage: Stage, form: Form, record_property: Callable[[str, object], None]) -> None:
    play(case, stage, record_property)


@EACH_ADAPTER
def test_a_name_in_brackets_is_a_name(stage: Stage) -> None:
    """And a pattern for others, which come after it."""
    streams, peer = stage.giving()
    streams.publish("sensor?1?", stage.source([b"any"]))
    streams.publish("sensor[1]", stage.source([b"this"]))
    for name, element in {"sensor[1]": b"this", "sensor1": b"this", "sensor-1-": b"any"}.items():
        stream = peer.subscribe(name, 1)
        assert peer.hear_elements(stream, 1)[-1:] == [element]
        peer.hear_end(stream)


@EACH_ADAPTER
def test_bytes_count_from_the_first_element(stage: Stage) -> None:
    """Of sixteen large ones no more are pulled than have left, and one."""
    pulled: list[int] = []

    def large(_name: str) -> Iterator[bytes]:
        for number in range(16):
            pulled.append(number)
            yield bytes(12 * 2**20)

    streams, peer = stage.giving()
    streams.publish("large", large)
    streams.publish("small", [b"x"])
    peer.subscribe("large", 16)
    until(lambda: pulled, "the first one")
    other = stage.dial(streams)
    assert other.hear_end(other.subscribe("small", 1)) == OnComplete(1)
    assert len(pulled) <= 3, "the socket takes one and a part, and one waits"
