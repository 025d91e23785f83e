"""One machine over one socket on asyncio and trio, also with one for threads at the other end."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import pytest
from tolliver.anyio import AsyncConnection, Pumps, Remote, open_connection
from tolliver.blocking import BlockingConnection

from tests.anyio.nodes import Nodes
from tests.certificates import Certificates
from tolliver_proto import (
    Ack,
    Closed,
    ConnectionClosing,
    ConnectionLost,
    Established,
    HandshakeRequest,
    Limits,
    LocalProtocolError,
    Message,
    Role,
    Subscription,
)

pytestmark = pytest.mark.anyio
NEWS = Subscription("news", "")
PATIENCE = 30.0


@pytest.fixture(params=["plain", "TLS"])
def pumps(request: pytest.FixtureRequest, certs: Certificates) -> tuple[Any, Any]:
    """The server's and the client's."""
    if request.param == "plain":
        return None, None
    remote = Remote("127.0.0.1", 1, identity=certs.uuid("right"))
    return Pumps(certs.tls("right")).server(), Pumps(certs.tls("left")).client(remote)


async def established(connection: AsyncConnection) -> Established:
    while not isinstance(event := await connection.receive(PATIENCE), Established):
        assert not isinstance(event, Closed)
    return event


async def acknowledge(server: AsyncConnection, seen: list[Message]) -> None:
    async with server:
        async for event in server:
            if isinstance(event, Message):
                seen.append(event)
                await server.send(Ack(event.message_id or 0))


async def test_a_message_goes_and_its_ack_comes(pumps: tuple[Any, Any]) -> None:
    ours, theirs = socket.socketpair()
    seen: list[Message] = []
    message = Message("news", "k", bytes(3_000_000), 1)
    async with anyio.create_task_group() as tasks:
        server = AsyncConnection(theirs, Role.SERVER, pump=pumps[0], subscriptions=[NEWS])
        tasks.start_soon(acknowledge, server, seen)
        async with AsyncConnection(ours, Role.CLIENT, pump=pumps[1]) as client:
            with pytest.raises(LocalProtocolError):
                await client.send(message)
            assert (await established(client)).subscriptions == (NEWS,)
            await client.send(message, PATIENCE)
            assert await client.receive(PATIENCE) == Ack(1)
            with pytest.raises(TimeoutError, match="nothing has come"):
                await client.receive(0)
            assert repr(client) == f"<AsyncConnection over {client.machine!r}>"
            await client.close()
            with pytest.raises(ConnectionClosing):
                await client.receive()
    assert seen == [message]


async def test_one_task_sends_while_another_receives(pumps: tuple[Any, Any]) -> None:
    """Each way more than the system takes; the task that receives is the one that drives."""
    ours, theirs = socket.socketpair()
    seen: list[Message] = []
    acks: list[Ack] = []
    many = [Message("news", "", bytes(400_000), number) for number in range(1, 9)]

    async def gather(client: AsyncConnection) -> None:
        while len(acks) < len(many):
            event = await client.receive(PATIENCE)
            assert isinstance(event, Ack)
            acks.append(event)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(acknowledge, AsyncConnection(theirs, Role.SERVER, pump=pumps[0]), seen)
        async with AsyncConnection(ours, Role.CLIENT, pump=pumps[1]) as client:
            await established(client)
            async with anyio.create_task_group() as both:
                both.start_soon(gather, client)
                for message in many:
                    await client.send(message, PATIENCE)
    assert seen == many
    assert acks == [Ack(message.message_id or 0) for message in many]


async def test_a_cancelled_send_cuts_no_frame(pumps: tuple[Any, Any]) -> None:
    ours, theirs = socket.socketpair()
    seen: list[Message] = []
    message = Message("news", "", bytes(8_000_000), 1)
    server = AsyncConnection(theirs, Role.SERVER, pump=pumps[0])
    async with AsyncConnection(ours, Role.CLIENT, pump=pumps[1]) as client, anyio.create_task_group() as tasks:
        with anyio.move_on_after(0.01), pytest.raises(TimeoutError):
            await client.receive(0)
        tasks.start_soon(acknowledge, server, seen)
        await established(client)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await client.send(message)
        assert await client.receive(PATIENCE) == Ack(1)
        await client.close()
    assert seen == [message]


async def test_one_for_threads_at_the_other_end(pumps: tuple[Any, Any]) -> None:
    ours, theirs = socket.socketpair()

    def serve() -> list[Message]:
        seen = []
        with BlockingConnection(theirs, Role.SERVER, pump=pumps[0], subscriptions=[NEWS]) as server:
            for event in server:
                if isinstance(event, Message):
                    seen.append(event)
                    server.send(Ack(event.message_id or 0))
        return seen

    async def send() -> None:
        async with AsyncConnection(ours, Role.CLIENT, pump=pumps[1]) as client:
            await established(client)
            await client.send(Message("news", "", b"x", 1))
            assert await client.receive(PATIENCE) == Ack(1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        assert await anyio.to_thread.run_sync(serve) == [Message("news", "", b"x", 1)]


async def test_a_real_instance_is_dialled(nodes: Nodes, certs: Certificates) -> None:
    async with (
        nodes.open("right") as right,
        open_connection("127.0.0.1", right.port or 0, tls=certs.tls("left")) as connection,
    ):
        assert connection.machine.instance_id == certs.uuid("left")
        assert (await established(connection)).peer_id == right.instance_id
    with pytest.raises(ConnectionLost, match="cannot reach"):
        async with open_connection("127.0.0.1", 1, plaintext=True):
            pass
    with pytest.raises(ValueError, match="neither of the options tls"):
        async with open_connection("127.0.0.1", 1):
            pass


async def test_closing_does_not_wait_for_ever() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        await AsyncConnection(ours, Role.CLIENT, limits=Limits(close_timeout=0.05)).close()
        assert ours.fileno() < 0


async def test_an_iterator_whose_wait_ended_early_goes_on() -> None:
    ours, theirs = socket.socketpair()
    async with AsyncConnection(ours, Role.CLIENT) as client, AsyncConnection(theirs, Role.SERVER) as server:
        events = aiter(server)
        with anyio.move_on_after(0.01):
            await anext(events)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(established, client)
            assert isinstance(await anext(events), HandshakeRequest)
            await established(server)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.close)
            await server.close()


async def is_closing(call: Callable[[], Awaitable[Any]]) -> None:
    with pytest.raises(ConnectionClosing):
        await call()


async def test_who_iterates_or_receives_is_done_when_another_task_closes() -> None:
    ours, theirs = socket.socketpair()
    client = AsyncConnection(ours, Role.CLIENT)

    async def iterate() -> None:
        assert [event async for event in client] == []

    async def receive() -> None:
        with suppress(ConnectionClosing):  # one task gets the end
            assert await client.receive() == Closed(None)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(acknowledge, AsyncConnection(theirs, Role.SERVER), [])
        await established(client)
        for _ in range(2):
            tasks.start_soon(iterate)
            tasks.start_soon(receive)
        await anyio.wait_all_tasks_blocked()
        await client.close()
    await is_closing(client.step)


@pytest.mark.parametrize("receivers", [0, 2])
async def test_a_send_that_the_peer_does_not_read_waits_and_ends_when_another_task_closes(receivers: int) -> None:
    """Nobody turns in a circle meanwhile: all tasks are blocked."""
    ours, theirs = socket.socketpair()
    client = AsyncConnection(ours, Role.CLIENT, limits=Limits(close_timeout=0.05))

    async def iterate() -> None:
        with suppress(ConnectionLost):  # the peer does not close: one of the tasks is told so
            assert [event async for event in client] == []

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(established, AsyncConnection(theirs, Role.SERVER))
        await established(client)
        tasks.start_soon(is_closing, partial(client.send, Message("news", "", bytes(8_000_000), 1)))
        for _ in range(receivers):
            tasks.start_soon(iterate)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(TimeoutError):
            await client.send(Message("news", "", b"", 2), 0.01)
        await client.close()
    theirs.close()
