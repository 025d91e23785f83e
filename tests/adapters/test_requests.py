"""Requests and replies over every adapter and loop (P-10 to P-17)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tolliver.codecs import Json

from tests.certificates import Certificates
from tests.ports import free_port
from tolliver_proto import ConnectionClosing, ConnectionLost, LocalProtocolError, NoticeKind, OwnLimitExceeded
from tolliver_proto.errors import AlreadyClosed, NoResponders, RequestFailed
from tolliver_proto.node import Request

from .facade import Cancelled, Facade, Gate, World, until
from .kinds import EACH_ADAPTER, ONE_KIND, PAIRS
from .nodes import AGAIN, Nodes, address, connected, noticed, subscribed

MIB = 2**20


def double(request: Request) -> bytes:
    return request.body * 2


@pytest.mark.parametrize(("asking", "answering"), PAIRS)
def test_two_kinds_ask_each_other(
    tmp_path: Path, certs: Certificates, worlds: Callable[[str], World], asking: str, answering: str
) -> None:
    """Each request is answered once, with its own answer, in both directions and at the same time."""
    lefts, rights = (Nodes(tmp_path, certs, worlds(kind)) for kind in (asking, answering))
    seen: Counter[bytes] = Counter()
    with rights.open("right") as right, lefts.open("left") as left:

        def note(request: Request) -> bytes:
            seen[request.body] += 1
            return request.channel.encode() + request.key.encode() + request.body + str(request.peer_id).encode()

        for one in (left, right):
            one.respond("notes", note, "k")
        left.new_connection(address(right))
        for one in (left, right):
            one.wait_subscribed("tolliver.request/notes", "k", timeout=30)
        handles = [
            (one, body, one.start("request", "notes", body, "k", timeout=50))
            for number in range(50)
            for one, body in ((left, b"l%d" % number), (right, b"r%d" % number))
        ]
        for one, body, handle in handles:
            reply, other = handle.wait(), right if one is left else left
            assert reply.body == b"notesk" + body + str(one.instance_id).encode()
            assert reply.peer_id == other.instance_id
        assert set(seen.values()) == {1}
        assert len(seen) == 100
        for one in (left, right):
            stats = one.stats()
            assert (stats.requests, stats.requests_answered, stats.replies) == (50, 50, 50)
            assert (stats.requests_outstanding, stats.late_replies) == (0, 0)


def pair(nodes: Nodes, handler: Callable[[Request], Any] = double, **options: Any) -> Any:
    """A responder, and an instance that is connected to it."""

    class Pair:
        def __enter__(self) -> tuple[Facade, Facade, Any]:
            self.right = nodes.open("right", **AGAIN).__enter__()
            self.left = nodes.open("left", **AGAIN).__enter__()
            self.responder = self.right.respond("double", handler, **options)
            self.left.new_connection(address(self.right))
            subscribed(self.left)
            return self.left, self.right, self.responder

        def __exit__(self, *_error: object) -> None:
            self.left.close()
            self.right.close()

    return Pair()


def test_an_answer_a_failure_nobody_and_no_time(nodes: Nodes) -> None:
    gate = nodes.gate()

    def handler(request: Request) -> Any:
        if request.body == b"wait":
            return gate
        if request.body == b"raise":
            raise ValueError("größer than it may be")
        if request.body == b"text":
            return "no bytes"
        if request.body == b"large":
            return bytes(17 * MIB)
        return request.body

    with pair(nodes, handler) as (left, right, responder):
        assert left.request("double", b"x").body == b"x"
        assert left.request("double", bytes(MIB)).body == bytes(MIB)
        with pytest.raises(RequestFailed, match=r"^größer than it may be$"):
            left.request("double", b"raise")
        with pytest.raises(RequestFailed, match="must be bytes, not str"):
            left.request("double", b"text")
        with pytest.raises(RequestFailed, match="limit"):
            left.request("double", b"large")
        with pytest.raises(NoResponders):
            left.request("others", b"x", wait=False)
        with pytest.raises(TimeoutError, match="no answer in time"):
            left.request("double", b"wait", timeout=0.01)
        gate.open(b"late")
        until(lambda: left.stats().late_replies == 1)
        assert "the requester is told" in noticed(right, NoticeKind.RESPONDER_FAILED)[0]
        assert "double" in repr(responder)
        responder.close()
        with pytest.raises(NoResponders):
            left.request("double", b"x", wait=False)
        responder.close()
        assert "(closed)" in repr(responder)


def test_a_request_waits_for_its_responder_within_its_time(nodes: Nodes) -> None:
    """P-13: from a client's second start on the subscription of a responder that is away is known, and no responder."""
    with nodes.open("left") as left, nodes.open("right", responders=[("double", "", double)]) as right:
        left.new_connection(address(right))
        assert left.wait_responder("double", timeout=30) == 1
        assert left.request("double", b"x", wait=False).body == b"xx"
    with nodes.open("left") as left:
        assert left.wait_subscribed("tolliver.request/double") == 1
        for call in ("request", "gather"):
            with pytest.raises(NoResponders, match=r"wait_responder\('double'\) waits"):
                left._call(call, "double", b"x", wait=False)
            with pytest.raises(NoResponders):
                left._call(call, "double", b"x", timeout=0.01)
        with pytest.raises(TimeoutError, match="fewer than 1 connected peers respond to 'double' ''"):
            left.wait_responder("double", timeout=0.01)
        with pytest.raises(TimeoutError, match="fewer than 1 connected peers subscribe to"):
            left.wait_subscribed("tolliver.request/double", connected=True, timeout=0.01)
        with pytest.raises(LocalProtocolError):
            left.wait_responder("")
        calls = [
            left.start("request", "double", b"x", timeout=50),
            left.start("gather", "double", b"y", timeout=50),
            left.start("request", "double", 21, codec=Json(int), timeout=50),
            left.start("wait_responder", "double", timeout=50),
            left.start("wait_subscribed", "tolliver.request/double", connected=True, timeout=50),
        ]
        until(lambda: left.stats().requests == 5)
        with nodes.open("right", responders=[("double", "", double, {"concurrency": 1})]) as right:
            right.new_connection(address(left))
            reply, replies, typed, *counted = [call.wait() for call in calls]
            assert (reply.body, [one.body for one in replies], typed.value) == (b"xx", [b"yy"], 2121)
            assert counted == [1, 1]


@EACH_ADAPTER
def test_a_request_that_nobody_answers_names_who_cannot_be_reached(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        left.start("new_connection", f"127.0.0.1:{free_port()}")
        until(lambda: any(one.error for one in left.remotes()), "a dial that fails")
        why = r"\(P-13\); not connected: 127\.0\.0\.1:\d+ \(.*refused.*; tried "
        for call in ("request", "gather"):
            with pytest.raises(NoResponders, match=why):
                left._call(call, "double", b"x", wait=False)
            with pytest.raises(NoResponders, match=why):
                left._call(call, "double", b"x", timeout=0.01)


@pytest.mark.parametrize("durable", [False, True])
def test_a_request_that_its_caller_cancels_is_over(nodes: Nodes, durable: bool) -> None:
    """Its number is free at once, and its reply comes late (P-14)."""
    if not nodes.world.can_cancel:
        return  # threads: see tests/blocking/test_threads.py
    gate, asked = nodes.gate(), []

    def handler(request: Request) -> Any:
        asked.append(request.request_id)
        return gate if len(asked) == 1 else request.body

    with pair(nodes, handler) as (left, _right, _responder):
        terms: dict[str, Any] = {"durable": durable, "request_id": 4711, "timeout": 50}
        handle = left.start("request", "double", b"first", **terms)
        until(lambda: asked)
        handle.cancel()
        with pytest.raises(Cancelled):
            handle.wait()
        assert left.stats().requests_outstanding == 0
        gate.open(b"late")
        until(lambda: left.stats().late_replies == 1)
        assert left.request("double", b"second", **terms).body == b"second"
        assert left.stats().requests_cancelled == 1


def test_what_takes_its_time_holds_up_no_other(nodes: Nodes) -> None:
    """Up to the responder's `concurrency`."""
    gates = {b"%d" % number: nodes.gate() for number in range(6)}
    at_work: list[bytes] = []

    def handler(request: Request) -> Gate:
        at_work.append(request.body)
        return gates[request.body]

    with pair(nodes, handler, concurrency=3) as (left, _, _responder):
        handles = [left.start("request", "double", b"%d" % number, timeout=50) for number in range(6)]
        until(lambda: len(at_work) == 3)
        third = at_work[2]
        gates[third].open(b"done")
        assert handles[int(third)].wait().body == b"done"
        until(lambda: len(at_work) == 4)
        fourth = at_work[3]
        gates[fourth].open(RuntimeError("not that one"))
        with pytest.raises(RequestFailed, match="not that one"):
            handles[int(fourth)].wait()
        for body, gate in gates.items():
            gate.open(body)
        until(lambda: sorted(at_work) == sorted(gates))
        for number, handle in enumerate(handles):
            handle.outcome()
            assert at_work.count(b"%d" % number) == 1
        assert left.stats().requests_outstanding == 0


def test_both_ends_of_a_connection_ask(nodes: Nodes) -> None:
    """Both ends ask and answer over one connection; who responds after it stands is known at once."""
    with pair(nodes) as (left, right, _):
        left.respond("half", lambda request: request.body[: len(request.body) // 2])
        right.wait_subscribed("tolliver.request/half", timeout=30)
        assert right.request("half", left.request("double", b"ab").body).body == b"ab"


def test_gathering_all_answers(nodes: Nodes) -> None:
    def fails(_request: Request) -> bytes:
        raise ValueError("not today")

    with nodes.open("right") as right, nodes.open("third") as third, nodes.open("left") as left:
        right.respond("double", double)
        third.respond("double", fails)
        for one in (right, third):
            left.new_connection(address(one))
        left.wait_subscribed("tolliver.request/double", peers=2, timeout=30)
        replies = {reply.peer_id: reply for reply in left.gather("double", b"x", timeout=30)}
        assert replies[right.instance_id].body == b"xx"
        assert str(replies[third.instance_id].error) == "not today"
        assert len(replies) == 2
        (alone,) = left.gather("double", b"y", to=right.instance_id, timeout=30)
        assert alone.body == b"yy"
        assert left.request("double", b"z").peer_id == right.instance_id
        with pytest.raises(RequestFailed):
            left.request("double", b"z", to=third.instance_id)


def test_a_lot_at_once(nodes: Nodes) -> None:
    """More than a connection takes at a time: they wait their turn, and no answer is dropped."""
    with pair(nodes) as (left, right, _):
        bodies = [bytes([number]) * 100_000 for number in range(40)]
        handles = [left.start("request", "double", body, timeout=50) for body in bodies]
        for body, handle in zip(bodies, handles, strict=True):
            assert handle.wait().body == body * 2
        assert right.stats().replies_dropped == 0


def test_the_end_of_a_connection_and_of_an_instance(nodes: Nodes) -> None:
    gate, at_work = nodes.gate(), []

    def handler(request: Request) -> Gate:
        at_work.append(request)
        return gate

    with pair(nodes, handler) as (left, right, _):
        asked = left.start("request", "double", b"x", timeout=50)
        until(lambda: at_work)
        left.remove_connection(address(right))
        assert isinstance(asked.outcome(), ConnectionLost)
        left.new_connection(address(right))
        until(lambda: connected(right) == 1)
        asked = left.start("request", "double", b"x", timeout=50)
        until(lambda: len(at_work) == 2)
        closing = left.start_close()
        assert isinstance(asked.outcome(), ConnectionClosing)
        closing.wait()
        gate.open(b"")


def test_a_durable_request_outlives_both_ends(nodes: Nodes) -> None:
    """Its answer is asked for again, with the same id (P-16)."""
    with nodes.open("left") as left:
        with nodes.open("right") as right:
            responder = right.respond("double", double)
            assert repr(responder) == "<Responder of 'double' ''>"
            left.new_connection(address(right))
            subscribed(left)
            where = address(right)
            assert left.request("double", b"first", durable=True, timeout=30).body == b"firstfirst"
        del responder
        until(lambda: not connected(left))
        with pytest.raises(NoResponders):
            left.request("double", b"x", wait=False)
        with pytest.raises(TimeoutError):
            left.request("double", b"42", durable=True, request_id=42, timeout=0.01)
    with nodes.open("left") as left, nodes.open("right", listen=where) as right:
        ids: list[tuple[int, bool]] = []

        def note(request: Request) -> bytes:
            ids.append((request.request_id, request.durable))
            return request.body

        right.respond("double", note)
        left.new_connection(where)
        assert left.request("double", b"42", durable=True, request_id=42, timeout=30).body == b"42"
        until(lambda: ids == [(42, True)] * 2, "the stored one is answered, too")
        until(lambda: left.stats().late_replies == 1)
        until(lambda: left.stats().pending + right.stats().pending == 0)


@EACH_ADAPTER
def test_what_is_refused(nodes: Nodes) -> None:
    nothing: Any = None
    text: Any = "text"
    with pair(nodes) as (left, right, _):
        calls: list[tuple[type[Exception], Callable[[], object]]] = [
            (TypeError, lambda: right.respond("x", nothing)),
            (ValueError, lambda: right.respond("x", double, concurrency=0)),
            (LocalProtocolError, lambda: right.respond("", double)),
            (OwnLimitExceeded, lambda: right.respond("x" * 5000, double)),
            (LocalProtocolError, lambda: left.request("double", text)),
            (ValueError, lambda: left.request("double", b"", timeout=0)),
            (TypeError, lambda: left.request("double", b"", to="somebody")),
        ]
        for error, call in calls:
            with pytest.raises(error):
                call()
        assert left.stats().requests_outstanding == 0


@EACH_ADAPTER
def test_two_responders_of_one_instance(nodes: Nodes) -> None:
    """Both are called, and the first answer counts; the channel has responders until both are closed."""
    with pair(nodes) as (left, right, first):

        def answers() -> list[str]:
            return [one.channel for one in right.start("subscriptions").wait()]

        second = right.respond("double", double)
        assert left.request("double", b"x").body == b"xx"
        assert left.request("double", b"y", durable=True, timeout=30).body == b"yy"
        first.close()
        assert left.request("double", b"z").body == b"zz"
        assert "tolliver.request/double" in answers()
        second.close()
        assert "tolliver.request/double" not in answers()
        with pytest.raises(NoResponders):
            left.request("double", b"x", wait=False)


@EACH_ADAPTER
def test_a_closed_responder_fails_what_it_is_at(nodes: Nodes) -> None:
    gate = nodes.gate()
    began = threading.Event()

    def handler(_request: Request) -> Gate:
        began.set()
        return gate

    with pair(nodes, handler) as (left, _, responder):
        asked = left.start("request", "double", b"x", timeout=50)
        until(began.is_set)
        responder.close()
        assert isinstance(asked.outcome(), RequestFailed)
        gate.open(b"")


@ONE_KIND
def test_who_wants_everything_sees_no_envelope(nodes: Nodes) -> None:
    """P-11."""
    seen: list[str] = []
    with pair(nodes) as (left, right, _):
        for one in (left, right):
            one.subscribe("", handler=lambda delivery: seen.append(delivery.channel))
        for one in (left, right):
            one.wait_subscribed("anything", timeout=30)
        assert left.request("double", b"x").body == b"xx"
        left.wait_acked(left.send("news", "", b""))
        assert seen == ["news"]


@ONE_KIND
def test_a_closed_instance_asks_nobody(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        pass
    assert isinstance(left.start("request", "double", b"x").outcome(), AlreadyClosed)
