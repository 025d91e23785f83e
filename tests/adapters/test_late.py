"""Late calls take all that waits: tables of things that can wait, and of the calls that take them.

Bob has taken such things once, so alice knows what he subscribes to. While he is away she gives him another one. He
comes back, what she gave arrives, and only then his program makes the call: nothing is lost, and nothing ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest
from tolliver.anyio import bridge as async_bridge
from tolliver.blocking import bridge as thread_bridge

from .facade import Facade, Handle, Items, until
from .nodes import Inbox, Nodes, address
from .streams import Stage, Taken

Take = Callable[[Facade, str], "Callable[[], list[bytes]]"]
"""A call of bob's for this channel, and then what he has got by it."""
FIRST, SECOND = b"first", b"second"


def handler_of(call: Callable[[Facade, str, Inbox], object]) -> Take:
    """The call gives a handler."""

    def take(bob: Facade, channel: str) -> Callable[[], list[bytes]]:
        inbox = Inbox()
        call(bob, channel, inbox)
        return lambda: inbox.bodies

    return take


def iterator_of(call: Callable[[Facade, str], Items], in_bulk: bool = False) -> Take:
    """The call gives an iterator over messages, or over runs of them."""

    def take(bob: Facade, channel: str) -> Callable[[], list[bytes]]:
        items, got = call(bob, channel), list[bytes]()
        asked = items.start_next()

        def look() -> list[bytes]:
            nonlocal asked
            if asked.done:
                item = items.settled(asked.wait())
                item.ack()
                got.extend(one.body for one in (item if in_bulk else [item]))
                asked = items.start_next()
            return got

        return look

    return take


def responder_of(**how: Any) -> Take:
    """The call gives a responder."""

    def take(bob: Facade, channel: str) -> Callable[[], list[bytes]]:
        asked: list[bytes] = []

        def answer(request: Any) -> bytes:
            asked.append(request.body)
            return b"answer"

        bob.respond(channel, answer, **how)
        return lambda: asked

    return take


class Kind(NamedTuple):
    """Something that can wait, and the calls that begin to take it."""

    give: Callable[[Facade, str, bytes], Any]
    calls: dict[str, Take]
    subscribes: bool = False  # bob has to, whatever the call does
    needs_him: bool = False  # it is for whoever is connected


def asked(durable: bool) -> Callable[[Facade, str, bytes], Handle]:
    return lambda alice, channel, body: alice.start("request", channel, body, durable=durable, timeout=50)


MESSAGES = {
    "register_callback": handler_of(lambda bob, channel, inbox: bob.register_callback(channel, "", inbox)),
    "register_callback, several": handler_of(
        lambda bob, channel, inbox: bob.register_callback(channel, "", inbox, concurrency=4, ordered_by="key")
    ),
    "subscribe": handler_of(lambda bob, channel, inbox: bob.subscribe(channel, handler=inbox)),
    "messages": iterator_of(lambda bob, channel: bob.messages(channel)),
    "message_runs": iterator_of(lambda bob, channel: bob.message_runs(channel), in_bulk=True),
}
RESPONDERS = {"respond": responder_of(), "respond, one": responder_of(concurrency=1)}
KINDS = {
    "message": Kind(lambda alice, *what: alice.send(what[0], "", what[1]), MESSAGES, subscribes=True),
    "retained value": Kind(lambda alice, *what: alice.retain(what[0], "", what[1]), MESSAGES, subscribes=True),
    "job": Kind(
        lambda alice, channel, body: alice.work_queue(channel).put(body),
        {
            "work": iterator_of(lambda bob, channel: bob.work(channel)),
            "work, several": iterator_of(lambda bob, channel: bob.work(channel, concurrency=4)),
        },
    ),
    "durable request": Kind(asked(durable=True), RESPONDERS),
    "request": Kind(asked(durable=False), RESPONDERS, needs_him=True),
}


def _has(look: Callable[[], list[bytes]], body: bytes) -> bool:
    return body in look()


@pytest.mark.parametrize("waits", KINDS.values(), ids=KINDS)
def test_a_late_call_takes_what_waits(nodes: Nodes, waits: Kind) -> None:
    """Each call on a channel of its own, one after the other."""
    with nodes.open("alice") as alice:
        with nodes.open("bob") as bob:
            bob.subscribe("mark", handler=Inbox())
            for channel in waits.calls if waits.subscribes else ():
                bob.subscribe(channel)
            got = {channel: take(bob, channel) for channel, take in waits.calls.items()}
            bob.new_connection(address(alice))
            for channel in waits.calls:
                waits.give(alice, channel, FIRST)
            for channel, look in got.items():
                until(partial(_has, look, FIRST), f"{channel} takes what comes")
        until(lambda: not alice.stats().peers_up)
        given = {} if waits.needs_him else {one: waits.give(alice, one, SECOND) for one in waits.calls}
        with nodes.open("bob") as bob:
            bob.register_callback("mark", "", Inbox())
            bob.new_connection(address(alice))
            given = given or {one: waits.give(alice, one, SECOND) for one in waits.calls}
            alice.wait_acked(alice.send("mark", "", b""))  # all that she wrote before it is there, too
            for channel, take in waits.calls.items():
                look = take(bob, channel)
                until(partial(_has, look, SECOND), f"{channel} takes what waited")
                if isinstance(given[channel], Handle):
                    assert given[channel].wait().body == b"answer"
            until(lambda: not alice.stats().pending)


@pytest.mark.parametrize("call", ["request", "gather"])
def test_a_reply_that_waits_is_there_for_a_request_that_is_asked_again(nodes: Nodes, call: str) -> None:
    """Under its id, by whoever has asked it before a restart (P-16)."""
    gate = nodes.gate()
    began: list[int] = []

    def answer(request: Any) -> Any:
        began.append(request.request_id)
        return gate if len(began) == 1 else b"answer"

    terms: dict[str, Any] = {"durable": True, "request_id": 42, "timeout": 50}
    with nodes.open("bob") as bob:
        bob.respond("sums", answer)
        with nodes.open("alice") as alice:
            alice.new_connection(address(bob))
            alice.start("request", "sums", b"1 2", **terms)
            until(lambda: began, "bob is asked")
        gate.open(b"answer")
        until(lambda: bob.stats().pending == 1, "the reply waits for her")
        with nodes.open("alice") as alice:
            alice.new_connection(address(bob))
            until(lambda: alice.stats().late_replies)
            replies = alice._call(call, "sums", b"1 2", **terms)
            assert [one.body for one in (replies if call == "gather" else [replies])] == [b"answer"]


def by_one(taken: Taken) -> Iterator[bytes]:
    yield from taken


def by_runs(taken: Taken) -> Iterator[bytes]:
    for run in taken.runs():
        yield from run


def by_handler(taken: Taken) -> Iterator[bytes]:
    got: list[bytes] = []
    taken.for_each(got.append).wait()
    yield from got


@pytest.mark.parametrize("take", [by_one, by_runs, by_handler])
def test_elements_wait_for_whoever_takes_them(stage: Stage, take: Callable[[Taken], Iterator[bytes]]) -> None:
    publisher, _, peer = stage.pair()
    publisher.publish("numbers", [b"%d" % number for number in range(10)])
    taken = peer.subscribe("numbers", prefetch=20)
    until(lambda: publisher.stats()["streams_given"] == 0, "all has left")
    assert list(take(taken)) == [b"%d" % number for number in range(10)]


def test_messages_wait_for_a_stream_that_begins_late(nodes: Nodes, stage: Stage) -> None:
    with nodes.open("bob") as bob, nodes.open("alice") as alice:
        bob.subscribe("news")
        bob.subscribe("mark", handler=Inbox())
        alice.new_connection(address(bob))
        receipt = alice.send("news", "", FIRST, require_recipients=1)
        alice.wait_acked(alice.send("mark", "", b""))
        publisher, _, peer = stage.pair()
        bridge = thread_bridge if bob.world.kind == "blocking" else async_bridge
        publisher.publish("tolliver://*", bridge(bob._instance))
        taken = peer.subscribe("tolliver://news", prefetch=1)
        assert next(taken) == FIRST
        asking = taken.start_next()
        alice.wait_acked(receipt)
        taken.cancel()
        assert isinstance(asking.outcome(), StopIteration | StopAsyncIteration)
