"""The life of an instance: who it is, where it listens, how it begins and how it ends."""

from __future__ import annotations

import gc
import os
import socket
import sys
import threading
from functools import partial
from uuid import UUID

import anyio
import anyio.lowlevel
import psutil
import pytest
from anyio.to_thread import run_sync
from tolliver_transports.anyio import create_instance

from tests.anyio.nodes import Nodes, address, connected, error_of, silent_port, until
from tests.anyio.raw import RawPeer
from tests.certificates import Certificates
from tolliver_proto import ConnectionClosing, ConnectionLost, IdentityConflict, Limits, StoreError

pytestmark = pytest.mark.anyio
SOMEBODY = UUID("01890000-0000-7000-8000-00000000aaaa")


class OwnError(Exception):
    pass


# Who it is.


async def test_the_certificate_says_who_it_is(nodes: Nodes) -> None:
    async with nodes.open("left") as instance:
        assert instance.instance_id == nodes.certs.uuid("left")


async def test_without_a_certificate_the_database_or_the_option_says_it(nodes: Nodes) -> None:
    async with nodes.open("new", plaintext=True) as instance:
        made_up = instance.instance_id
    async with nodes.open("new", plaintext=True) as instance:
        assert instance.instance_id == made_up
    async with nodes.open("given", plaintext=True, identity=SOMEBODY) as instance:
        assert instance.instance_id == SOMEBODY
    async with nodes.open("given", plaintext=True) as instance:
        assert instance.instance_id == SOMEBODY


async def test_a_certificate_without_a_uuid_leaves_it_to_the_database(nodes: Nodes) -> None:
    async with nodes.open("node", tls=nodes.certs.tls("anonymous"), identity=SOMEBODY) as instance:
        assert instance.instance_id == SOMEBODY


async def test_who_it_is_must_not_be_contradicted(nodes: Nodes) -> None:
    async with nodes.open("left"):
        pass
    for name, options in (
        ("option against certificate", {"tls": nodes.certs.tls("left"), "identity": SOMEBODY}),
        ("certificate against database", {"tls": nodes.certs.tls("right"), "database": nodes.directory / "left.db"}),
        ("option against database", {"plaintext": True, "identity": SOMEBODY, "database": nodes.directory / "left.db"}),
    ):
        with pytest.raises(IdentityConflict):
            async with nodes.open("any", **options):
                pytest.fail(name)
    async with nodes.open("left"):  # and a refused one has let everything go
        pass


async def test_one_instance_at_a_time_uses_a_database(nodes: Nodes) -> None:
    async with nodes.open("left") as first:
        with pytest.raises(StoreError, match="in use by another instance"):
            async with nodes.open("left"):
                pytest.fail("two on one database (T-79)")
        assert first.peers() == []


# Where it listens.


async def test_it_listens_before_it_is_returned(nodes: Nodes) -> None:
    async with nodes.open("left") as instance:
        assert instance.port
        assert instance.addresses == [("127.0.0.1", instance.port)]
        async with await anyio.connect_tcp("127.0.0.1", instance.port):
            pass
    async with nodes.open("left", listen=None) as deaf:
        assert deaf.port is None
        assert deaf.addresses == []


async def test_a_host_with_two_addresses_is_listened_to_on_both(nodes: Nodes) -> None:
    async with nodes.open("left", listen="localhost:0") as left, nodes.open("right", listen=None) as right:
        for host, port in left.addresses:
            await right.new_connection(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        assert connected(right) == 1


async def test_a_port_in_use_is_a_clear_error_that_leaves_nothing_behind(nodes: Nodes) -> None:
    async with nodes.open("left") as left:
        with pytest.raises(ConnectionLost, match=f"cannot listen on 127.0.0.1:{left.port}.*Choose another"):
            async with nodes.open("right", listen=address(left)):
                pytest.fail("two listeners on one port")
    async with nodes.open("right"):
        pass


async def test_initial_remotes_are_dialled_in_the_background(nodes: Nodes) -> None:
    with socket.socket() as reserved:  # nobody listens there yet (T-75)
        reserved.bind(("127.0.0.1", 0))
        remote = f"127.0.0.1:{reserved.getsockname()[1]}"
        async with nodes.open("left", remotes=[remote]) as left:
            assert connected(left) == 0
            reserved.close()
            async with nodes.open("right", listen=remote):
                await until(lambda: connected(left))


# How it ends.


async def test_an_error_of_the_body_comes_out_as_it_is(nodes: Nodes) -> None:
    with pytest.raises(OwnError, match="mine"):
        async with nodes.pair():
            raise OwnError("mine")


async def test_cancelling_closes_in_order(nodes: Nodes) -> None:
    async with nodes.open("right") as right:
        with anyio.CancelScope() as scope:
            async with nodes.open("left") as left:
                await left.new_connection(address(right))
                scope.cancel()
                await anyio.sleep_forever()
        assert scope.cancelled_caught
        await until(lambda: connected(right) == 0)
        assert right.notices() == []  # the end was an orderly one
        async with nodes.open("left"):
            pass


async def test_whoever_waits_when_it_closes_is_told(nodes: Nodes) -> None:
    seen: list[object] = []
    with silent_port() as remote:
        async with anyio.create_task_group() as tasks, nodes.open("left") as left:

            async def dial() -> None:
                seen.append(await error_of(left, remote))

            tasks.start_soon(dial)
            await until(lambda: left.stats()["connections"])
    assert isinstance(seen[0], ConnectionClosing)


async def test_outside_its_block_every_call_says_so(nodes: Nodes) -> None:
    instance = nodes.open("left")
    with pytest.raises(ConnectionClosing, match="create_instance"):
        await instance.send("news", "", b"too early")
    async with instance:
        pass
    with pytest.raises(ConnectionClosing):
        await instance.send("news", "", b"too late")
    with pytest.raises(ConnectionClosing):
        instance.messages("news")
    with pytest.raises(ConnectionClosing):
        instance.register_callback("news", "", print)
    with pytest.raises(ConnectionClosing):
        await instance.new_connection("127.0.0.1:1")
    assert instance.peers() == []


async def test_closing_does_not_wait_for_a_handler_that_hangs(nodes: Nodes) -> None:
    async def hangs(_delivery: object) -> None:
        await anyio.sleep_forever()

    async with nodes.open("left") as left:
        async with nodes.open("right", limits=Limits(inbox_messages=10)) as right:
            await right.subscribe("news", handler=hangs)
            await left.new_connection(address(right))
            await left.send_many([("news", "", bytes(100_000))] * 50)
            await until(lambda: right.stats()["bytes_received"] > 1_000_000)  # reading is paused, too
            started = anyio.current_time()
        assert anyio.current_time() - started < left.options.limits.close_timeout


async def test_it_listens_no_more_while_it_closes(nodes: Nodes, certs: Certificates) -> None:
    ready, over = threading.Event(), threading.Event()

    def stays(port: int | None) -> None:
        with RawPeer(port or 0, certs.tls("mallory"), certs.uuid("mallory")) as raw:
            raw.establish()
            ready.set()
            over.wait(10)  # and does not answer the close

    async with anyio.create_task_group() as tasks:
        async with nodes.open("right", limits=Limits(close_timeout=0.3)) as right:
            tasks.start_soon(partial(run_sync, stays, right.port))
            await until(ready.is_set)

            async def dial() -> None:
                await until(lambda: right.node.closing)
                await anyio.sleep(0.05)
                assert right.stats()["connections"] == 1  # it is not through
                with socket.socket() as late:
                    assert late.connect_ex(("127.0.0.1", right.port or 0))

            tasks.start_soon(dial)
        over.set()


def _left_open() -> tuple[int, set[str]]:
    files = {file.path for file in psutil.Process().open_files()}
    return psutil.Process().num_fds(), {path for path in files if ".db" in path}


@pytest.mark.skipif(sys.platform == "win32", reason="descriptors are counted as POSIX does")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_nothing_is_left_open(nodes: Nodes, backend: str) -> None:
    async def use() -> None:
        async with nodes.pair() as (left, _right, inbox):
            await left.wait_acked(await left.send("news", "", b"x"))
            await inbox.holds(1)
            with anyio.move_on_after(0.01):
                await left.new_connection("127.0.0.1:1")

    anyio.run(use, backend=backend)  # what the event loop keeps for itself exists from here on
    gc.collect()
    before = _left_open()
    anyio.run(use, backend=backend)
    gc.collect()
    assert _left_open() == before
    assert before[1] == set()
    assert not [thread.name for thread in threading.enumerate() if "AnyIO" in thread.name]


async def test_the_database_is_private(nodes: Nodes) -> None:
    async with create_instance(nodes.options("left")) as left:
        assert os.stat(left.options.database).st_mode & 0o777 == 0o600
