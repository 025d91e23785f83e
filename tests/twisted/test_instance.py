"""Instance on Twisted: only what is Twisted's own.

Behaviour that all adapters share is proved for all of them together.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import textwrap
import time
from contextlib import ExitStack, closing, suppress
from typing import Any

import pytest
from tolliver.sqlite import SQLiteStore
from tolliver.twisted import Instance
from twisted.internet.defer import CancelledError, Deferred, fail, inlineCallbacks
from twisted.internet.task import deferLater

from tests.certificates import Certificates
from tests.opening import Opening, is_free, written_into
from tolliver_proto import ConnectionClosing, Delivery, NoticeKind, ReservedChannel, StoreError

from .nodes import Nodes
from .reactors import TIMEOUT, Loop, running

# Calls.


def test_a_life_in_callbacks(loop: Loop, nodes: Nodes) -> None:
    """Nothing needs a coroutine."""
    received: Deferred[bytes] = Deferred()

    def on_right(right: Instance) -> Deferred[Any]:
        stored: Deferred[Any] = right.subscribe("news", handler=lambda delivery: received.callback(delivery.body))
        stored.addCallback(lambda _: nodes.open("left"))
        stored.addCallback(lambda left: on_both(right, left))
        return stored.addBoth(lambda result: right.close().addCallback(lambda _: result))

    def on_both(right: Instance, left: Instance) -> Deferred[Any]:
        up: Deferred[Any] = left.new_connection(f"127.0.0.1:{right.port}")
        up.addCallback(lambda _: left.send("news", "", b"hello"))
        up.addCallback(lambda receipt: left.wait_acked(receipt, timeout=10))
        return up.addBoth(lambda result: left.close().addCallback(lambda _: result))

    loop.wait(lambda: nodes.open("right").addCallback(on_right))
    assert received.result == b"hello"


def test_what_is_wrong_with_a_call_is_in_its_deferred(loop: Loop, nodes: Nodes) -> None:
    """So one errback hears it all."""

    async def scenario() -> None:
        async with await nodes.open("left") as left:
            for wrong, kind in (
                (left.send("tolliver", "", b""), ReservedChannel),
                (left.new_connection("[not:an:address"), ValueError),
            ):
                with pytest.raises(kind):
                    await wrong
        with pytest.raises(ConnectionClosing):
            await left.send("news", "", b"")

    loop.wait(scenario)


def test_a_timeout_ends_the_waiting_alone(loop: Loop, nodes: Nodes) -> None:
    async def scenario() -> None:
        async with nodes.pair() as (left, right):
            receipt = await left.send("news", "", b"x")
            patient = left.wait_acked(receipt)
            with pytest.raises(TimeoutError):
                await left.wait_acked(receipt, timeout=0.01)
            cancelled = left.wait_acked(receipt)
            cancelled.cancel()
            with pytest.raises(CancelledError):
                await cancelled
            assert not patient.called
            right.register_callback("news", "", lambda _: None)
            await left.wait_acked(await left.send("news", "", b"y"))
            with pytest.raises(TimeoutError):
                await left.new_connection("127.0.0.1:1", timeout=0.01)
            patient.addErrback(lambda failure: failure.trap(ConnectionClosing))  # its resend is 10 s away

    loop.wait(scenario)


# Handlers.


def test_handlers_of_each_kind(loop: Loop, nodes: Nodes) -> None:
    handled: list[str] = []

    def plain(delivery: Delivery) -> None:
        handled.append("plain")

    async def coroutine(delivery: Delivery) -> None:
        await deferLater(loop.reactor, 0)
        handled.append("coroutine")

    @inlineCallbacks
    def generator(delivery: Delivery) -> Any:
        yield deferLater(loop.reactor, 0)
        handled.append("generator")

    def deferred(delivery: Delivery) -> Deferred[None]:
        return deferLater(loop.reactor, 0, handled.append, "deferred")

    async def scenario() -> None:
        async with nodes.pair() as (left, right):
            for handler in (plain, coroutine, generator, deferred):
                right.register_callback("news", "", handler)
            await left.wait_acked(await left.send("news", "", b"x"))
            assert sorted(handled) == ["coroutine", "deferred", "generator", "plain"]

    loop.wait(scenario)


@pytest.mark.parametrize("how", ["false", "failure"])
def test_a_deferred_says_that_it_failed(loop: Loop, nodes: Nodes, how: str) -> None:
    def handler(delivery: Delivery) -> Deferred[Any]:
        result: Deferred[Any] = deferLater(loop.reactor, 0)
        return result.addCallback(lambda _: False if how == "false" else 1 / 0)

    async def scenario() -> None:
        async with nodes.pair() as (left, right):
            right.register_callback("news", "", handler)
            await left.send("news", "", b"x")
            await nodes.until(lambda: [one.kind for one in right.notices()] == [NoticeKind.HANDLER_FAILED])

    loop.wait(scenario)


@pytest.mark.parametrize("concurrency", [1, 2])
@pytest.mark.parametrize("how", ["raised", "awaited"])
def test_a_generator_exit_is_a_failure_and_the_handler_gets_the_next_message(
    loop: Loop, nodes: Nodes, how: str, concurrency: int
) -> None:
    """Python closes a coroutine that awaits a Deferred which fails so."""
    attempts: list[int] = []

    async def handler(delivery: Delivery) -> None:
        attempts.append(delivery.attempt)
        if delivery.attempt == 1 and how == "raised":
            raise GeneratorExit
        if delivery.attempt == 1 and how == "awaited":
            await fail(GeneratorExit())

    async def scenario() -> None:
        async with nodes.pair(retry_interval=0.05) as (left, right):
            right.register_callback("news", "", handler, concurrency=concurrency)
            await left.wait_acked(await left.send_many([("news", "", b"x")] * 4))
            assert sorted(attempts) == [1, 1, 1, 1, 2, 2, 2, 2]

    loop.wait(scenario)


def test_a_handler_may_end_its_own_registration(loop: Loop, nodes: Nodes) -> None:
    """It is cancelled where it waits, which is not its failure; the messages go to the next one."""
    ended: list[str] = []

    async def scenario() -> None:
        async with nodes.pair(retry_interval=0.05) as (left, right):

            async def handler(delivery: Delivery) -> None:
                registration.close()
                try:
                    await Deferred()
                except CancelledError:
                    ended.append("cancelled")
                    raise

            registration = right.register_callback("news", "", handler)
            receipt = await left.send_many([("news", "", b"x"), ("news", "", b"y")])
            await nodes.until(lambda: ended)
            right.register_callback("news", "", lambda _: None)
            await left.wait_acked(receipt)
            assert right.notices() == []

    loop.wait(scenario)
    assert ended == ["cancelled"]


def test_a_cancelled_iteration_loses_nothing(loop: Loop, nodes: Nodes) -> None:
    async def scenario() -> None:
        async with nodes.pair() as (left, right):
            bodies: list[bytes] = []
            messages = right.messages("news")

            async def take() -> None:
                async for message in messages:
                    bodies.append(message.body)
                    message.ack()

            for number in range(5):
                taking = Deferred.fromCoroutine(take())
                await left.wait_acked(await left.send("news", "", b"%d" % number))
                taking.cancel()
                with pytest.raises(CancelledError):
                    await taking
            assert bodies == [b"0", b"1", b"2", b"3", b"4"]
            messages.close()

    loop.wait(scenario)


def test_a_name_is_dialled_at_one_address_after_the_other(
    loop: Loop, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one refuses, and the second one is another's."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 1)) for host in ("127.0.0.2", "127.0.0.1")]

    async def scenario() -> None:
        async with await nodes.open("right") as right, await nodes.open("left") as left:
            monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_options: found)
            assert await left.new_connection(f"localhost:{right.port}") == right.instance_id
            found.pop()
            with pytest.raises(TimeoutError):
                await left.new_connection("somewhere:1", timeout=0.1)

    loop.wait(scenario)


# Its life.


def test_closing_twice_waits_for_the_same_end(loop: Loop, nodes: Nodes) -> None:
    async def scenario() -> None:
        left = await nodes.open("left")
        first, second, third = left.close(), left.close(), left.close()
        second.addErrback(lambda failure: failure.trap(CancelledError))
        second.cancel()
        await first
        await third
        async with await nodes.open("left"):
            pass

    loop.wait(scenario)


def test_the_database_is_closed_after_the_last_job_on_it(loop: Loop, nodes: Nodes) -> None:
    async def scenario() -> None:
        left = await nodes.open("left")
        found: list[Any] = []

        def slow() -> Any:
            time.sleep(0.2)  # long enough for a close that does not wait
            return left._core._store.dead_letters(0, 1)

        left._core.store(slow, lambda result, error: found.append((result, error)))
        await left.close()
        assert found == [([], None)]

    loop.wait(scenario)


def test_whoever_hears_of_the_end_may_close_too(loop: Loop, nodes: Nodes) -> None:
    async def scenario() -> None:
        left = await nodes.open("left")
        ends: list[Deferred[None]] = []
        left.new_connection("127.0.0.1:1").addErrback(lambda _: ends.append(left.close()))
        await left.close()
        await ends[0]
        async with await nodes.open("left"):
            pass

    loop.wait(scenario)


@pytest.mark.parametrize("kind", ["plain", "waiting"])
def test_a_handler_may_close_its_instance(loop: Loop, nodes: Nodes, kind: str) -> None:
    async def scenario() -> None:
        closing: list[Deferred[None]] = []
        async with nodes.pair() as (left, right):

            async def waits(delivery: Delivery) -> None:
                closing.append(right.close())
                await right.close()

            handler = waits if kind == "waiting" else lambda _: closing.append(right.close())
            right.register_callback("news", "", handler)
            await left.send("news", "", b"x")
            await nodes.until(lambda: closing)
            await closing[0]

    loop.wait(scenario)


def test_a_handler_may_close_an_instance_that_nobody_is_connected_to(loop: Loop, nodes: Nodes) -> None:
    """There is nothing to wait for: it is over while the handler is still at it."""

    async def scenario() -> None:
        gate: Deferred[None] = Deferred()
        steps: list[str] = []
        async with await nodes.open("right") as right:

            async def handler(delivery: Delivery) -> None:
                steps.append("taken")
                await gate
                await right.close()

            await right.subscribe("news", handler=handler)
            async with await nodes.open("left") as left:
                await left.new_connection(f"127.0.0.1:{right.port}")
                await nodes.until(lambda: left.peers()[0].subscriptions)
                await left.send("news", "", b"x")
                await nodes.until(lambda: steps)
            await nodes.until(lambda: not right.stats()["connections"])
            gate.callback(None)
        assert right._core.node.idle

    loop.wait(scenario)


def test_closing_cancels_a_handler_that_still_waits(loop: Loop, nodes: Nodes) -> None:
    ended: list[str] = []

    async def handler(delivery: Delivery) -> None:
        try:
            ended.append("no")
            await Deferred()
        finally:
            ended.append("yes")

    async def scenario() -> None:
        async with nodes.pair() as (left, right):
            right.register_callback("news", "", handler)
            await left.send("news", "", b"x")
            await nodes.until(lambda: ended)
        assert right.notices() == []

    loop.wait(scenario)
    assert ended == ["no", "yes"]


def test_an_opening_that_is_cancelled_leaves_nothing_open(loop: Loop, nodes: Nodes) -> None:
    async def scenario() -> None:
        for turns in range(6):
            opening = nodes.open("left")
            for _ in range(turns):
                await deferLater(loop.reactor, 0.002)
            opening.cancel()
            with suppress(CancelledError):
                await (await opening).close()
                assert turns, "it cannot be open yet"
            async with await nodes.open("left"):
                pass

    loop.wait(scenario)


@pytest.mark.parametrize("times", [1, 2])
def test_it_fires_when_what_it_opened_is_closed(loop: Loop, nodes: Nodes, times: int) -> None:
    """Cancelled a second time it waits no more, and what was opened is closed all the same."""
    database = nodes.database("left")

    async def scenario() -> None:
        async with await nodes.open("left"):
            pass
        opening, fired = Opening(database), list[object]()
        with written_into(database) as writer:
            unwanted = nodes.open("left")
            await nodes.until(opening.begun)
            for _ in range(times):
                assert not fired
                unwanted.cancel()
                unwanted.addErrback(lambda failure: fired.append(failure.trap(CancelledError)))
            assert len(fired) == times - 1
            writer.let_go()
            await nodes.until(lambda: fired)
        for _ in range(1000):  # nobody says when it is closed that was not waited for, nor whether it is locked yet
            await nodes.until(lambda: times == 1 or is_free(database))
            with suppress(StoreError):
                async with await nodes.open("left"):
                    return
        pytest.fail("the database stays in use")

    loop.wait(scenario)


def test_a_reactor_that_stops_waits_for_an_opening_and_closes_it(tmp_path: Any, certs: Certificates) -> None:
    with ExitStack() as ending, running("epoll") as loop:
        nodes = Nodes(tmp_path, certs, loop.reactor)
        database = nodes.database("left")
        loop.wait(loop.wait(nodes.open, "left").close)
        opening, writer = Opening(database), ending.enter_context(written_into(database))
        loop.call(nodes.open, "left")
        loop.wait(nodes.until, opening.begun)
        loop.call(loop.reactor.addSystemEventTrigger, "before", "shutdown", writer.let_go)
    with closing(SQLiteStore(database, instance_id=None, first_id=1)) as store:
        assert not store.unclean


def test_a_reactor_that_stops_closes_what_is_open(tmp_path: Any, certs: Certificates) -> None:
    for _ in range(2):
        with running("epoll") as loop:
            nodes = Nodes(tmp_path, certs, loop.reactor)
            left, right = loop.wait(nodes.open, "left"), loop.wait(nodes.open, "right")
            loop.wait(left.new_connection, f"127.0.0.1:{right.port}")
        assert left._core.node.idle
        assert right._core.node.idle
        assert left._core.wires == right._core.wires == {}


MESSAGES_OVER_TLS = """
    from twisted.internet.epollreactor import EPollReactor
    from twisted.internet.defer import Deferred
    from tolliver.twisted import InstanceOptions, TLS, create_instance

    reactor = EPollReactor()

    def opened(name):
        tls = TLS(f"{name}.pem", f"{name}.key", "ca.pem")
        database = f"{sys.argv[1]}/{name}.db"
        return create_instance(InstanceOptions(database=database, listen="localhost:0", tls=tls), reactor)

    async def main():
        async with await opened("bob") as bob, await opened("alice") as alice:
            await bob.subscribe("news", handler=lambda message: print(message.body))
            await alice.new_connection(f"localhost:{bob.port}")
            await alice.wait_acked(await alice.send("news", "", b"hello"))

    reactor.callWhenRunning(lambda: Deferred.fromCoroutine(main()).addBoth(print).addBoth(lambda _: reactor.stop()))
    reactor.run()
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import sys", 'assert "twisted.internet.reactor" not in sys.modules'),
        ('import sys; sys.modules["OpenSSL"] = sys.modules["service_identity"] = None', ""),
    ],
    ids=["the global reactor", "pyOpenSSL and service_identity"],
)
def test_it_does_without(tmp_path: Any, certs: Certificates, before: str, after: str) -> None:
    """From the first import to the end, and without a warning."""
    for name in ("alice", "bob"):
        certs.tls(name)
    program = "\n".join((before, textwrap.dedent(MESSAGES_OVER_TLS), after))
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, cwd=certs.directory, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "b'hello'\nNone\n", "")


def test_without_a_reactor_it_lives_on_the_global_one(tmp_path: Any, certs: Certificates) -> None:
    program = """
        import sys
        from twisted.internet.task import react
        from twisted.internet.defer import Deferred
        from tolliver.twisted import InstanceOptions, create_instance

        async def main():
            options = InstanceOptions(database=f"{sys.argv[1]}/alone.db", plaintext=True)
            async with await create_instance(options) as alone:
                print((await alone.send("news", "", b"to nobody", to=())).recipients)

        react(lambda _reactor: Deferred.fromCoroutine(main()))
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
