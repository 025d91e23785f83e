"""More than somebody can take: slow handlers, peers that do not read, cancelled calls, a full disk."""

from __future__ import annotations

import random
import socket
import threading
from functools import partial

import anyio
import anyio.lowlevel
import psutil
import pytest
from anyio.to_thread import run_sync

from tests.anyio.nodes import Nodes, address, connected, noticed, until
from tests.anyio.raw import PATIENCE, RawPeer
from tests.certificates import Certificates
from tolliver_proto import Delivery, Limits, NoticeKind, StoreError

pytestmark = pytest.mark.anyio
MIB = 2**20


# Slow ones.


async def test_a_slow_handler_stops_the_reading_and_gets_everything_later(nodes: Nodes) -> None:
    """D-9: 1,024 are handed out; the rest waits in sockets and with the sender, who drops what passes its mark."""
    go_on = anyio.Event()
    handled = 0
    size = 4096

    async def slow(_delivery: Delivery) -> None:
        nonlocal handled
        await go_on.wait()
        handled += 1

    async with nodes.pair(channels=()) as (left, right, _):
        await right.subscribe("news", handler=slow)
        await until(lambda: left.peers()[0].subscriptions)
        sent = 0
        while "unreliable_dropped" not in left.stats():
            sent += left.unreliable_send("news", "", bytes(size))
            if sent % 16 == 0:
                await anyio.lowlevel.checkpoint()
        held = right.stats()["bytes_received"]
        limits = Limits()
        assert handled == 0
        assert held <= limits.inbox_messages * (size + 100) + limits.low_water + MIB
        assert sent * size < 32 * MIB  # all that is anywhere: with us, in two sockets, with the peer
        go_on.set()
        await until(lambda: handled == sent)


async def test_a_peer_that_never_reads_costs_a_bounded_buffer(nodes: Nodes, certs: Certificates) -> None:
    """V16: and the others notice nothing."""
    done = threading.Event()
    size = 16 * 1024

    def never_reads(port: int | None) -> None:
        with RawPeer(port or 0, certs.tls("mallory"), certs.uuid("mallory"), ["news"]) as raw:
            raw.establish()
            done.wait(PATIENCE)

    async with nodes.pair() as (left, _right, inbox), anyio.create_task_group() as tasks:
        tasks.start_soon(partial(run_sync, never_reads, left.port))
        await until(lambda: connected(left) == 2)
        before = psutil.Process().memory_info().rss
        for number in range(2000):  # 32 MiB
            await until(lambda: left.unreliable_send("news", "", bytes(size)))
            if number % 50 == 0:
                await left.wait_acked(await left.send("for right", "", b"x"))
        await inbox.holds(2000 - left.stats()["unreliable_dropped"])
        accepted = left.stats()["unreliable_sent"] - len(inbox.deliveries)
        assert left.stats()["unreliable_dropped"] > 0
        assert accepted * size < 16 * MIB
        inbox.deliveries.clear()
        assert psutil.Process().memory_info().rss - before < 96 * MIB
        done.set()


# Cancelled calls.


async def test_a_cancelled_send_cuts_nothing(nodes: Nodes) -> None:
    """Cancelled anywhere, a message is stored or it is not; the stream stays whole, and what returned arrives."""
    rng = random.Random(7)
    async with nodes.pair() as (left, _right, inbox):
        returned: list[bytes] = []
        tried: set[bytes] = set()
        for number in range(60):
            body = b"%d:" % number + bytes([number]) * rng.choice((10, 70_000, 300_000))
            tried.add(body)
            with anyio.move_on_after(rng.choice((0, 0.0002, 0.001, 0.003, 0.01))):
                receipt = await left.send("news", "", body)
                returned.append(body)
                await left.wait_acked(receipt)
        await left.wait_acked(await left.send("news", "", b"the end"))
        assert set(returned) <= set(inbox.bodies) <= tried | {b"the end"}
        assert len(inbox.bodies) == len(set(inbox.bodies))


async def test_cancelled_waits_leave_nothing_waiting(nodes: Nodes) -> None:
    async with nodes.pair(channels=()) as (left, right, inbox):
        await right.subscribe("news")  # nobody handles it yet
        await until(lambda: left.peers()[0].subscriptions)
        receipt = await left.send("news", "", b"x")
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await left.wait_acked(receipt, timeout=0.01)
        messages = right.messages("news")
        with anyio.move_on_after(0.01):
            await anext(messages)
        messages.close()
        right.register_callback("news", "", inbox)
        await left.send("news", "", b"y")
        await inbox.holds(1)


# Ends with data in flight.


async def test_closing_with_data_in_flight_loses_nothing(nodes: Nodes) -> None:
    everything = {b"%d" % number for number in range(1200)}
    handled: set[bytes] = set()

    async def handler(delivery: Delivery) -> None:
        await anyio.lowlevel.checkpoint()
        handled.add(delivery.body)

    async with nodes.open("right") as right:
        await right.subscribe("news", handler=handler)
        async with nodes.open("left") as left:
            await left.new_connection(address(right))
            await left.send_many([("news", "", body) for body in sorted(everything)])
            await until(lambda: len(handled) > 100)
        assert handled < everything
    for _ in range(3):
        async with nodes.open("left") as left, nodes.open("right") as right:
            right.register_callback("news", "", handler)
            await left.new_connection(address(right))
            wanted = min(len(handled) + 200, 1200)
            await until(lambda wanted=wanted: len(handled) >= wanted)  # type: ignore[misc]  # bound now, not later
    async with nodes.open("left") as left, nodes.open("right") as right:
        right.register_callback("news", "", handler)
        await left.new_connection(address(right))
        await until(lambda: left.stats()["pending"] == 0)
    assert handled == everything


# No descriptors, no space.


async def test_a_listener_outlives_a_shortage_of_descriptors(nodes: Nodes, caplog: pytest.LogCaptureFixture) -> None:
    resource = pytest.importorskip("resource")
    async with nodes.open("right") as right, nodes.open("left") as left:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with socket.create_connection(("127.0.0.1", right.port or 0)):  # it waits in the kernel until it is accepted
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (psutil.Process().num_fds(), hard))
                await until(lambda: "cannot accept" in caplog.text)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            await left.new_connection(address(right))


async def test_a_full_disk_is_an_error_that_passes(nodes: Nodes) -> None:
    """V10: nothing of it is kept, the connections live, and when there is space it works again."""
    async with nodes.pair() as (left, right, inbox):
        connection = left._store._file.connection
        [(pages,)] = connection.execute("PRAGMA page_count").fetchall()
        connection.execute(f"PRAGMA max_page_count = {pages + 8}")
        for _ in range(2):
            with pytest.raises(StoreError, match="no space"):
                await left.send("news", "", bytes(MIB))
            with pytest.raises(StoreError, match="no space"):
                await left.send_many([("news", "", b"small"), ("news", "", bytes(MIB))])
        assert len(noticed(left, NoticeKind.STORE_ERROR)) == 4
        assert left.stats()["pending"] == 0
        assert connected(left) == connected(right) == 1
        left.unreliable_send("news", "", b"still here")
        await left.wait_acked(await left.send("news", "", b"a small one has room"))
        connection.execute(f"PRAGMA max_page_count = {2**31 - 2}")
        await left.wait_acked(await left.send("news", "", bytes(MIB)))
        assert inbox.bodies == [b"still here", b"a small one has room", bytes(MIB)]


async def test_a_subscription_that_cannot_be_stored_is_not_made(nodes: Nodes) -> None:
    async with nodes.pair(channels=()) as (left, right, _):
        connection = right._store._file.connection
        connection.execute("PRAGMA max_page_count = 1")
        names = [f"{number:04}" * 1000 for number in range(20)]
        failed = []
        for name in names:
            try:
                await right.subscribe(name)
            except StoreError:
                failed.append(name)
        connection.execute(f"PRAGMA max_page_count = {2**31 - 2}")
        assert failed
        await right.subscribe("works again")
        made = {*names, "works again"} - set(failed)
        await until(lambda: {one.channel for one in left.peers()[0].subscriptions} == made)
