"""Codecs of the patterns: requests, work queues and last values (P-46 to P-48)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from tolliver.codecs import Json, TypedRequest

from tolliver_proto import Limits, NoticeKind, Policy
from tolliver_proto.errors import BodyNotDecoded, BodyNotEncoded, RequestFailed

from .facade import Facade, Gate, until
from .kinds import EACH_ADAPTER
from .nodes import AGAIN, Nodes, address, noticed, subscribed


@dataclass
class Sum:
    parts: list[int]


@dataclass
class Total:
    value: int


SUMS, TOTALS = Json(Sum), Json(Total)
POISON = b'{"parts": "many"}'


def total(request: TypedRequest[Sum]) -> Total:
    return Total(sum(request.value.parts))


@contextmanager
def connected(nodes: Nodes, right: Any = None) -> Iterator[tuple[Facade, Facade]]:
    with nodes.open("right", **(right or {})) as there, nodes.open("left", **AGAIN) as here:
        here.new_connection(address(there))
        yield here, there


def test_values_are_asked_and_answered(nodes: Nodes) -> None:
    gate = nodes.gate()
    seen: list[TypedRequest[Sum]] = []

    def slow(request: TypedRequest[Sum]) -> Gate:
        seen.append(request)
        return gate.open(total(request))

    with connected(nodes) as (left, right):
        right.respond("sums", total, codec=SUMS, reply_codec=TOTALS)
        right.respond("slow", slow, "k", codec=SUMS, reply_codec=TOTALS)
        right.respond("echo", lambda request: request.value, codec=SUMS)
        subscribed(left, 3)
        reply = left.request("sums", Sum([1, 2]), codec=SUMS, reply_codec=TOTALS)
        assert (reply.value, reply.body, reply.peer_id) == (Total(3), b'{"value":3}', right.instance_id)
        reply = left.request("slow", Sum([4]), "k", codec=SUMS, reply_codec=TOTALS, durable=True, timeout=30)
        assert reply.value == Total(4)
        assert (seen[0].channel, seen[0].key, seen[0].body) == ("slow", "k", b'{"parts":[4]}')
        assert repr(seen[0]).startswith("TypedRequest('slow', 'k', 13 bytes, id=")
        (reply,) = left.gather("echo", Sum([5]), codec=SUMS)
        assert (reply.value, reply.error) == (Sum([5]), None)
        assert left.request("sums", b'{"parts":[6]}').body == b'{"value":6}'


def test_a_request_that_does_not_decode_fails_at_its_requester(nodes: Nodes) -> None:
    with connected(nodes) as (left, right):
        right.respond("sums", total, codec=SUMS, reply_codec=TOTALS)
        subscribed(left)
        with pytest.raises(RequestFailed) as caught:
            left.request("sums", POISON, "k")
        told = f"the body of 'sums' 'k' from peer {left.instance_id} has no value: Json(Sum) raised ValidationError"
        assert str(caught.value).startswith(told)
        notice = noticed(right, NoticeKind.RESPONDER_FAILED)[0]
        assert f"did not get it: {told}" in notice
        assert notice.endswith("the requester is told")
        assert right.dead_letters() == []
        assert left.request("sums", Sum([1]), codec=SUMS, reply_codec=TOTALS).value == Total(1)


def test_a_reply_without_a_body_or_without_a_value_is_a_failure(nodes: Nodes) -> None:
    gate = nodes.gate()
    with connected(nodes) as (left, right):
        right.respond("none", lambda request: "no total", codec=SUMS, reply_codec=TOTALS)
        right.respond("later", lambda request: gate.open("no total"), codec=SUMS, reply_codec=TOTALS)
        right.respond("sums", total, codec=SUMS, reply_codec=TOTALS)
        subscribed(left, 3)
        for channel in ("none", "later"):
            with pytest.raises(RequestFailed, match=f"the value for '{channel}' '' has no body: Json.Total. raised"):
                left.request(channel, Sum([]), codec=SUMS, reply_codec=TOTALS)
        with pytest.raises(RequestFailed, match="the reply does not decode: the body of 'sums' '' from") as caught:
            left.request("sums", Sum([1]), codec=SUMS)
        assert isinstance(caught.value.__cause__, BodyNotDecoded)
        assert caught.value.peer == right.instance_id
        (reply,) = left.gather("sums", Sum([1]), codec=SUMS)
        assert "does not decode" in str(reply.error)
        (failed,) = left.gather("none", Sum([1]), codec=SUMS)
        for one in (reply, failed):
            with pytest.raises(RequestFailed):
                _ = one.value


def test_jobs_have_values(nodes: Nodes) -> None:
    with connected(nodes) as (worker, boss):
        queue = boss.work_queue("sums", codec=SUMS)
        assert repr(queue) == "<WorkQueue of 'sums'>"
        first, rest = queue.put(Sum([1]), "k"), queue.put_many([("", Sum([2])), ("l", Sum([3]))])
        with worker.work("sums", concurrency=2, codec=SUMS) as jobs:
            for key, value in (("k", 1), ("", 2), ("l", 3)):
                job = next(jobs)
                assert (job.key, job.value) == (key, Sum([value]))
                job.ack()
            for receipt in (first, rest):
                boss.wait_acked(receipt)
            assert repr(jobs).startswith("<TypedWork of 'sums'")
        assert queue.pending() == []
        assert queue.cancel([]) == queue.reassign(worker.instance_id) == 0


def test_a_job_that_does_not_decode_is_a_dead_letter_after_the_usual_count(nodes: Nodes) -> None:
    with (
        nodes.open("boss", **AGAIN) as boss,
        nodes.open("worker", limits=Limits(max_attempts=2), policy=Policy(dedupe=100)) as worker,
    ):
        worker.new_connection(address(boss))
        bad, good = boss.work_queue("sums").put_many([("k", POISON)]), boss.work_queue("sums", codec=SUMS).put(Sum([1]))
        with worker.work("sums", codec=SUMS) as jobs:
            job = next(jobs)
            assert job.value == Sum([1])
            job.ack()
            boss.wait_acked(good)
            waiting = jobs.start_next()
            boss.wait_acked(bad)
            letter = worker.dead_letters()[0]  # a copy that comes before it is on disk is tried once more (T-47)
            assert (letter.channel, letter.key, letter.body, letter.attempts) == ("sums", "k", POISON, 2)
            assert not waiting.done
        told = noticed(worker, NoticeKind.HANDLER_FAILED)[0]
        assert f"did not get it: the body of 'sums' 'k' from peer {boss.instance_id} has no value" in told


def test_nothing_is_put_that_does_not_encode(nodes: Nodes) -> None:
    with nodes.open("boss") as boss:
        queue = boss.work_queue("sums", codec=SUMS)
        with pytest.raises(BodyNotEncoded, match=r"'sums' 'k' has no body: Json\(Sum\) raised TypeError"):
            queue.put("no sum", "k")
        with pytest.raises(BodyNotEncoded):
            queue.put_many([("", Sum([1])), ("", None)])
        with pytest.raises(TypeError, match=r"the job is Sum\(parts=\[1\]\): give a \(key, value\) pair"):
            queue.put_many([Sum([1])])
        assert queue.pending() == []


def test_last_values_have_values(nodes: Nodes) -> None:
    seen: list[Any] = []
    with connected(nodes) as (left, right):
        left.retain("totals", "a", Total(1), codec=TOTALS)
        left.retain("totals", "b", Total(2), codec=TOTALS)
        left.retain("totals", "c", b"no total")
        left.retain("totals", "a", None, codec=TOTALS)
        with pytest.raises(BodyNotEncoded):
            left.retain("totals", "b", Sum([1]), codec=TOTALS)
        kept, other = left._call("retained", "totals", codec=TOTALS)
        assert (kept.channel, kept.key, kept.value, kept.body) == ("totals", "b", Total(2), b'{"value":2}')
        assert kept.stored_at > 1.7e9
        assert kept.size == len("totals" + "b") + len(kept.body)
        with pytest.raises(BodyNotDecoded, match=f"'totals' 'c' from peer {left.instance_id} has no value: Json"):
            _ = other.value
        right.subscribe("totals", "b", handler=lambda delivery: seen.append(delivery.value), codec=TOTALS)
        until(lambda: seen == [Total(2)])


def test_subscribing_has_the_choices_of_a_registration(nodes: Nodes) -> None:
    gates = [nodes.gate(), nodes.gate()]
    begun: list[Total] = []

    def handle(delivery: Any) -> Gate:
        begun.append(delivery.value)
        return gates[len(begun) - 1]

    with connected(nodes, {"policy": Policy(dedupe=100)}) as (left, right):  # a copy that comes late is not handled
        right.subscribe("totals", handler=handle, codec=TOTALS, concurrency=2, ordered_by="key", pending=10)
        subscribed(left)
        receipt = left.send_many([("totals", key, Total(1)) for key in ("a", "a", "b")], codec=TOTALS)
        until(lambda: len(begun) == 2)
        gates.append(nodes.gate().open())
        for gate in gates:
            gate.open()
        left.wait_acked(receipt)
        assert len(begun) == 3
        with pytest.raises(TypeError, match="choices of a handler"):
            right.subscribe("more", concurrency=2)
        with pytest.raises(ValueError, match="at least 1"):
            right.subscribe("more", handler=handle, concurrency=0)
        assert {one.channel for one in right._call("subscriptions")} == {"totals"}


@EACH_ADAPTER
def test_no_codec_is_refused_before_anything_is_done(nodes: Nodes) -> None:
    with nodes.open("right") as right:
        for name, arguments in (
            ("request", ("c", b"")),
            ("gather", ("c", b"")),
            ("respond", ("c", total)),
            ("work_queue", ("c",)),
            ("work", ("c",)),
            ("retain", ("c", "", b"")),
        ):
            with pytest.raises(TypeError, match="codec is 5"):
                right.start(name, *arguments, codec=5).wait()
        for name, last in (("request", b""), ("gather", b""), ("respond", total)):
            with pytest.raises(TypeError, match="reply_codec is given alone"):
                right.start(name, "c", last, reply_codec=TOTALS).wait()
            with pytest.raises(TypeError, match="codec is 5"):
                right.start(name, "c", Sum([]) if last == b"" else last, codec=SUMS, reply_codec=5).wait()
        with pytest.raises(TypeError, match="handler None cannot be called: give a function of a request"):
            right.start("respond", "c", None, codec=SUMS).wait()
        assert right.start("subscriptions").wait() == []
        assert right.start("retained", "sums", codec=SUMS).wait() == []
