"""Pressure: slow handlers, peers that do not read, cancels, full disks."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from tests.certificates import Certificates
from tests.opening import written_into
from tests.raw import RawPeer
from tolliver_proto import Ack, Delivery, Limits, NoticeKind, StoreError, encode

from .facade import Cancelled, Facade, until
from .kinds import EVERY_LOOP
from .nodes import Nodes, address, connected, noticed, subscribed
from .relay import Relay

MIB = 2**20


pytestmark = EVERY_LOOP


# Slow ones.


def test_a_slow_handler_stops_the_reading_and_gets_everything_later(nodes: Nodes) -> None:
    """D-9: 1,024 are handed out; the rest waits in sockets and with the sender, who drops what passes its mark."""
    gate = nodes.gate()
    size = 16 * 1024
    handled = 0

    def slow(_delivery: Delivery) -> Any:
        nonlocal handled
        handled += 1
        return gate

    with nodes.pair(channels=(), right={"limits": Limits(inbox_messages=256)}) as (left, right, _):
        right.subscribe("news", handler=slow)
        subscribed(left)
        sent = 0
        while not left.stats()["unreliable_dropped"]:
            for _ in range(16):
                sent += left.unreliable_send("news", "", bytes(size))
            assert sent * size < 32 * MIB  # all that is anywhere: with us, in two sockets, with the peer
        held = right.stats()["received_bytes"]
        limits = right.options.limits
        assert handled <= 1  # one call at a time
        assert held <= limits.inbox_messages * (size + 100) + limits.low_water + MIB
        gate.open()
        until(lambda: handled == sent)


def test_a_peer_that_never_reads_costs_a_bounded_buffer(nodes: Nodes, certs: Certificates) -> None:
    """V16: and the others notice nothing."""
    size = 64 * 1024
    count = 500  # 32 MiB
    with (
        nodes.pair() as (left, right, inbox),
        RawPeer(left.port or 0, certs.tls("mallory"), certs.uuid("mallory"), ["news"]) as raw,
    ):
        right.subscribe("for right", handler=lambda _: None)
        subscribed(left, 2)
        raw.establish()
        until(lambda: connected(left) == 2)
        before = psutil.Process().memory_info().rss
        for number in range(count):
            until(lambda: left.unreliable_send("news", "", bytes(size)))
            if number % 50 == 0:
                left.wait_acked(left.send("for right", "", b"x"))
        inbox.holds(count - left.stats()["unreliable_dropped"])
        accepted = left.stats()["unreliable_sent"] - len(inbox.deliveries)
        assert left.stats()["unreliable_dropped"] > 0
        assert accepted * size < 16 * MIB
        inbox.deliveries.clear()
        assert psutil.Process().memory_info().rss - before < 96 * MIB


# Cancelled calls.


def interrupted(node: Facade, call: str, arguments: Callable[[int], tuple[Any, ...]]) -> list[int]:
    """Cancel the call after 0, 1, 2 ... turns of its loop, then in longer steps, until it is done before that."""
    turns = [0]
    while True:
        try:
            node.interrupt(turns[-1], call, *arguments(turns[-1]))
        except Cancelled:
            turns.append(turns[-1] + 1 + turns[-1] // 2)
        else:
            return turns


def test_a_send_that_is_cancelled_anywhere_is_whole_or_nothing(nodes: Nodes) -> None:
    """Stored or not, the stream stays whole, and what returned arrives."""
    with nodes.pair() as (left, _right, inbox):
        returned: set[bytes] = set()
        tried: set[bytes] = {b"the end"}
        for size in (10, 70_000, 300_000):

            def body(turns: int, size: int = size) -> bytes:
                return b"%d %d " % (size, turns) + bytes(size)

            turns = interrupted(left, "send", lambda turns, body=body: ("news", "", body(turns)))  # type: ignore[misc]  # bound now
            tried |= {body(count) for count in turns}
            returned.add(body(turns[-1]))
        with written_into(left.database) as writer:  # so that this one is cancelled, however fast the others were
            with pytest.raises(Cancelled):
                left.interrupt(1, "send", "news", "", b"held up")
            writer.let_go()
        tried.add(b"held up")
        left.wait_acked(left.send("news", "", b"the end"))
        assert returned <= set(inbox.bodies) <= tried
        assert len(inbox.bodies) == len(set(inbox.bodies))


@pytest.mark.parametrize("call", ["subscribe", "unsubscribe"])
def test_a_subscription_that_is_cancelled_is_made_or_not_and_both_sides_agree(nodes: Nodes, call: str) -> None:
    with nodes.pair(channels=()) as (left, right, _):
        right.subscribe("kept")
        if call == "unsubscribe":
            for number in range(10):
                right.subscribe(f"c{number}")
        interrupted(right, call, lambda turns: (f"c{turns}",))
        right.subscribe("the end")
        until(lambda: "the end" in {one.channel for one in left.peers()[0].subscriptions})
        until(lambda: len(left.peers()[0].subscriptions) == right.stats()["own_subscriptions"])


def test_waits_that_end_early_leave_nothing_waiting(nodes: Nodes) -> None:
    with nodes.pair(channels=()) as (left, right, inbox):
        right.subscribe("news")  # nobody handles it yet
        subscribed(left)
        receipt = left.send("news", "", b"x")
        for _ in range(3):
            with pytest.raises(TimeoutError):
                left.wait_acked(receipt, timeout=0.01)
        messages = right.messages("other")
        coming = messages.start_next()
        if coming.cancel:
            coming.cancel()
        messages.close()
        coming.outcome()
        right.register_callback("news", "", inbox)
        left.send("news", "", b"y")
        inbox.holds(1)


# Ends with data in flight.


def test_closing_with_data_in_flight_loses_nothing(nodes: Nodes) -> None:
    everything = {b"%d" % number for number in range(1200)}
    handled: set[bytes] = set()

    def handler(delivery: Delivery) -> Any:
        handled.add(delivery.body)
        return nodes.gate().open() if len(handled) % 20 == 0 else None

    with nodes.open("right") as right:
        right.subscribe("news", handler=handler)
        with nodes.open("left") as left:
            left.new_connection(address(right))
            left.send_many([("news", "", body) for body in sorted(everything)])
            until(lambda: len(handled) > 100)
    for _ in range(3):
        with nodes.open("left") as left, nodes.open("right") as right:
            right.register_callback("news", "", handler)
            left.new_connection(address(right))
            wanted = min(len(handled) + 200, 1200)
            until(lambda wanted=wanted: len(handled) >= wanted)  # type: ignore[misc]  # bound now, not later
    with nodes.open("left") as left, nodes.open("right") as right:
        right.register_callback("news", "", handler)
        left.new_connection(address(right))
        until(lambda: left.stats()["pending"] == 0)
    assert handled == everything


def test_an_acknowledgement_that_comes_while_it_closes_counts(nodes: Nodes, certs: Certificates) -> None:
    """A close has steps: our half is shut, and theirs is read to its end. Else the message would come again."""
    with nodes.open("left") as left:
        with RawPeer(left.port or 0, certs.tls("mallory"), certs.uuid("mallory"), ["news"]) as raw:
            raw.establish()
            until(lambda: connected(left) == 1)
            left.send("news", "", b"x")
            [message] = raw.receive_messages(1)
            closing = left.start_close()
            raw.read_to_the_end()
            raw.send_raw(encode(Ack(message.message_id or 0)))
        closing.wait()
    assert nodes.rows("left", "owed") == 0


def test_a_line_that_is_cut_in_large_messages_loses_nothing(nodes: Nodes) -> None:
    rng = random.Random(5)
    bodies = {bytes([number]) + rng.randbytes(2 * MIB) for number in range(4)}
    with nodes.pair(channels=(), left={"limits": Limits(redial_first=0.005)}) as (left, right, inbox):
        right.subscribe("news", handler=inbox)
        left.remove_connection(address(right))
        with Relay(right.port or 0) as relay:
            left.new_connection(relay.address)
            receipt = left.send_many([("news", "", body) for body in sorted(bodies)])
            for cuts in range(1, 4):
                enough = right.stats()["received_bytes"] + MIB

                def far(enough: int = enough) -> bool:
                    return right.stats()["received_bytes"] > enough or not left.stats()["pending"]

                until(far)
                relay.cut()
                until(lambda cuts=cuts: relay.dials > cuts)  # type: ignore[misc]  # bound now, not later
            left.wait_acked(receipt)
            left.remove_connection(relay.address)
        assert set(inbox.bodies) == bodies


# No descriptors, no space.


def test_a_listener_outlives_a_shortage_of_descriptors(nodes: Nodes) -> None:
    resource = pytest.importorskip("resource")
    with nodes.open("right") as right, nodes.open("left") as left:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with socket.socket() as late:
            with socket.socket() as lowest_free:
                none_free = lowest_free.fileno()
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (none_free, hard))
                late.connect(("127.0.0.1", right.port or 0))  # it waits in the kernel until it is accepted
                time.sleep(0.1)  # it has tried by then; each loop tells of it in its own way, or not at all
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            left.new_connection(address(right))


def _limit_pages(node: Any, more: int | None) -> None:
    """The database may grow by so many pages; None: without limit."""

    def limit(instance: Any) -> None:
        connection = instance._store._file.connection
        [(pages,)] = connection.execute("PRAGMA page_count").fetchall()
        connection.execute(f"PRAGMA max_page_count = {2**31 - 2 if more is None else pages + more}")

    node._look(limit)


def test_a_full_disk_is_an_error_that_passes(nodes: Nodes) -> None:
    """V10: nothing of it is kept, the connections live, and when there is space it works again."""
    with nodes.pair() as (left, right, inbox):
        _limit_pages(left, 8)
        for _ in range(2):
            with pytest.raises(StoreError, match="no space"):
                left.send("news", "", bytes(MIB))
            with pytest.raises(StoreError, match="no space"):
                left.send_many([("news", "", b"small"), ("news", "", bytes(MIB))])
        assert len(noticed(left, NoticeKind.STORE_ERROR)) == 1, "the others are counted, and told as a sum"
        assert left.stats()["notices_store_error"] == 4
        assert left.stats()["pending"] == 0
        assert connected(left) == connected(right) == 1
        left.unreliable_send("news", "", b"still here")
        left.wait_acked(left.send("news", "", b"a small one has room"))
        _limit_pages(left, None)
        left.wait_acked(left.send("news", "", bytes(MIB)))
        assert inbox.bodies == [b"still here", b"a small one has room", bytes(MIB)]


def test_a_subscription_that_cannot_be_stored_is_not_made(nodes: Nodes) -> None:
    with nodes.pair(channels=()) as (left, right, _):
        _limit_pages(right, 0)
        names = [f"{number:04}" * 1000 for number in range(20)]
        failed = [name for name in names if isinstance(right.start("subscribe", name).outcome(), StoreError)]
        _limit_pages(right, None)
        assert failed
        right.subscribe("works again")
        made = {*names, "works again"} - set(failed)
        until(lambda: {one.channel for one in left.peers()[0].subscriptions} == made)


# Calls from many threads at once.


def test_calls_from_many_threads_at_once(nodes: Nodes) -> None:
    """Each adapter in its own way: a portal, `callFromThread`, or directly."""
    with nodes.pair() as (left, _right, inbox):

        def send(number: int) -> None:
            for more in range(10):
                left.send("news", "", b"%d %d" % (number, more))

        threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        until(lambda: left.stats()["pending"] == 0)
        inbox.holds(80)
        for number in range(8):
            mine = [body for body in inbox.bodies if body.startswith(b"%d " % number)]
            assert mine == [b"%d %d" % (number, more) for more in range(10)]
