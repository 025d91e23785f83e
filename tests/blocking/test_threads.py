"""Calls, handlers and iterators from many threads, and their timeouts."""

from __future__ import annotations

import copy
import gc
import pickle
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tolliver.blocking import Instance

from tests.blocking.nodes import PATIENCE, Nodes, until
from tests.opening import no_more_threads
from tolliver_proto import ConnectionClosing, Delivery, NoticeKind, ReservedChannel
from tolliver_proto.errors import OutOfThreads
from tolliver_proto.node import Request


def test_many_threads_send_at_once_and_each_has_its_own_order(nodes: Nodes) -> None:
    seen: list[tuple[int, int]] = []

    def handler(delivery: Delivery) -> None:
        sender, _, number = delivery.body.partition(b":")
        seen.append((int(sender), int(number)))

    with nodes.pair() as (left, right), ThreadPoolExecutor(16) as pool:
        right.register_callback("news", "", handler)

        def send(sender: int) -> None:
            for number in range(25):
                receipt = left.send("news", "", b"%d:%d" % (sender, number))
                assert receipt.recipients == 1
                left.stats()
                left.peers()

        list(pool.map(send, range(16)))
        until(lambda: len(seen) == 16 * 25)
        for sender in range(16):
            assert [number for one, number in seen if one == sender] == list(range(25))


def test_threads_that_wait_for_one_thing_all_get_it(nodes: Nodes) -> None:
    with nodes.pair() as (left, right), ThreadPoolExecutor(8) as pool:
        messages = right.messages("news")
        receipt = left.send("news", "", b"x")
        waiting = [pool.submit(left.wait_acked, receipt, timeout=PATIENCE) for _ in range(8)]
        messages.next(PATIENCE).ack()
        for one in waiting:
            one.result(PATIENCE)


# Callbacks.


def test_a_callback_may_send_and_wait(nodes: Nodes) -> None:
    echoed = threading.Event()
    with nodes.pair() as (left, right):
        left.subscribe("echo", handler=lambda _delivery: echoed.set())
        until(lambda: right.peers()[0].subscriptions)

        def echo(delivery: Delivery) -> None:
            right.wait_acked(right.send("echo", "", delivery.body), timeout=PATIENCE)

        right.register_callback("news", "", echo)
        left.wait_acked(left.send("news", "", b"x"), timeout=PATIENCE)
        assert echoed.is_set()


def test_each_registration_has_a_thread_and_one_call_at_a_time(nodes: Nodes) -> None:
    both = threading.Barrier(2, timeout=PATIENCE)
    threads: dict[str, set[int]] = {"one": set(), "other": set()}
    running: set[str] = set()

    def handler(name: str) -> Any:
        def handle(_delivery: Delivery) -> None:
            assert name not in running
            running.add(name)
            both.wait()  # the other one is running, too
            threads[name].add(threading.get_ident())
            running.discard(name)

        return handle

    with nodes.pair() as (left, right):
        for name in threads:
            right.register_callback("news", "", handler(name))
        left.wait_acked(left.send_many([("news", "", b"x")] * 10), timeout=PATIENCE)
        assert right.notices() == []
        assert [len(idents) for idents in threads.values()] == [1, 1]
        assert len(set.union(*threads.values())) == 2


def test_what_is_done_does_not_wait_for_a_call_that_takes_its_time(nodes: Nodes) -> None:
    go_on = threading.Event()

    def handler(delivery: Delivery) -> None:
        if delivery.body == b"slow":
            go_on.wait(PATIENCE)

    with nodes.pair() as (left, right):
        right.register_callback("news", "", handler)
        receipt = left.send_many([("news", "", b"quick"), ("news", "", b"slow")])  # they come together
        until(lambda: left.peers()[0].pending == 1)
        with pytest.raises(TimeoutError):
            left.wait_acked(receipt, timeout=0.05)
        go_on.set()
        left.wait_acked(receipt, timeout=PATIENCE)


async def _async_callback(_delivery: Delivery) -> None:
    pass


class _AsyncCallable:
    async def __call__(self, _delivery: Delivery) -> None:
        pass


@pytest.mark.parametrize("callback", [_async_callback, _AsyncCallable()])
def test_an_async_callback_is_refused(nodes: Nodes, callback: Any) -> None:
    with nodes.open("left") as left:
        with pytest.raises(TypeError, match="is async: give a plain function"):
            left.register_callback("news", "", callback)
        with pytest.raises(TypeError):
            left.subscribe("news", handler=callback)
        assert left.stats()["own_subscriptions"] == 0


def test_a_callback_that_returns_an_awaitable_has_failed(nodes: Nodes) -> None:
    with nodes.pair(retry_interval=0.05) as (left, right):
        registration = right.register_callback("news", "", lambda delivery: _async_callback(delivery))
        receipt = left.send("news", "", b"x")
        until(lambda: [one for one in right.notices() if one.kind is NoticeKind.HANDLER_FAILED])
        assert "plain function" in right.notices()[0].detail
        registration.close()
        right.register_callback("news", "", lambda _delivery: None)
        left.wait_acked(receipt, timeout=PATIENCE)


def test_a_call_that_outlives_its_registration_says_nothing(nodes: Nodes) -> None:
    running, go_on = threading.Event(), threading.Event()

    def handler(_delivery: Delivery) -> None:
        running.set()
        go_on.wait(PATIENCE)

    with nodes.pair(retry_interval=0.05) as (left, right):
        registration = right.register_callback("news", "", handler)
        receipt = left.send("news", "", b"x")
        assert running.wait(PATIENCE)
        registration.close()
        go_on.set()
        with pytest.raises(TimeoutError):
            left.wait_acked(receipt, timeout=0.05)
        messages = right.messages("news")
        again = messages.next(PATIENCE)
        assert again.attempt > 1
        again.ack()
        left.wait_acked(receipt, timeout=PATIENCE)


def test_a_callback_may_close_its_instance(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        with nodes.open("right") as right:
            right.subscribe("news", handler=lambda _delivery: right.close())
            left.new_connection(f"127.0.0.1:{right.port}")
            left.send("news", "", b"x")
            until(lambda: not left.stats()["peers_up"])
        with nodes.open("right"):  # it has let its database go
            pass


# Iterators.


def test_threads_may_share_an_iterator_and_settle_for_each_other(nodes: Nodes) -> None:
    count = 400
    seen: list[Delivery] = []
    with nodes.pair() as (left, right), ThreadPoolExecutor(8) as pool:
        with right.messages("news", timeout=PATIENCE) as messages:

            def take(_thread: int) -> None:
                for message in messages:
                    seen.append(message)
                    if len(seen) >= count:
                        messages.close()

            def settle() -> None:
                for at in range(count):
                    until(lambda at=at: len(seen) > at)  # type: ignore[misc]  # bound now, not later
                    seen[at].ack()

            settling = pool.submit(settle)
            receipt = left.send_many([("news", "", b"%d" % number) for number in range(count)])
            list(pool.map(take, range(4)))
            settling.result(PATIENCE)
        until(lambda: len(seen) == count)
        assert sorted(int(one.body) for one in seen) == list(range(count))
        right.register_callback("news", "", lambda _delivery: None)  # messages that closing failed come again
        with pytest.raises(TimeoutError):
            left.wait_acked(receipt, timeout=0.01)


def test_a_loop_with_a_timeout_ends_and_may_begin_again(nodes: Nodes) -> None:
    with nodes.pair() as (left, right):
        messages = right.messages("news", timeout=0.05)
        assert list(messages) == []
        receipt = left.send("news", "", b"x")
        for message in iter(lambda: next(messages, None), b"never"):
            if message is not None:
                message.ack()
                break
        left.wait_acked(receipt, timeout=PATIENCE)
        with pytest.raises(TimeoutError, match=r"after 0\.01 s no message of 'news' '' has come"):
            messages.next(0.01)
        with pytest.raises(TimeoutError):
            messages.next(timeout=0)
        messages.close()
        with pytest.raises(ConnectionClosing, match="closed"):
            messages.next(0.01)
        assert list(messages) == []
        assert list(right.message_runs("news", timeout=0.01)) == []


def test_an_iterator_that_cannot_subscribe_leaves_nothing(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        with pytest.raises(ReservedChannel):
            left.messages("tolliver")
        gc.collect()
        until(lambda: not left._core.mailboxes)


def test_an_iterator_that_nobody_has_any_more_is_closed_from_any_thread(nodes: Nodes) -> None:
    with nodes.pair(retry_interval=0.05) as (left, right):

        def take_and_forget() -> None:
            messages = iter(right.messages("news"))
            next(messages)

        receipt = left.send("news", "", b"x")
        thread = threading.Thread(target=take_and_forget)
        thread.start()
        thread.join()
        gc.collect()
        until(lambda: not right._core.mailboxes)
        right.register_callback("news", "", lambda _delivery: None)
        left.wait_acked(receipt, timeout=PATIENCE)


def test_closing_ends_every_wait_of_every_thread(nodes: Nodes) -> None:
    with ThreadPoolExecutor(8) as pool, nodes.pair() as (left, _right):
        receipt = left.send("news", "", b"x")
        acked = pool.submit(left.wait_acked, receipt)
        dialled = pool.submit(left.new_connection, "127.0.0.1:1")
        item = pool.submit(left.messages("sport").next)
        rest = pool.submit(list, left.messages("sport"))
        until(lambda: left.stats()["own_subscriptions"] and left.remotes())
        closing = [pool.submit(left.close) for _ in range(3)]
        for one in (acked, dialled, item):
            with pytest.raises(ConnectionClosing):
                one.result(PATIENCE)
        assert rest.result(PATIENCE) == []
        for one in closing:
            one.result(PATIENCE)
        with pytest.raises(ConnectionClosing):
            left.messages("sport")


# Timeouts.


def test_a_timeout_says_what_was_waited_for_and_what_happens_now(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        with pytest.raises(TimeoutError, match=r"after 0\.01 s there is no connection to 127.0.0.1:1.*remove_conn"):
            left.new_connection("127.0.0.1:1", timeout=0.01)
        left.remove_connection("127.0.0.1:1")


class Interrupted(BaseException):
    """As Ctrl-C in the main thread."""


@pytest.mark.skipif(sys.platform == "win32", reason="signals as POSIX has them")
def test_an_interrupt_ends_the_request_that_it_interrupts(nodes: Nodes) -> None:
    """Its number is free at once (P-14)."""

    def interrupt(*_signal: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    answer = threading.Event()

    def handler(request: Request) -> bytes:
        if request.body == b"first":
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            answer.wait(PATIENCE)
        return request.body

    try:
        with nodes.open("right") as right, nodes.open("left") as left:
            right.respond("echo", handler)
            left.new_connection(f"127.0.0.1:{right.port}")
            left.wait_subscribed("tolliver.request/echo", timeout=PATIENCE)
            with pytest.raises(Interrupted):
                left.request("echo", b"first", request_id=4711, timeout=PATIENCE)
            assert left.stats().requests_outstanding == 0
            assert left.request("echo", b"second", request_id=4711, timeout=PATIENCE).body == b"second"
            answer.set()
            until(lambda: left.stats().late_replies == 1)
    finally:
        answer.set()
        signal.signal(signal.SIGUSR1, before)


def calls(instance: Instance) -> Iterator[Any]:
    [known] = instance.peers()
    peer = known.uuid
    yield lambda: instance.subscribe("news", timeout=0)
    yield lambda: instance.unsubscribe("news", timeout=0)
    yield lambda: instance.send("news", "", b"x", timeout=0)
    yield lambda: instance.send_many([("news", "", b"x")], timeout=0)
    yield lambda: instance.admin.forget_peer(peer, timeout=0)
    yield lambda: instance.admin.retry(peer, timeout=0)
    yield lambda: instance.admin.drop_parked(peer, timeout=0)
    yield lambda: instance.admin.dead_letters(timeout=0)
    yield lambda: instance.admin.repin(peer, bytes(32), timeout=0)


def test_every_call_that_waits_for_the_disk_may_have_a_limit(nodes: Nodes) -> None:
    with nodes.pair() as (left, _right):
        go_on = threading.Event()
        left._core.store(lambda: go_on.wait(PATIENCE), lambda _result, _error: None)  # a slow disk
        for call in calls(left):
            with pytest.raises(TimeoutError, match=r"after 0 s .*: "):
                call()
        go_on.set()
        left.subscribe("news", timeout=float("inf"))  # no clock counts that far


def test_a_generator_that_waits_holds_up_nobody(nodes: Nodes) -> None:
    with nodes.pair() as (left, _right), ThreadPoolExecutor(1) as pool:
        begun, go_on = threading.Event(), threading.Event()
        waited: list[bool] = []

        def items() -> Iterator[tuple[str, str, bytes]]:
            begun.set()
            waited.append(go_on.wait(5))
            yield "news", "", b"late"

        slow = pool.submit(left.send_many, items())
        assert begun.wait(PATIENCE)
        assert left.send("news", "", b"x", timeout=PATIENCE).recipients == 1
        go_on.set()
        assert slow.result(PATIENCE).recipients == 1
        assert waited == [True]


# No threads left.


def test_without_a_thread_a_callback_is_refused_and_leaves_nothing(nodes: Nodes) -> None:
    with nodes.pair() as (left, right):
        with no_more_threads(), pytest.raises(OutOfThreads, match="ulimit -u"):
            right.register_callback("news", "", lambda _message: None)
        assert not right._core.mailboxes
        right.register_callback("news", "", lambda _message: None)
        left.wait_acked(left.send("news", "", b"x"), timeout=PATIENCE)


def test_without_a_thread_an_instance_is_not_opened_and_leaves_nothing(nodes: Nodes) -> None:
    with no_more_threads(), pytest.raises(OutOfThreads, match="ulimit -u"), nodes.open("left"):
        pytest.fail("an instance without threads")
    with nodes.open("left") as left:
        assert not left._core._store.unclean


def test_without_a_thread_nothing_is_recorded_and_nothing_opened(nodes: Nodes, tmp_path: Path) -> None:
    recordings = tmp_path / "recordings"
    with no_more_threads(), pytest.raises(OutOfThreads), nodes.open("left", record=recordings):
        pytest.fail("an instance without threads")
    assert list(recordings.iterdir()) == []
    with nodes.open("left", record=recordings) as left:
        assert not left._core._store.unclean
    assert list(recordings.iterdir()) == []  # nobody was connected


# Calls that cannot be.


@pytest.mark.parametrize("take", [pickle.dumps, copy.copy, copy.deepcopy])
def test_an_instance_is_not_pickled_or_copied(nodes: Nodes, take: Any) -> None:
    for instance in (nodes.open("left"), nodes.open("right").__enter__()):
        with pytest.raises(TypeError, match=r"cannot be pickled or copied.*D-16"):
            take(instance)
        instance.close()


def test_a_failure_of_our_own_tells_everybody_who_waits(nodes: Nodes, caplog: pytest.LogCaptureFixture) -> None:
    """Of any kind: nobody waits for ever, and closing works."""
    started = time.monotonic()
    with ThreadPoolExecutor(2) as pool, nodes.pair() as (left, _right):
        messages = left.messages("sport")
        dialled = pool.submit(left.new_connection, "127.0.0.1:1")
        item = pool.submit(messages.next)
        until(lambda: left.remotes())
        left._core.store(lambda: 1 // 0, lambda _result, _error: None)
        for one in (dialled, item):
            with pytest.raises(ConnectionClosing):
                one.result(PATIENCE)
        assert "ZeroDivisionError" in caplog.text
    assert time.monotonic() - started < PATIENCE
