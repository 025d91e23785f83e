"""Our peer under the contract of the conformance kit does what the contract says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tolliver._options.instance import InstanceOptions

from tests.adapters.facade import Facade, deadline
from tests.adapters.kinds import make_world
from tests.adapters.nodes import Inbox, address, subscribed
from tests.certificates import Certificates

from .contract import ADAPTERS, IN, OUT, contract, options_for
from .peers import peer

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
    inbox.holds(len(BODIES))
    return sorted(inbox.bodies)


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_each_body_that_was_handled_comes_back(adapter: str, kit: Facade, tmp_path: Path, certs: Certificates) -> None:
    certs.tls("peer")
    options = options_for("listen", "127.0.0.1:0", certs.directory, "peer", tmp_path / "peer.db")
    with contract(adapter, options) as port, kit:
        kit.new_connection(f"127.0.0.1:{port}")
        assert exchange(kit) == sorted(BODIES)


def test_a_body_that_fails_is_handled_as_often_as_it_says(kit: Facade, tmp_path: Path, certs: Certificates) -> None:
    certs.tls("peer")
    options = options_for("listen", "127.0.0.1:0", certs.directory, "peer", tmp_path / "peer.db")
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
