"""What an operator meets: messages that always fail, copies, peers that do not come back, other keys, and what is done
about each. Over real sockets, real TLS and a real database."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from uuid import UUID

import anyio
import anyio.lowlevel
import pytest
from anyio.to_thread import run_sync
from tolliver_transports.anyio import TLS, Instance

from tests.anyio.nodes import Inbox, Nodes, address, connected, error_of, noticed, silent_port, until
from tests.anyio.raw import RawPeer
from tests.certificates import Certificates
from tolliver_proto import (
    Ack,
    ConnectionClosing,
    DeadLetter,
    Delivery,
    Limits,
    Message,
    NoticeKind,
    OutboxFull,
    Subscribe,
)

SOMEBODY = UUID("01890000-0000-7000-8000-00000000aaaa")
AGAIN = {"retry_interval": 0.05}
QUICK = Limits(redial_first=0.001, redial_max=0.02)


def rows(nodes: Nodes, name: str, table: str) -> int:
    """How many rows of a table are in a database that nobody has open."""
    with closing(sqlite3.connect(nodes.directory / f"{name}.db")) as database:
        [(count,)] = database.execute(f"SELECT COUNT(*) FROM {table}").fetchall()
    return int(count)


async def letters(instance: Instance, count: int) -> list[DeadLetter]:
    """Its dead letters, once there are so many."""
    while len(found := await instance.dead_letters()) != count:  # noqa: ASYNC110  # the store has no event
        await anyio.sleep(0.005)
    return found


async def subscribed(instance: Instance, peer: UUID, count: int = 1) -> None:
    """When the instance knows that the peer wants something."""
    await until(lambda: any(one.uuid == peer and len(one.subscriptions) == count for one in instance.peers()))


# Messages that always fail (T-47).


@pytest.mark.anyio
async def test_what_always_fails_becomes_a_dead_letter_until_somebody_handles_it(nodes: Nodes) -> None:
    attempts: list[int] = []

    def fails(delivery: Delivery) -> None:
        attempts.append(delivery.attempt)
        raise RuntimeError("never")

    async with nodes.pair(channels=(), left=AGAIN, right={"limits": Limits(max_attempts=3)}) as (left, right, _):
        await right.subscribe("news", handler=fails)
        await subscribed(left, right.instance_id)
        await left.wait_acked(await left.send("news", "k", b"poison"))
        assert attempts == [1, 2, 3]
        [letter] = await right.dead_letters()
        assert (letter.peer, letter.channel, letter.key, letter.body) == (left.instance_id, "news", "k", b"poison")
        assert letter.attempts == 3
        assert "'news' 'k' failed 3 times" in noticed(right, NoticeKind.DEAD_LETTER)[0]
    assert rows(nodes, "left", "message") == 0
    async with nodes.open("right") as right:
        assert await right.dead_letters() == [letter]
        assert await right.dead_letters(after=letter.number) == []
        assert right.replay([letter]) == 0  # nobody is there to handle it
        registration = right.register_callback("news", "", fails)
        assert await right.replay([letter]) == 1
        await until(lambda: attempts == [1, 2, 3, 4])
        registration.close()
        assert await right.dead_letters() == [letter]
        inbox = Inbox()
        right.register_callback("news", "k", inbox)
        assert right.replay([letter]) == 1
        assert right.replay([letter]) == 0  # it is under way
        await inbox.holds(1)
        await letters(right, 0)
        assert inbox.bodies == [b"poison"]
    async with nodes.open("right") as right:
        assert await right.dead_letters() == []


@pytest.mark.anyio
async def test_who_reads_dead_letters_while_it_closes_is_told(nodes: Nodes) -> None:
    seen: list[object] = []
    async with anyio.create_task_group() as tasks, nodes.open("left") as left:

        async def read() -> None:
            try:
                seen.append(await left.dead_letters())
            except ConnectionClosing as error:
                seen.append(error)

        for _ in range(5):  # the store answers one after the other
            tasks.start_soon(read)
        await anyio.lowlevel.checkpoint()
    assert len(seen) == 5
    assert isinstance(seen[-1], ConnectionClosing)


# Copies (T-48).


@pytest.mark.anyio
@pytest.mark.parametrize("durable", [False, True])
async def test_a_message_whose_ack_was_lost_is_handled_once(nodes: Nodes, durable: bool) -> None:
    handled: list[int | None] = []

    async with nodes.pair(channels=(), right={"dedupe": 100, "dedupe_durable": durable}) as (left, right, _):

        async def cut_off(delivery: Delivery) -> None:
            handled.append(delivery.message_id)
            if len(handled) == 1:
                right.wires[delivery.cid].abort()
                await until(lambda: delivery.cid not in right.wires)

        await right.subscribe("news", handler=cut_off)
        await subscribed(left, right.instance_id)
        await left.wait_acked(await left.send("news", "", b"once"))
        await left.wait_acked(await left.send("news", "", b"another"))
        assert len(handled) == len(set(handled)) == 2
        assert right.stats()["duplicates"] == 1


def _send(port: int | None, tls: TLS, uuid: UUID, copies: int) -> list[int]:
    """As a peer that sends one message again and again, each time after the ack. Returns the acks."""
    with RawPeer(port or 0, tls, uuid) as raw:
        raw.establish()
        for number in range(1, copies + 1):
            raw.connection.send(Message("news", "k", b"x", 7))
            raw.flush()
            while sum(isinstance(event, Ack) for event in raw.events) < number:
                assert raw.receive(), "the connection ended"
        return [event.message_id for event in raw.events if isinstance(event, Ack)]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("options", "handled", "after_a_restart"),
    [({}, 2, 3), ({"dedupe": 9}, 1, 2), ({"dedupe": 9, "dedupe_durable": True}, 1, 1)],
    ids=["every copy", "dedupe", "durable dedupe"],
)
async def test_every_copy_is_acknowledged(
    nodes: Nodes, options: dict[str, int], handled: int, after_a_restart: int
) -> None:
    inbox = Inbox()
    send = partial(_send, tls=nodes.certs.tls("mallory"), uuid=nodes.certs.uuid("mallory"))
    async with nodes.open("right", **options) as right:
        await right.subscribe("news", handler=inbox)
        assert await run_sync(partial(send, right.port, copies=2)) == [7, 7]
        assert len(inbox.deliveries) == handled
    async with nodes.open("right", **options) as right:
        right.register_callback("news", "", inbox)
        assert await run_sync(partial(send, right.port, copies=1)) == [7]
        assert len(inbox.deliveries) == after_a_restart


# Peers that do not come back (T-77, D-10).


@pytest.mark.anyio
async def test_a_peer_is_forgotten_with_all_that_waits_for_it(nodes: Nodes) -> None:
    async with nodes.open("left") as left:
        async with nodes.open("right") as right:
            gone = right.instance_id
            await right.subscribe("news")
            await right.new_connection(address(left))
            await subscribed(left, gone)
        await until(lambda: not connected(left))
        receipt = await left.send_many([("news", "", b"x")] * 2500)
        assert left.stats()["pending"] == 2500
        await left.forget_peer(gone)
        assert left.peers() == []
        assert left.stats()["pending"] == 0
        await left.wait_acked(receipt)  # nobody is owed any of it
        assert (await left.send("news", "", b"x")).recipients == 0
        await left.forget_peer(gone)
    assert {table: rows(nodes, "left", table) for table in ("message", "delivery", "peer", "peer_subscription")} == {
        "message": 0,
        "delivery": 0,
        "peer": 0,
        "peer_subscription": 0,
    }


@pytest.mark.anyio
async def test_a_peer_that_is_forgotten_while_connected_may_come_back(nodes: Nodes) -> None:
    quick = {"limits": QUICK}
    async with nodes.pair(left=quick) as (left, right, inbox):
        [known] = left.peers()
        await left.forget_peer(known.uuid)
        await subscribed(left, right.instance_id)
        await left.wait_acked(await left.send("news", "", b"again"))
        assert inbox.bodies == [b"again"]


@pytest.mark.anyio
async def test_a_full_outbox_is_refused_until_it_is_forgotten(nodes: Nodes) -> None:
    async with nodes.open("left", limits=Limits(outbox_messages=2)) as left:
        async with nodes.open("right") as right:
            gone = right.instance_id
            await right.subscribe("news")
            await right.new_connection(address(left))
            await subscribed(left, gone)
        await until(lambda: not connected(left))
        await left.send_many([("news", "", b"1"), ("news", "", b"2")])
        with pytest.raises(OutboxFull, match=f"peer {gone} has 2 messages.*forget the peer"):
            await left.send("news", "", b"3")
        with pytest.raises(OutboxFull):
            await left.send_many([("news", "", b"3"), ("nobody", "", b"4")])
        assert left.stats()["pending"] == 2
        await left.forget_peer(gone)
        assert (await left.send("news", "", b"3")).recipients == 0
    assert rows(nodes, "left", "message") == 0


@pytest.mark.anyio
async def test_what_is_too_old_is_given_up(nodes: Nodes) -> None:
    async with nodes.open("left", expire_after=0.1) as left:
        async with nodes.open("right") as right:
            gone = right.instance_id
            await right.subscribe("news")
            await right.new_connection(address(left))
            await subscribed(left, gone)
        await until(lambda: not connected(left))
        await left.send_many([("news", "", b"1"), ("news", "", b"2")])
        await until(lambda: not left.stats()["pending"])
        assert left.stats()["expired_messages"] == 2
        assert sum(int(text.split()[0]) for text in noticed(left, NoticeKind.EXPIRED)) == 2
        [peer] = left.peers()  # it stays known
        assert peer.uuid == gone
    assert rows(nodes, "left", "message") == 0
    assert rows(nodes, "left", "delivery") == 0


# A message that the peer cannot take (T-09).


@pytest.mark.anyio
async def test_a_message_over_the_peers_limit_is_set_aside_and_the_next_one_goes(nodes: Nodes) -> None:
    inbox = Inbox()
    async with nodes.open("left", limits=QUICK) as left:
        async with nodes.open("right", limits=Limits(max_body=100)) as right:
            await right.subscribe("news", handler=inbox)
            await left.new_connection(address(right))
            where, peer = address(right), right.instance_id
            await left.send_many([("news", "", bytes(1000)), ("news", "", b"small")])
            await inbox.holds(1)
            await until(lambda: not left.stats()["pending"])
            assert inbox.bodies == [b"small"]
            assert left.stats()["parked"] == 1
            assert "set aside" in noticed(left, NoticeKind.PARKED)[0]
            assert 5 <= len(noticed(right, NoticeKind.PROTOCOL_ERROR)) <= 7  # two more until it went alone
        async with nodes.open("right", listen=where) as right:
            right.register_callback("news", "", inbox)
            await until(lambda: connected(left))
            assert await left.retry(peer) == 1
            assert await left.retry(peer) == 0
            await inbox.holds(2)
            assert inbox.bodies[1:] == [bytes(1000)]
            await until(lambda: not left.stats()["pending"] + left.stats()["parked"])
    assert rows(nodes, "left", "message") == 0


@pytest.mark.anyio
async def test_what_was_set_aside_stays_so_until_it_is_dropped(nodes: Nodes) -> None:
    async with nodes.open("right", limits=Limits(max_body=100)) as right:
        async with nodes.open("left", limits=QUICK) as left:
            await right.subscribe("news")
            await left.new_connection(address(right))
            await subscribed(left, right.instance_id)
            await left.send("news", "", bytes(1000))
            await until(lambda: left.stats()["parked"])
        async with nodes.open("left") as left:
            assert left.stats()["parked"] == 1
            assert await left.drop_parked(right.instance_id) == 1
            assert await left.drop_parked(right.instance_id) == 0
            assert await left.drop_parked(SOMEBODY) == await left.retry(SOMEBODY) == 0
            assert left.stats()["parked"] == 0
    assert rows(nodes, "left", "message") == 0


# Keys in place of UUIDs in certificates (D-3).


@pytest.mark.anyio
async def test_a_second_key_for_a_uuid_is_refused_until_it_is_pinned(nodes: Nodes, certs: Certificates) -> None:
    first, second = (
        {"tls": certs.special(name, ()), "identity": SOMEBODY, "limits": QUICK} for name in ("first", "second")
    )
    async with nodes.open("right") as right:
        remote = address(right)
        async with nodes.open("one", **first) as one:
            await one.subscribe("news")
            assert await one.new_connection(remote) == right.instance_id
            await subscribed(right, SOMEBODY)
        await until(lambda: not connected(right))
        await right.send("news", "", b"for the first alone")
        async with nodes.open("two", remotes=[remote], **second) as two:
            await until(lambda: noticed(right, NoticeKind.IDENTITY_MISMATCH))
            assert "repin" in noticed(right, NoticeKind.IDENTITY_MISMATCH)[0]
            assert connected(right) == connected(two) == 0
            assert two.peers() == []  # it was closed out before it had learnt anything (T-72)
            assert right.stats()["pending"] == 1
            await right.repin(SOMEBODY)
            await until(lambda: connected(right) and connected(two))
        async with nodes.open("one", remotes=[remote], **first):
            refused = len(noticed(right, NoticeKind.IDENTITY_MISMATCH))
            await until(lambda: len(noticed(right, NoticeKind.IDENTITY_MISMATCH)) > refused)
    async with nodes.open("right", listen=remote) as right:  # the pin outlives the process
        async with nodes.open("one", remotes=[remote], **first):
            await until(lambda: noticed(right, NoticeKind.IDENTITY_MISMATCH))
        async with nodes.open("two", remotes=[remote], **second) as two:
            await until(lambda: connected(right))
            await right.repin(SOMEBODY, bytes(32))
            await until(lambda: not connected(right))  # it stands on another key


# Other choices of the policy.


@pytest.mark.anyio
@pytest.mark.parametrize("strict", [False, True])
async def test_sends_wait_for_a_connection_in_the_making_where_that_is_asked_for(nodes: Nodes, strict: bool) -> None:
    """T-62."""
    patient = Limits(handshake_timeout=60.0, close_timeout=0.1)
    with silent_port() as remote:
        async with (
            nodes.open("left", plaintext=True, strict_block=strict, limits=patient) as left,
            anyio.create_task_group() as tasks,
        ):
            done: list[int] = []

            async def send() -> None:
                done.append((await left.send("news", "", b"x")).recipients)

            tasks.start_soon(error_of, left, remote)
            await until(lambda: left.stats().get("bytes_sent"))  # the handshake's request
            if not strict:
                await send()
                tasks.cancel_scope.cancel()
                return
            tasks.start_soon(send)
            await anyio.sleep(0.05)
            assert done == []
            await left.remove_connection(remote)
            await until(lambda: done == [0])


@pytest.mark.anyio
@pytest.mark.parametrize("announces", [False, True])
async def test_subscriptions_are_announced_once_more_where_that_is_asked_for(nodes: Nodes, announces: bool) -> None:
    """T-33: for peers that throw a handshake's list away."""

    def listen(port: int | None) -> list[str]:
        with RawPeer(port or 0, nodes.certs.tls("mallory"), nodes.certs.uuid("mallory"), ["hello"]) as raw:
            raw.establish()
            raw.receive_messages(1)
            return [event.channel for event in raw.events if isinstance(event, Subscribe)]

    async with nodes.open("right", announce_after_handshake=announces) as right:
        await right.subscribe("news")
        await right.subscribe("sport")
        heard: list[list[str]] = []

        async def run() -> None:
            heard.append(await run_sync(listen, right.port))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await subscribed(right, nodes.certs.uuid("mallory"))
            await right.send("hello", "", b"after all announcements")
        assert heard == [["news", "sport"] if announces else []]


# Forks (T-79).

FORK = """
import os, sys, anyio
from tolliver_transports.anyio import InstanceOptions, create_instance
from tolliver_proto import TolliverError

def in_the_child(instance):
    for call in (
        lambda: instance.send("news", "", b"x").send(None),
        lambda: instance.subscribe("news").send(None),
        lambda: instance.unreliable_send("news", "", b"x"),
        lambda: instance.forget_peer(instance.instance_id).send(None),
        lambda: instance._store.load(),
    ):
        try:
            call()
        except TolliverError as error:
            print(error, flush=True)

async def main():
    async with create_instance(InstanceOptions(database="fork.db", plaintext=True)) as instance:
        await instance.subscribe("news")
        child = os.fork()
        if not child:
            in_the_child(instance)
            os._exit(0)
        await anyio.to_thread.run_sync(os.waitpid, child, 0)
        await instance.send("news", "", b"x")
        print("the parent goes on")

anyio.run(main, backend=sys.argv[1])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_forked_child_is_told_to_open_its_own(backend: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORK, backend]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0, done.stderr
    *said, last = done.stdout.splitlines()
    assert last == "the parent goes on"
    assert len(said) == 5
    assert all("open another one" in line and "(T-79)" in line for line in said)
