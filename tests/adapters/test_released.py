"""Release of connections at their end, without a garbage collection (D-12).

A collection counts objects. The memory that OpenSSL holds for a connection and what the peer sent of a frame are
megabytes behind a few of them. So nothing of ours may be in a circle of references when a connection ends.
"""

from __future__ import annotations

import gc
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from tolliver._driver.session import Session
from tolliver._tls.policy import client_context
from tolliver._tls.pump import Pump

from tests.certificates import Certificates
from tests.ports import free_port
from tests.raw import RawListener
from tolliver_proto import Decoder, Limits
from tolliver_proto import reactive as rs

from . import abuse, abuse_streams
from .churn import churn
from .facade import World, until
from .mallory import PATIENCE
from .nodes import Nodes
from .victim import AnyLimits, Of, Victim, victim_of

PARTS = (Session, Pump, Decoder, rs.Decoder)
LIMITS: dict[Of, AnyLimits] = {"messages": abuse.LIMITS, "streams": abuse_streams.LIMITS}
ONCE = Limits(redial_first=1000.0, redial_max=1000.0)  # seconds, at most: who was dialled is hardly dialled again


def alive() -> Counter[str]:
    """Of both ends. By type: to ask each object of the process whether it is one would wake lazy ones."""
    return Counter(type(one).__name__ for one in gc.get_objects() if issubclass(type(one), PARTS))


@contextmanager
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def refused(certs: Certificates, victim: Victim) -> None:
    """A visit by somebody whose certificate is of another CA."""
    context = client_context(certs.tls("intruder"))
    stream = socket.create_connection(("127.0.0.1", victim.port()), timeout=PATIENCE)
    with stream, suppress(OSError), context.wrap_socket(stream, server_hostname="127.0.0.1") as wrapped:
        wrapped.recv(1)


@pytest.mark.parametrize("kind", ["asyncio", "trio", "twisted", "twisted-asyncio", "blocking"])
@pytest.mark.parametrize("of", LIMITS)
def test_a_connection_is_freed_when_it_ends(
    of: Of, kind: str, worlds: Callable[[str], World], tmp_path: Path, certs: Certificates
) -> None:
    """Each way is gone twice, as a loop may hold the connection that it served last."""
    with victim_of(of, worlds(kind), tmp_path, certs.tls("victim"), LIMITS[of]) as victim, no_collector():
        before = alive()
        churn(of, certs, victim, 16)
        for _ in range(2):
            refused(certs, victim)
        until(lambda: max((alive() - before).values(), default=0) <= 1, "the end of all that visits left")


@pytest.mark.parametrize("kind", ["asyncio", "trio", "twisted", "twisted-asyncio", "blocking"])
def test_a_dial_that_fails_is_freed(nodes: Nodes) -> None:
    """Three remotes where nobody listens, and three that hang up on the first word."""
    with ExitStack() as stack:
        rude = [stack.enter_context(RawListener(None, _read_once)) for _ in range(3)]
        remotes = [f"127.0.0.1:{free_port()}" for _ in range(3)] + [one.address for one in rude]
        nodes.certs.tls("node")
        stack.enter_context(no_collector())
        before = alive()
        node = stack.enter_context(nodes.open("node", remotes=remotes, limits=ONCE))
        until(
            lambda: sum(one.accepted for one in rude) == 3 and node.stats()["connections"] == 0, "the end of all dials"
        )
        until(lambda: max((alive() - before).values(), default=0) <= 1, "the end of all that dials left")


def _read_once(stream: socket.socket) -> None:
    stream.recv(1)
