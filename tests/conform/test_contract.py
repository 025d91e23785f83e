"""Our peer under the contract of the conformance kit does what the contract says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tolliver._options.instance import InstanceOptions
from tolliver._options.streams import StreamsOptions

from tests.adapters.facade import Facade, Gate, deadline, until
from tests.adapters.kinds import make_world
from tests.adapters.nodes import Inbox, address, subscribed
from tests.adapters.streams import StreamsFacade
from tests.certificates import Certificates
from tolliver_proto.reactive import StreamError

from .contract import IN, OUT, contract
from .peers import peer
from .streams_contract import ADAPTERS, NUMBERS, streams_contract

BODIES = [b"one", b"fail:2:two", b"slow:0.2:three"]


@pytest.fixture
def kit(tmp_path: Path, certs: Certificates) -> Iterator[Facade]:
    deadline.restart()
    options = InstanceOptions(
        database=tmp_path / "kit.db", listen="127.0.0.1:0", tls=certs.tls("kit"), retry_interval=0.05
    )
    with closing(make_world("asyncio")) as world:
        yield Facade(world, options)


def exchange(kit: Facade) -> list[bytes]:
    subscribed(kit)
    inbox = Inbox()
    kit.subscribe(OUT, handler=inbox)
    kit.wait_acked(kit.send_many([(IN, "", body) for body in BODIES]))
    until(lambda: {*inbox.bodies} >= {*BODIES}, "all bodies")
    return sorted({*inbox.bodies})  # a slow machine lets one come again


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_each_body_that_was_handled_comes_back(adapter: str, kit: Facade, tmp_path: Path, certs: Certificates) -> None:
    options = InstanceOptions(database=tmp_path / "peer.db", listen="127.0.0.1:0", tls=certs.tls("peer"))
    with contract(adapter, options) as port, kit:
        kit.new_connection(f"127.0.0.1:{port}")
        assert exchange(kit) == sorted(BODIES)


def test_a_body_that_fails_is_handled_as_often_as_it_says(kit: Facade, tmp_path: Path, certs: Certificates) -> None:
    options = InstanceOptions(database=tmp_path / "peer.db", listen="127.0.0.1:0", tls=certs.tls("peer"))
    with contract("asyncio", options) as port, kit:
        kit.new_connection(f"127.0.0.1:{port}")
        subscribed(kit)
        kit.wait_acked(kit.send(IN, "", b"fail:2:x"))
        assert kit.stats()["resent"] == 2
        began = time.monotonic()
        kit.wait_acked(kit.send(IN, "", b"slow:0.3:x"))
        assert time.monotonic() - began >= 0.3


def test_in_a_process_of_its_own_it_dials(kit: Facade, certs: Certificates) -> None:
    certs.tls("peer")
    with kit:
        where = ("--certs", str(certs.directory), "--name", "peer")
        with peer(["threads", "dial", address(kit), *where]) as dialled:
            assert dialled == address(kit)
            assert exchange(kit) == sorted(BODIES)


@pytest.fixture
def subscriber(certs: Certificates) -> Iterator[StreamsFacade]:
    deadline.restart()
    with closing(make_world("asyncio")) as world:
        yield StreamsFacade(world, StreamsOptions(listen="127.0.0.1:0", tls=certs.tls("kit")))


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_the_streams_of_the_contract(adapter: str, subscriber: StreamsFacade, certs: Certificates) -> None:
    options = StreamsOptions(listen="127.0.0.1:0", tls=certs.tls("peer"))
    with streams_contract(adapter, options) as port, subscriber:
        peer = subscriber.connect(f"127.0.0.1:{port}")
        assert [*peer.subscribe("conform.count")] == [b"%d" % number for number in range(NUMBERS)]
        assert [int.from_bytes(one) for one in peer.subscribe("conform.sized")] == [*range(NUMBERS)]
        assert peer.subscribe("conform.endless", demand=3, prefetch=0).take(3) == [b"0", b"1", b"2"]
        for name in ("conform.fail", "conform.nothing"):
            with pytest.raises(StreamError, match="conform"):
                list(peer.subscribe(name))


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_what_it_takes_it_passes_on(adapter: str, subscriber: StreamsFacade, certs: Certificates) -> None:
    """It dials, and dials again."""
    elements = [b"%d" % number for number in range(NUMBERS)]
    with subscriber:
        begin = Gate()
        subscriber.publish("conform.in", lambda _name: subscriber.world.waiting([begin, *elements]))
        with streams_contract(adapter, StreamsOptions(tls=certs.tls("peer")), [subscriber.address]):
            until(subscriber.peers, "the peer")
            [first] = subscriber.peers()
            taken = first.subscribe("conform.out")
            first.subscribe("conform.count").take(1)  # so the one before is open there
            begin.open()
            assert taken.take(NUMBERS + 1) == [*elements, b"complete"]
            first.goodbye("again")
            until(lambda: not first.connected, "the end of the first connection")
            until(subscriber.peers, "the second connection")
