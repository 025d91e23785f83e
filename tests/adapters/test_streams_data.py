"""Streams from one adapter to another: many, objects, patterns, sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.protobuf.wrappers_pb2 import StringValue
from tolliver._streams.publishing import OutboundStream

from tests.certificates import Certificates
from tolliver_proto.reactive import Limits, StreamError

from .facade import World, until
from .kinds import PAIRS
from .streams import FORMS, Stage

by_form = pytest.mark.parametrize("form", FORMS)


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@by_form
def test_many_streams_on_one_connection(stage: Stage) -> None:
    """Each has its own; two that nobody reads, one with a window of its own and one unbounded, hold back no other."""
    publisher, subscriber, _ = stage.pair()
    publisher.publish("to *", stage.source(lambda name: [name.encode()] * 100))
    publisher.publish("endless", stage.source(lambda _: iter(lambda: b"x" * 1000, None)))
    idle = [subscriber.subscribe("endless", prefetch=3), subscriber.subscribe("endless", prefetch=5000)]
    got: dict[int, list[bytes]] = {number: [] for number in range(40)}
    ends = [subscriber.subscribe(f"to {number}", prefetch=1 + number).for_each(got[number].append) for number in got]
    for end in ends:
        end.wait()
    assert got == {number: [b"to %d" % number] * 100 for number in got}
    assert publisher.stats()["streams_given"] == 2
    assert [next(one) for one in idle] == [b"x" * 1000] * 2
    for one in idle:
        one.cancel()


@by_form
def test_a_source_that_waits_holds_back_no_other(stage: Stage) -> None:
    publisher, subscriber, _ = stage.pair()
    gate = stage.gate()
    publisher.publish("waits", stage.waiting([b"1", gate, b"2"]))
    publisher.publish("runs", stage.source(numbered(1000)))
    slow = subscriber.subscribe("waits")
    assert next(slow) == b"1"
    assert list(subscriber.subscribe("runs")) == numbered(1000)
    gate.open()
    assert list(slow) == [b"2"]


@by_form
def test_both_sides_publish_on_one_connection(stage: Stage) -> None:
    listener, dialler, there = stage.pair()
    (back,) = listener.peers()
    for streams, letter in ((listener, b"l"), (dialler, b"d")):
        streams.publish("same", stage.source([letter * (1 + number % 50) for number in range(2000)]))
    got: dict[bytes, list[bytes]] = {b"l": [], b"d": []}
    ends = [
        there.subscribe("same", prefetch=16).for_each(got[b"l"].append),
        back.subscribe("same", prefetch=16).for_each(got[b"d"].append),
    ]
    for end in ends:
        end.wait()
    for letter, elements in got.items():
        assert elements == [letter * (1 + number % 50) for number in range(2000)]


def test_sizes(stage: Stage) -> None:
    """Nothing, a lot, and packed."""
    publisher, subscriber, _ = stage.pair()
    mixed = [b"", b"x" * 2**20, b"", b"y"] * 5
    small = [number.to_bytes(3, "big") for number in range(5000)]
    publisher.publish("mixed", mixed)
    publisher.publish("small", small, element_size=3)
    assert list(subscriber.subscribe("mixed")) == mixed
    packed = subscriber.subscribe("small", prefetch=1000)
    assert list(packed) == small
    assert packed.element_size == 3


def test_runs(stage: Stage) -> None:
    publisher, subscriber, _ = stage.pair()
    publisher.publish("p", numbered(2000))
    runs = list(subscriber.subscribe("p", prefetch=400).runs())
    assert [element for run in runs for element in run] == numbered(2000)
    assert max(map(len, runs)) <= 400


class Upper:
    """A codec of mine."""

    def encode(self, value: str) -> bytes:
        return value.upper().encode()

    def decode(self, raw: bytes) -> str:
        return raw.decode() + "!"


@by_form
def test_codecs(stage: Stage) -> None:
    """An object, and a protobuf class; an error of either side's ends that stream."""
    publisher, subscriber, _ = stage.pair()
    publisher.publish("texts", stage.source(["a", "b"]), codec=Upper())
    publisher.publish("messages", stage.source([StringValue(value="m"), StringValue()]), codec=StringValue)
    publisher.publish("wrong", stage.source(["good", 5]), codec=Upper())
    assert list(subscriber.subscribe("texts", codec=Upper())) == ["A!", "B!"]
    assert list(subscriber.subscribe("messages", codec=StringValue)) == [StringValue(value="m"), StringValue()]
    wrong = subscriber.subscribe("wrong", codec=Upper())
    assert next(wrong) == "GOOD!"
    with pytest.raises(StreamError, match="AttributeError"):
        next(wrong)
    assert list(subscriber.subscribe("texts")) == [b"A", b"B"]


@by_form
def test_patterns(stage: Stage) -> None:
    """The exact name first, then patterns in their order; each name is given to the function."""
    publisher, subscriber, _ = stage.pair()

    def named(mark: bytes) -> Callable[[str], Iterator[bytes]]:
        return lambda name: iter([mark, name.encode()])

    publisher.publish("sensors/*", stage.source(named(b"star")))
    publisher.publish("sensors/[ab]?", stage.source(named(b"never: the star is first")))
    publisher.publish("sensors/a1", stage.source(named(b"exact")))
    publication = publisher.publish("?", stage.source(named(b"one letter")))
    for name, mark in (("sensors/a1", b"exact"), ("sensors/b2", b"star"), ("sensors/", b"star"), ("x", b"one letter")):
        assert list(subscriber.subscribe(name)) == [mark, name.encode()]
    publication.close()
    for name in ("x", "sensor", "Sensors/a1"):
        with pytest.raises(StreamError, match="R-14"):
            list(subscriber.subscribe(name))


def test_a_source_that_has_to_be_awaited(stage: Stage) -> None:
    """A coroutine function that returns the elements; where nobody awaits, it is refused at once."""
    publisher, subscriber, _ = stage.pair()

    async def opened(name: str) -> list[bytes]:
        return [b"1", name.encode()]

    async def fails(name: str) -> list[bytes]:
        raise LookupError(name)

    if stage.world.kind == "blocking":
        with pytest.raises(TypeError, match="async"):
            publisher.publish("opened", opened)
        return
    publisher.publish("opened", opened)
    publisher.publish("fails", fails)
    assert list(subscriber.subscribe("opened")) == [b"1", b"opened"]
    with pytest.raises(StreamError, match="LookupError: fails"):
        list(subscriber.subscribe("fails"))


def test_a_reader_that_stops_stops_the_source(stage: Stage) -> None:
    """However much it has asked for, the source is read no further than what fits into buffers (R-32)."""
    publisher, subscriber, _ = stage.pair()
    pulled = 0

    def counted(_name: str) -> Iterator[bytes]:
        nonlocal pulled
        while True:
            pulled += 1
            yield b"x" * 65536

    publisher.publish("p", counted)
    held = subscriber.subscribe("p", demand=2**62, prefetch=0)
    other = subscriber.subscribe("nobody", prefetch=0)
    assert isinstance(other.start_next().outcome(), StreamError)
    assert held.take(5) == [b"x" * 65536] * 5
    held.cancel()
    assert pulled * 65536 < 2**28
    assert publisher.stats()["unsent_bytes"] <= 2 * 2**20


def test_a_subscriber_that_falls_behind_is_not_sent_more_than_it_holds(stage: Stage) -> None:
    """It wanted too much at once: reading pauses, goes on when something is taken or dropped, and nothing is lost."""
    publisher, subscriber = stage.open(), stage.open(listen=None, limits=Limits(max_unread=2**16))
    peer = subscriber.connect(publisher)
    publisher.publish("p", [b"%d" % number * 1000 for number in range(1000)])
    late = peer.subscribe("p", demand=2**40)
    until(lambda: subscriber.stats().get("paused"), "a pause")
    assert list(late) == [b"%d" % number * 1000 for number in range(1000)]
    dropped = peer.subscribe("p", demand=2**40)
    until(lambda: subscriber.stats()["paused"] > 1, "a pause")
    dropped.cancel()
    assert next(peer.subscribe("p", demand=1)) == b"0" * 1000
    assert subscriber.stats()["unread_bytes"] <= 2**16 + 2**20


@pytest.mark.parametrize(("publishing", "subscribing"), PAIRS)
def test_two_kinds(certs: Certificates, worlds: Callable[[str], World], publishing: str, subscribing: str) -> None:
    """Every kind with every other kind: elements, an end, an error, a cancel and a goodbye."""
    with Stage(worlds(publishing), certs, "own") as stage:
        publisher, subscriber = stage.open(), stage.open(worlds(subscribing))

        def fails(_name: str) -> Iterator[Any]:
            yield from numbered(3)
            raise ValueError("as it must")

        publisher.publish("p", stage.source(numbered(500)))
        publisher.publish("fails", stage.source(fails))
        subscriber.publish("back", [b"%03d" % number for number in range(500)], element_size=3)
        peer = subscriber.connect(publisher)
        assert list(peer.subscribe("p", prefetch=20)) == numbered(500)
        (back,) = publisher.peers()
        cut = back.subscribe("back")
        assert cut.take(200)[-1] == b"199"
        cut.cancel()
        failing = peer.subscribe("fails")
        assert failing.take(3) == numbered(3)
        with pytest.raises(StreamError, match="ValueError: as it must"):
            next(failing)
        peer.goodbye("done")


def test_a_source_learns_what_is_taken(stage: Stage) -> None:
    """Elements wanted before are done with when more are wanted; where all are wanted at once, those that went out."""
    publisher, subscriber, _ = stage.pair()
    told: dict[str, list[int]] = {"windows": [], "all at once": []}

    class Source:
        def __init__(self, name: str) -> None:
            self.name = name

        def __iter__(self) -> Iterator[bytes]:
            return iter(numbered(100))

        def _attach_outbound(self, feed: OutboundStream) -> None:
            feed.on_taken = told[self.name].append

    publisher.publish("*", Source)
    assert list(subscriber.subscribe("windows", prefetch=10)) == numbered(100)
    assert list(subscriber.subscribe("all at once", demand=2**63 - 1)) == numbered(100)
    assert 80 <= sum(told["windows"]) <= 100
    until(lambda: sum(told["all at once"]) == 100, "telling the source")
    assert min(told["windows"] + told["all at once"]) > 0
