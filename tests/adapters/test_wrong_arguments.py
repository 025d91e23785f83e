"""Wrong arguments of each call: refused there, by name, and the instance goes on as before."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import pytest
from tolliver import OwnLimitExceeded
from tolliver.events import StreamsDialFailed
from twisted.internet.defer import Deferred

from tolliver_proto import LocalProtocolError, NoticeKind
from tolliver_proto.store import VALUES

from .facade import Facade
from .kinds import EACH_ADAPTER
from .nodes import SOMEBODY, Nodes, address
from .streams import Stage

Values = tuple[Any, ...]
REFUSALS = (TypeError, ValueError, LocalProtocolError)
NAN, ENDLESS = float("nan"), float("inf")
NAME: Values = (None, 3, b"x", [], "\ud800")
BODY: Values = (None, 3, "x", bytearray(1), [])
PEER: Values = (None, "x", 3, str(SOMEBODY), [SOMEBODY], VALUES)
COUNT: Values = (None, "x", -1, 1.5, NAN, True, b"1", [], 2**70)
AT_LEAST_1 = (*COUNT, 0)
SECONDS: Values = ("x", -1, 0, NAN, True, b"1", [], 10**400)
TIMEOUT: Values = ("x", NAN, True, b"1", [])
LIST: Values = (None, 3, "abc", b"12", ["x"], [None], [1.5])
TO: Values = ("x", 3, [1], str(SOMEBODY))


class Wrong(NamedTuple):
    """A call, all that it takes, and the values that one argument must not have.

    `said` is in the text of the refusal: the name of the argument, where it has another one there or none.
    """

    call: str
    given: Mapping[str, Any]
    argument: str
    values: Values
    said: str = ""


NAMES = {"channel": "c", "key": ""}
MESSAGE = {**NAMES, "body": b""}
HANDLED = {**NAMES, "handler": print}
ASKED = {"channel": "c", "body": b"", "timeout": 0.01}


def named(call: str, given: Mapping[str, Any]) -> Iterator[Wrong]:
    for argument in ("channel", "key"):
        yield Wrong(call, given, argument, NAME, "name")


INSTANCE = (
    *named("subscribe", NAMES),
    *named("unsubscribe", NAMES),
    *named("wait_subscribed", {**NAMES, "timeout": 0.01}),
    *named("wait_responder", {**NAMES, "timeout": 0.01}),
    *named("register_callback", HANDLED),
    *named("respond", HANDLED),
    *named("messages", NAMES),
    *named("message_runs", NAMES),
    *named("send", MESSAGE),
    *named("retain", MESSAGE),
    *named("unreliable_send", MESSAGE),
    *named("request", {**ASKED, "key": ""}),
    *named("gather", {**ASKED, "key": ""}),
    Wrong("work_queue", {}, "channel", NAME, "name"),
    Wrong("work", {}, "channel", NAME, "name"),
    Wrong("work_queue", {}, "channel", ("",)),
    Wrong("channel", {}, "name", (None, 3, b"x", [])),
    *(Wrong(call, MESSAGE, "body", BODY) for call in ("send", "unreliable_send")),
    Wrong("retain", MESSAGE, "body", BODY[1:]),
    Wrong("retain", MESSAGE, "channel", ("tolliver", "tolliver.request/x", "tolliver.reply/x"), "tolliver"),
    *(Wrong(call, MESSAGE, "to", TO) for call in ("send", "unreliable_send")),
    Wrong("send", MESSAGE, "require_recipients", COUNT),
    Wrong("send", MESSAGE, "expire_after", (*SECONDS, ENDLESS)),
    Wrong("send", MESSAGE, "message_key", (*NAME[1:], ""), "message_key|name"),
    Wrong("send_many", {"items": [("c", "", b"")]}, "require_recipients", COUNT),
    Wrong("send_many", {"items": [("c", "", b"")]}, "expire_after", (*SECONDS, ENDLESS)),
    Wrong("send_many", {}, "items", (*LIST, [("c", "")], [("c", "", b"", 1)], [([], "", b"")])),
    Wrong("retained", {}, "after", ("x", 3, ("a",), ("a", 1), ["a", "b"])),
    Wrong("retained", {}, "count", COUNT),
    Wrong("retained", {}, "channel", (3, b"x", [])),
    Wrong("ask_retained", {}, "channel", NAME, "name"),
    Wrong("wait_subscribed", {"channel": "c"}, "peers", COUNT),
    Wrong("wait_responder", {"channel": "c"}, "peers", COUNT),
    Wrong("wait_subscribed", {"channel": "c"}, "timeout", TIMEOUT),
    Wrong("wait_responder", {"channel": "c"}, "timeout", TIMEOUT),
    Wrong("flush", {}, "timeout", TIMEOUT),
    Wrong("new_connection", {"remote": "127.0.0.1:1"}, "timeout", TIMEOUT),
    Wrong("new_connection", {}, "remote", (None, 3, b"x", "h:x", "a:1:2"), "address|port"),
    Wrong("remove_connection", {}, "remote", (None, 3, b"x", "h:x", "a:1:2"), "address|port"),
    Wrong("wait_acked", {}, "receipt", (None, 3, "x")),
    *(Wrong(call, ASKED, "timeout", (None, *SECONDS)) for call in ("request", "gather")),
    *(Wrong(call, ASKED, "to", TO) for call in ("request", "gather")),
    *(Wrong(call, ASKED, "request_id", COUNT[1:]) for call in ("request", "gather")),
    *(Wrong(call, ASKED, "body", BODY) for call in ("request", "gather")),
    *(Wrong(call, HANDLED, "handler", (3, "x", [])) for call in ("subscribe", "register_callback", "respond")),
    *(Wrong(call, HANDLED, "concurrency", AT_LEAST_1) for call in ("subscribe", "register_callback", "respond")),
    *(Wrong(call, HANDLED, "pending", AT_LEAST_1[1:]) for call in ("subscribe", "register_callback")),
    *(Wrong(call, HANDLED, "ordered_by", (3, "x", [])) for call in ("subscribe", "register_callback")),
    *(Wrong(call, {"channel": "w"}, "lease", (None, *SECONDS)) for call in ("work_queue", "work")),
    Wrong("work", {"channel": "w"}, "concurrency", AT_LEAST_1),
    Wrong("notice", {"detail": "d"}, "kind", (None, 3, "x", [])),
    Wrong("notice", {"kind": NoticeKind.STORE_ERROR}, "detail", (None, 3, b"x", [])),
    Wrong("admin.forget_peer", {}, "peer", PEER[:-1]),
    Wrong("admin.repin", {}, "peer", PEER),
    Wrong("admin.repin", {"peer": SOMEBODY}, "spki_sha256", ("x", b"x", b"", bytes(33), bytearray(32), 3, NAN)),
    Wrong("admin.retry", {}, "peer", PEER),
    Wrong("admin.drop_parked", {}, "peer", PEER),
    Wrong("admin.dead_letters", {}, "after", COUNT),
    Wrong("admin.dead_letters", {}, "count", COUNT),
    Wrong("admin.drop_dead_letters", {}, "letters", LIST),
    Wrong("admin.replay", {}, "letters", (*LIST, [1])),
    Wrong("admin.set_acl", {}, "acl", (None, 3, "x", {})),
    Wrong("admin.backup", {}, "path", (None, 3, "", b"x", "\0", "\ud800")),
)
QUEUE = (
    Wrong("of", {}, "codec", (3, "x")),
    Wrong("put", {}, "body", BODY),
    Wrong("put", {"body": b""}, "key", NAME, "name"),
    Wrong("put", {"body": b""}, "message_key", (*NAME[1:], ""), "message_key|name"),
    Wrong("put_many", {}, "jobs", LIST[:4]),
    Wrong("put_many", {}, "jobs", ([None], [("k",)], [("k", 3)]), "body"),
    Wrong("pending", {}, "count", COUNT),
    Wrong("reassign", {}, "worker", PEER),
    Wrong("cancel", {}, "jobs", LIST),
)
CHANNEL = (
    Wrong("send_many", {}, "items", (*LIST, [("k",)], [("k", b"", 1)])),
    Wrong("retained", {}, "after", (3, b"x", ("a", "b"), [])),
    Wrong("retained", {}, "count", COUNT),
)


def refused(start: Callable[..., Any], wrong: Wrong) -> Iterator[str]:
    """The values that are not refused as they should be."""
    for value in wrong.values:
        error = start(wrong.call, **{**wrong.given, wrong.argument: value}).outcome()
        is_named = any(word in str(error) for word in (wrong.said or wrong.argument).split("|"))
        if not isinstance(error, REFUSALS) or isinstance(error, OwnLimitExceeded) or not is_named:
            yield f"{wrong.call}({wrong.argument}={value!r:.40}): {type(error).__name__} {error}"


@EACH_ADAPTER
def test_wrong_arguments_are_refused_by_name_and_harm_nothing(nodes: Nodes) -> None:
    with nodes.pair() as (left, right, inbox):
        left.wait_subscribed("news", timeout=30)
        queue, channel = left.start("work_queue", "jobs").wait(), left.start("channel", "c").wait()
        tables = ((left.start, INSTANCE), (calls_of(left, queue), QUEUE), (calls_of(left, channel), CHANNEL))
        for sent, (start, wrong) in enumerate(((start, one) for start, table in tables for one in table), 1):
            assert not [*refused(start, wrong)]
            left.send("news", "", b"good", require_recipients=1)
            left.retain("values", "k", b"good")
            inbox.holds(sent)
        assert [one.body for one in left.retained()] == [b"good"]
        assert left.peers()[0].uuid != SOMEBODY
        assert [str(one.remote) for one in left.remotes()] == [address(right)], "a refused call dials nobody"
        assert left.notices() == []


def calls_of(node: Facade, handle: Any) -> Callable[..., Any]:
    """`start` of an object that a call has returned."""
    return lambda call, **given: node.world.start(call, lambda: getattr(handle, call)(**given))


@EACH_ADAPTER
def test_what_is_named_by_number_may_be_gone(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        assert left.drop_dead_letters([1, 2]) == 0
        queue = left.start("work_queue", "jobs").wait()
        start = calls_of(left, queue)
        receipt = start("put_many", jobs=[b"1", b"2", b"3"]).wait()
        (first,) = start("pending", count=1).wait()
        assert start("cancel", jobs=[first, first.number, 10**6]).wait() == 1
        assert start("cancel", jobs=receipt).wait() == 2


@EACH_ADAPTER
def test_values_of_the_channel_without_a_name_are_asked_for_by_it(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        left.retain("", "k", b"1")
        left.retain("c", "k", b"2")
        assert [one.body for one in left.retained(channel="")] == [b"1"]
        assert [one.body for one in left.retained(channel="c")] == [b"2"]
        assert [one.body for one in left.retained()] == [b"1", b"2"]
        channel = left.start("channel", "").wait()
        assert [one.value for one in left.world.start("retained", channel.retained).wait()] == [b"1"]


def in_this_thread(call: Callable[[], Any]) -> Any:
    """Error that a call of an instance raises here, outside its loop; None without one."""
    failures: list[Any] = []
    try:
        answer = call()
        if isinstance(answer, Coroutine):
            answer.send(None)
        elif isinstance(answer, Deferred):
            answer.addErrback(lambda failure: failures.append(failure.value))
    except BaseException as error:
        return error
    return failures[0] if failures else None


FOREIGN: tuple[Callable[[Any], Any], ...] = (
    lambda it: it.unreliable_send("news", "", b"foreign"),
    lambda it: it.send("news", "", b"foreign"),
    lambda it: it.subscribe("c"),
    lambda it: it.unsubscribe("c"),
    lambda it: it.new_connection("127.0.0.1:1"),
    lambda it: it.remove_connection("127.0.0.1:1"),
    lambda it: it.request("c", b"foreign"),
)
FOREIGN_STREAMS: tuple[Callable[[Any], Any], ...] = (
    lambda it: it.publish("p", [b"foreign"]),
    lambda it: it.subscribe("numbers"),
    lambda it: it.connect("127.0.0.1:1"),
)
LOOPS = pytest.mark.parametrize("kind", ["asyncio", "trio", "twisted"])


@LOOPS
def test_calls_of_a_foreign_thread_are_refused(nodes: Nodes, stage: Stage) -> None:
    """They would change what the loop is at, and wake nobody there."""
    with nodes.pair() as (left, _, inbox):
        left.wait_subscribed("news", timeout=30)
        errors = [in_this_thread(lambda: call(left._instance)) for call in FOREIGN]  # noqa: B023  # called at once
        streams = stage.open()
        errors += [in_this_thread(lambda: call(streams._instance)) for call in FOREIGN_STREAMS]  # noqa: B023  # likewise
        assert [getattr(error, "code", error) for error in errors] == ["foreign_thread"] * len(errors)
        left.send("news", "", b"good", require_recipients=1)
        inbox.holds(1)


NAMED = {"name": "numbers"}
STREAMS = (
    Wrong("publish", {"source": []}, "name", (None, 3, b"x", [])),
    Wrong("publish", NAMED, "source", (None, 3, "x", b"x")),
    Wrong("publish", {**NAMED, "source": []}, "element_size", COUNT),
    Wrong("subscribe", {}, "name", NAME),
    Wrong("subscribe", NAMED, "demand", ("x", 1.5, NAN, True, [])),
    Wrong("subscribe", NAMED, "prefetch", COUNT[1:]),
    Wrong("subscribe", NAMED, "peer", (3, "x", [])),
    Wrong("goodbye", {}, "peer", (None, 3, "x")),
    Wrong("connect", {}, "remote", (None, 3, b"x", "h:x"), "address|port"),
    Wrong("connect", {"remote": "127.0.0.1:1"}, "timeout", TIMEOUT),
    Wrong("channel", {}, "name", (None, 3, b"x", [])),
)


@EACH_ADAPTER
def test_wrong_arguments_of_streams_are_refused_by_name_and_harm_nothing(stage: Stage) -> None:
    seen: list[object] = []
    publisher, subscriber = stage.open(), stage.open(on_event=seen.append)
    publisher.publish("numbers", [b"1"])
    peer = subscriber.connect(publisher)
    for wrong in STREAMS:
        assert not [*refused(subscriber.start, wrong)]
        assert [*subscriber.subscribe("numbers")] == [b"1"]
    assert [one for one in seen if isinstance(one, StreamsDialFailed)] == [], "a refused call dials nobody"
    other = stage.open()
    there = other.connect(publisher)
    with pytest.raises(ValueError, match="a peer of other streams"):
        subscriber.subscribe("numbers", peer=there)
    assert [*subscriber.subscribe("numbers", peer=peer)] == [b"1"]


class Name(StrEnum):
    """A channel, as programs name theirs."""

    SUMS = "sums"


class Body(bytes):
    """Bytes, as a library has them."""


@EACH_ADAPTER
def test_subclasses_of_text_and_bytes_are_as_good(nodes: Nodes) -> None:
    with nodes.pair((Name.SUMS,)) as (left, right, inbox):
        right.respond(Name.SUMS, lambda request: Body(request.body))
        left.wait_subscribed(Name.SUMS, timeout=30)
        left.send(Name.SUMS, Name.SUMS, Body(b"1"))
        left.retain(Name.SUMS, Name.SUMS, Body(b"2"))
        assert left.request(Name.SUMS, Body(b"3"), timeout=30).body == b"3"
        inbox.holds(2)
        assert {(one.channel, one.key) for one in inbox.deliveries} == {("sums", "sums")}
        assert [one.body for one in left.retained(channel=Name.SUMS)] == [b"2"]
        assert left.retained(after=(Name.SUMS, Name.SUMS)) == []
