"""Outboxes of local programs: rows that are committed are handed over to the instance, each once."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import anyio
import pytest
from tolliver import local
from tolliver.outbox import Outbox

from tolliver_proto import Policy

from .facade import Facade, until
from .kinds import EACH_ADAPTER, ONE_KIND
from .nodes import Inbox, Nodes, address
from .test_local import at, lossy

ROWS = 30


class Shop:
    """A program's database with an outbox."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "shop.sqlite"
        self.outbox = Outbox(self.connect)
        self.outbox.create()

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.file, timeout=30)

    def put(self, channel: str, *bodies: bytes, commits: bool = True) -> None:
        with closing(self.connect()) as connection:
            for body in bodies:
                self.outbox.put(connection, channel, "", body)
            if commits:
                connection.commit()

    def is_empty(self) -> bool:
        with closing(self.connect()) as connection:
            [(count,)] = connection.execute("SELECT COUNT(*) FROM tolliver_outbox").fetchall()
        return bool(count == 0)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@contextmanager
def accepting(nodes: Nodes, path: Path) -> Iterator[tuple[Facade, Inbox]]:
    with nodes.pair(left=at(path), right={"policy": Policy(dedupe=1000)}) as (left, _, inbox):
        left.wait_subscribed("news", "")
        yield left, inbox


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@EACH_ADAPTER
def test_committed_rows_are_sent_in_order_and_no_others(nodes: Nodes, shop: Shop, tmp_path: Path) -> None:
    with accepting(nodes, tmp_path / "s") as (left, inbox), local.connect(tmp_path / "s", timeout=20) as me:
        shop.put("news", *numbers(ROWS))
        shop.put("news", b"rolled back", commits=False)
        with me.relay(shop.outbox) as relay:
            until(shop.is_empty)
            me.put("jobs", "", b"the first one")  # declares the queue
            shop.put("jobs", b"job")
            until(shop.is_empty)
            until(lambda: relay.status.moved == ROWS + 1)
            assert (relay.status.held, relay.status.doubtful, relay.status.error) == ({}, {}, None)
        inbox.holds(ROWS)
        assert inbox.bodies == numbers(ROWS)
        assert left.stats()["pending"] == 2


@ONE_KIND
def test_a_row_that_nobody_gets_holds_its_channel_back(nodes: Nodes, shop: Shop, tmp_path: Path) -> None:
    with accepting(nodes, tmp_path / "s") as (_, inbox), local.connect(tmp_path / "s", timeout=20) as me:
        shop.put("nobody", b"1", b"2")
        shop.put("tolliver.own", b"refused")
        shop.put("news", b"3")
        relay = me.relay(shop.outbox)
        inbox.holds(1)
        until(lambda: relay.status.held.get("nobody") == "nobody subscribes")
        until(lambda: "protocol's own" in relay.status.held.get("tolliver.own", ""))
        assert shop.outbox.waiting() == {"nobody": 2, "tolliver.own": 1}


@ONE_KIND
def test_rows_whose_answers_are_lost_are_sent_once_by_several_relays(nodes: Nodes, shop: Shop, tmp_path: Path) -> None:
    """Connections end behind every other answer, and a second program relays the same outbox."""
    between = tmp_path / "b"
    with accepting(nodes, tmp_path / "s") as (_, inbox), lossy(between, tmp_path / "s", b'"rows"') as (cut, _):
        with local.connect(between, timeout=20) as one, local.connect(tmp_path / "s", timeout=20) as two:
            shop.put("news", *numbers(ROWS))
            cut.append(3)
            with one.relay(shop.outbox), two.relay(shop.outbox):
                for number in range(ROWS):
                    shop.put("news", b"later %d" % number)
                    time.sleep(0.01)
                until(shop.is_empty)
        inbox.holds(2 * ROWS)
        assert sorted(inbox.bodies) == sorted([*numbers(ROWS), *(b"later %d" % one for one in range(ROWS))])


@EACH_ADAPTER
def test_a_relay_goes_on_with_the_instance_that_is_started_again(nodes: Nodes, shop: Shop, tmp_path: Path) -> None:
    path, inbox = tmp_path / "s", Inbox()
    with nodes.open("right", policy=Policy(dedupe=1000)) as right:
        right.subscribe("news", handler=inbox)

        with nodes.open("left", **at(path)) as left:
            left.new_connection(address(right))
            left.wait_subscribed("news", "")
            me = local.connect(path, timeout=20).__enter__()
            relay = me.relay(shop.outbox)
            shop.put("news", b"before")
            until(shop.is_empty)
        shop.put("news", *numbers(ROWS))
        until(lambda: relay.status.error is not None)
        with nodes.open("left", **at(path)) as left, closing(me):
            left.new_connection(address(right))
            until(shop.is_empty)
            inbox.holds(ROWS + 1)
        assert inbox.bodies == [b"before", *numbers(ROWS)]


@ONE_KIND
def test_tasks_have_relays_too(nodes: Nodes, shop: Shop, tmp_path: Path) -> None:
    async def relaying() -> None:
        async with local.connect(tmp_path / "s", timeout=20) as me:
            with pytest.raises(TypeError, match="an Outbox"):
                me.relay("shop")  # type: ignore[arg-type]
            me.relay(shop.outbox)
            await anyio.to_thread.run_sync(until, shop.is_empty)

    with accepting(nodes, tmp_path / "s") as (_, inbox):
        shop.put("news", *numbers(ROWS))
        anyio.run(relaying)
        inbox.holds(ROWS)
