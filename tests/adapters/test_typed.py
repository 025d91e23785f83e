"""Typed bodies: values go in, values come out, and what does not decode has failed (P-40 to P-43)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from tolliver.codecs import Json, TypedDelivery, decoding

from tests.codecs.kinds import HOSTILE
from tolliver_proto import Limits, NoticeKind, Policy
from tolliver_proto.errors import BodyNotEncoded

from .facade import Items, until
from .kinds import EACH_ADAPTER
from .nodes import AGAIN, Nodes, address, noticed, subscribed
from .streams import Stage


@dataclass
class Reading:
    percent: int


READINGS = Json(Reading)
POISON = b'{"percent": "much"}'
# Where something must come again soon, a copy of what was handled may come, too: `dedupe` takes it away.


def taken(items: Items, count: int) -> list[Any]:
    found = []
    for _ in range(count):
        item = next(items)
        found.append(item.value)
        item.ack()
    return found


def test_values_reach_handlers_and_iterators(nodes: Nodes) -> None:
    handled: list[Reading] = []

    def handle(delivery: TypedDelivery[Reading]) -> None:
        handled.append(delivery.value)

    with nodes.pair(channels=()) as (left, right, _):
        items = right.messages("readings", "cpu0", codec=READINGS, subscribe=False)
        right.subscribe("readings", handler=handle, codec=READINGS)
        subscribed(left)
        left.wait_acked(left.send("readings", "cpu1", Reading(4), codec=READINGS))
        first = left.send("readings", "cpu0", Reading(17), codec=READINGS)
        assert taken(items, 1) == [Reading(17)]
        left.wait_acked(first)
        many = left.send_many([("readings", "cpu0", Reading(percent)) for percent in (18, 19)], codec=READINGS)
        assert taken(items, 2) == [Reading(18), Reading(19)]
        left.wait_acked(many)
        assert left.unreliable_send("readings", "cpu0", Reading(20), codec=READINGS) == 1
        assert taken(items, 1) == [Reading(20)]
        until(lambda: handled == [Reading(percent) for percent in (4, 17, 18, 19, 20)])
        items.close()


def test_a_handler_that_takes_its_time_gets_values_too(nodes: Nodes) -> None:
    gate = nodes.gate()
    with nodes.pair(channels=()) as (left, right, _):
        right.register_callback("readings", "", lambda delivery: gate.open(delivery.value), codec=READINGS)
        right.subscribe("readings")
        subscribed(left)
        left.wait_acked(left.send("readings", "", Reading(17), codec=READINGS))
        assert gate.future.result() == Reading(17)


def test_handlers_of_the_opening_get_values_too(nodes: Nodes) -> None:
    seen: list[Reading] = []
    handler = decoding(READINGS, lambda delivery: seen.append(delivery.value))
    given: dict[str, Any] = {"subscriptions": ["readings"], "handlers": [("readings", "", handler)]}
    with nodes.open("right", **given) as right, nodes.open("left") as left:
        left.new_connection(address(right))
        left.wait_acked(left.send("readings", "", Reading(17), codec=READINGS))
        assert seen == [Reading(17)]


def test_a_body_that_does_not_decode_fails_its_handler_until_it_is_a_dead_letter(
    nodes: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    """T-47: after the usual count."""
    seen: list[Reading] = []
    limits = Limits(max_attempts=2)
    with nodes.pair(channels=(), left=AGAIN, right={"limits": limits, "policy": Policy(dedupe=100)}) as (
        left,
        right,
        _,
    ):
        right.subscribe("readings", handler=lambda delivery: seen.append(delivery.value), codec=READINGS)
        subscribed(left)
        receipt = left.send("readings", "cpu0", POISON)
        left.wait_acked(left.send("readings", "cpu0", Reading(17), codec=READINGS))
        left.wait_acked(receipt)
        letter = right.dead_letters()[0]  # a copy that comes before it is on disk is tried once more (T-47)
        assert (letter.channel, letter.key, letter.body, letter.attempts) == ("readings", "cpu0", POISON, 2)
        assert letter.peer == left.instance_id
        told = noticed(right, NoticeKind.HANDLER_FAILED)[0]
        assert f"did not get it: the body of 'readings' 'cpu0' from peer {left.instance_id} has no value" in told
        assert "Json(Reading) raised ValidationError" in told
        assert seen == [Reading(17)]
    logged = [record for record in caplog.records if "handler_failed" in record.getMessage()]
    assert len(logged) >= 2
    assert all(record.exc_info for record in logged)


def test_an_iterator_leaves_out_what_does_not_decode_and_goes_on(nodes: Nodes) -> None:
    limits = Limits(max_attempts=2)
    with nodes.pair(channels=(), left=AGAIN, right={"limits": limits, "policy": Policy(dedupe=100)}) as (
        left,
        right,
        _,
    ):
        right.subscribe("readings")
        items = right.messages("readings", codec=READINGS)
        subscribed(left)
        bad = left.send("readings", "cpu0", POISON)
        good = left.send("readings", "cpu0", Reading(17), codec=READINGS)
        assert taken(items, 1) == [Reading(17)]
        left.wait_acked(good)
        waiting = items.start_next()
        left.wait_acked(bad)
        assert {letter.body for letter in right.dead_letters()} == {POISON}
        told = noticed(right, NoticeKind.HANDLER_FAILED)[0]
        assert f"attempt 1 of peer {left.instance_id}'s message, did not get it: the body of 'readings'" in told
        left.send("readings", "cpu0", Reading(18), codec=READINGS)
        last = items.settled(waiting.wait())
        assert last.value == Reading(18)
        assert repr(last) == f"TypedDelivery('readings', 'cpu0', {len(last.body)} bytes, id={last.message_id})"
        last.fail()
        assert repr(items).startswith("<TypedMessages of 'readings' ''")
        items.close()
        assert repr(items).endswith("(closed)>")
        with pytest.raises(StopIteration):
            next(items)


@EACH_ADAPTER
def test_hostile_bodies_fail_one_by_one(nodes: Nodes) -> None:
    """On whatever thread they are decoded: none of them ends it, and none has a value."""
    limits = Limits(max_attempts=1)
    with nodes.pair(channels=(), right={"limits": limits, "policy": Policy(dedupe=100)}) as (left, right, _):
        right.subscribe("readings")
        items = right.messages("readings", codec=READINGS)
        right.register_callback("readings", "", lambda delivery: delivery.value, codec=Json(list))
        subscribed(left)
        left.send_many([("readings", name, body) for name, body in HOSTILE.items()])
        left.send("readings", "", Reading(17), codec=READINGS)
        assert next(items).value == Reading(17)
        until(lambda: {letter.key for letter in right.dead_letters()} >= {*HOSTILE})
        items.close()


def test_runs_have_values_and_leave_out_what_has_none(nodes: Nodes) -> None:
    limits = Limits(max_attempts=1)
    with nodes.pair(channels=(), left=AGAIN, right={"limits": limits, "policy": Policy(dedupe=100)}) as (
        left,
        right,
        _,
    ):
        right.subscribe("readings")
        runs = right.message_runs("readings", codec=READINGS)
        subscribed(left)
        left.send("readings", "", POISON)  # alone it is no run
        receipt = left.send_many([("readings", "", body) for body in (b'{"percent":1}', POISON, b'{"percent":2}')])
        found: list[Reading] = []
        while len(found) < 2:
            run = next(runs)
            assert "not settled" in repr(run)
            assert len(run) == len(list(run)) > 0
            assert run[0].value == next(iter(run)).value
            found += [one.value for one in run]
            assert not run.settled
            run.ack()
            assert run.settled
        assert found == [Reading(1), Reading(2)]
        left.wait_acked(receipt)
        assert {letter.body for letter in right.dead_letters()} == {POISON}
        left.send("readings", "", Reading(3), codec=READINGS)
        next(runs).fail()
        assert right.stats().failed >= 1
        assert repr(runs).startswith("<TypedRuns of")
        runs.close()
        with pytest.raises(StopIteration):
            next(runs)


def test_a_block_that_is_left_closes_the_iterator(nodes: Nodes) -> None:
    class Leaving(Exception):
        pass

    with nodes.pair(channels=()) as (left, right, _):
        items = right.messages("readings", codec=READINGS)
        right.subscribe("readings")
        subscribed(left)
        left.send("readings", "", Reading(1), codec=READINGS)
        assert items.leave(Leaving()).value == Reading(1)
        assert "closed" in repr(items)


def test_two_handlers_have_a_value_each(nodes: Nodes) -> None:
    """With a codec of its own: one of them may have no use for the body."""
    seen: list[object] = []
    with nodes.pair(channels=()) as (left, right, _):
        right.subscribe("readings", handler=lambda delivery: seen.append(delivery.value), codec=READINGS)
        items = right.messages("readings", codec=Json(dict), subscribe=False)
        subscribed(left)
        receipt = left.send("readings", "", Reading(1), codec=READINGS)
        assert taken(items, 1) == [{"percent": 1}]
        left.wait_acked(receipt)
        assert seen == [Reading(1)]
        items.close()


def test_nothing_is_stored_of_a_value_that_does_not_encode(nodes: Nodes) -> None:
    with nodes.pair(["readings"]) as (left, _, inbox):
        for name, arguments in (
            ("send", ("readings", "cpu0", "no reading")),
            ("send_many", ([("readings", "cpu0", Reading(1)), ("readings", "cpu0", None)],)),
            ("unreliable_send", ("readings", "cpu0", "no reading")),
        ):
            with pytest.raises(
                BodyNotEncoded, match=r"'readings' 'cpu0' has no body: Json\(Reading\) raised TypeError"
            ):
                left.start(name, *arguments, codec=READINGS).wait()
        assert left.stats().pending == 0
        left.wait_acked(left.send("readings", "cpu0", b"last"))
        assert inbox.bodies == [b"last"]


@EACH_ADAPTER
def test_no_codec_and_no_handler_are_refused(nodes: Nodes) -> None:
    with nodes.open("right") as right:
        for name, arguments in (
            ("send", ("c", "k", b"")),
            ("messages", ("c",)),
            ("message_runs", ("c",)),
            ("register_callback", ("c", "", print)),
            ("subscribe", ("c", "", print)),
        ):
            with pytest.raises(TypeError, match="codec is 5"):
                right.start(name, *arguments, codec=5).wait()
        with pytest.raises(TypeError, match="handler 5 cannot be called"):
            right.start("subscribe", "c", "", 5, codec=READINGS).wait()
        assert right.start("subscriptions").wait() == []


def test_streams_have_the_same_codecs(stage: Stage) -> None:
    publisher, subscriber, _ = stage.pair()
    publisher.publish("readings", stage.source([Reading(1), Reading(2)]), codec=READINGS)
    assert list(subscriber.subscribe("readings", codec=READINGS)) == [Reading(1), Reading(2)]
    assert list(subscriber.subscribe("readings", codec=Json(dict))) == [{"percent": 1}, {"percent": 2}]


@EACH_ADAPTER
def test_a_call_without_a_codec_calls_nothing_of_it(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs a comparison."""
    from tolliver.codecs import _bodies, _codec

    def called(*_arguments: object) -> object:
        raise AssertionError("called")

    for module, names in ((_bodies, ("coding_of", "_encoded")), (_codec, ("coding_of",))):
        for name in names:
            monkeypatch.setattr(module, name, called)
    with nodes.pair() as (left, right, inbox):
        left.wait_acked(left.send("news", "", b"1"))
        left.wait_acked(left.send_many([("news", "", b"2")]))
        left.unreliable_send("news", "", b"3")
        inbox.holds(3)
        items = right.messages("news", subscribe=False)
        receipt = left.send("news", "", b"4")
        next(items).ack()
        left.wait_acked(receipt)
        items.close()
