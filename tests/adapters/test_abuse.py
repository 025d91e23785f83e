"""Attacks of members on real sockets, in both protocols.

The outcome of each stands in `abuse` and `abuse_streams`, and good peers go on;
`python -m scripts.prove.hostile bombs KIND` and `... abuse KIND` run them large (V11, D-6, D-12).
"""

from __future__ import annotations

import socket
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import thread_time
from typing import Any, cast

import pytest
from OpenSSL import SSL
from tolliver._driver.socket_session import CHUNK, IN_COMPANY, SLICE, SocketSession

from tests.certificates import Certificates
from tolliver_proto import Limits, Role

from . import abuse, abuse_streams
from .churn import left_behind
from .facade import World, until
from .kinds import ONE_KIND
from .mallory import PATIENCE
from .nodes import Nodes, address
from .victim import Of, Victim, victim_of

KIB, MIB = 2**10, 2**20
SIDES = {"messages": abuse, "streams": abuse_streams}


@pytest.fixture(params=SIDES)
def of(request: pytest.FixtureRequest) -> Of:
    return request.param  # type: ignore[no-any-return]  # as above


@pytest.fixture
def victim(of: Of, worlds: Callable[[str], World], kind: str, tmp_path: Path, certs: Certificates) -> Iterator[Victim]:
    with victim_of(of, worlds(kind), tmp_path, certs.tls("victim"), SIDES[of].LIMITS) as made:
        yield made


def strike(of: Of, certs: Certificates, victim: Victim, attack: abuse.Attack, size: int) -> str:
    connect = abuse.member if of == "messages" else abuse_streams.streamer
    with connect(certs, victim, attack) as mallory:
        return abuse.suffer(attack, mallory, victim, size)


def test_abuse_comes_to_what_it_should_and_a_good_peer_goes_on(of: Of, victim: Victim, certs: Certificates) -> None:
    with SIDES[of].Good(certs, victim) as good:
        good.round_trip()
        attacks = {name: attack for name, attack in SIDES[of].ABUSES.items() if attack.small} | SIDES[of].BOMBS
        outcomes = {}
        for name, attack in attacks.items():
            outcomes[name] = strike(of, certs, victim, attack, attack.small)
            good.round_trip()
    assert outcomes == {name: attack.outcome for name, attack in attacks.items()}


@ONE_KIND
def test_bombs_are_refused_at_their_heads(of: Of, victim: Victim, certs: Certificates) -> None:
    """V11, over every adapter in `make proof`. The counts are of both ends."""
    bombs = SIDES[of].BOMBS
    with SIDES[of].Good(certs, victim) as good:
        for name, attack in bombs.items():
            assert strike(of, certs, victim, attack, 1) == attack.outcome, name
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for name, attack in bombs.items():
                tracemalloc.reset_peak()
                assert strike(of, certs, victim, attack, 1) == attack.outcome, name
                assert tracemalloc.get_traced_memory()[1] - before < MIB, name
            assert tracemalloc.get_traced_memory()[0] - before < len(bombs) * 64 * KIB
        finally:
            tracemalloc.stop()
        good.round_trip()


def test_visits_leave_nothing_behind(of: Of, victim: Victim, certs: Certificates) -> None:
    with SIDES[of].Good(certs, victim) as good:
        more = left_behind(of, certs, victim, 16)
        assert more.descriptors <= 0
        assert more.threads <= 0
        good.round_trip()


class _Slow(SocketSession):
    """A session whose input takes its time."""

    def __init__(self, takes: float, has_company: bool = False) -> None:
        nobody: Any = None
        self.has_company = has_company
        super().__init__(cast(Any, self), 1, Role.SERVER, nobody)
        self.chunks: list[int] = []
        self.takes = takes

    def receive(self, ciphertext: bytes) -> None:
        self.chunks.append(len(ciphertext))
        end = thread_time() + self.takes
        while thread_time() < end:
            pass

    def write_soon(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def abort(self) -> None: ...


def test_who_sends_what_takes_long_has_short_turns() -> None:
    """A MiB of acks is half a second's work, in which nobody else would be served."""
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        far.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                far.send(bytes(4096))
        slow = _Slow(SLICE)
        for turn in range(1, 4):
            slow.read(near)
            assert slow.chunks == [CHUNK, CHUNK // 2, CHUNK // 4][:turn]
        slow.takes = 0.0
        slow.read(near)
        assert slow.chunks[3:5] == [CHUNK // 8, CHUNK // 4]


def test_who_has_company_is_read_a_piece_at_a_time() -> None:
    """Its piece is smaller where the last one took long."""
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        far.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                far.send(bytes(4096))
        alone, in_company = _Slow(IN_COMPANY), _Slow(IN_COMPANY, has_company=True)
        assert in_company.read(near)
        assert in_company.chunks == [CHUNK]
        assert in_company.read(near)
        assert in_company.chunks == [CHUNK, CHUNK // 2]
        alone.read(near)
        assert len(alone.chunks) > 1


def test_nothing_is_negotiated_twice(nodes: Nodes) -> None:
    """D-1: TLS 1.2 could, and each time would cost us more than them. 1.3 cannot."""
    tls, limits = nodes.certs.tls("mallory"), Limits(handshake_timeout=0.5)
    with nodes.open("right", tls=nodes.certs.tls("right", tls12=True), limits=limits) as right:
        context = SSL.Context(SSL.TLSv1_2_METHOD)
        context.use_certificate_chain_file(str(tls.cert))
        context.use_privatekey_file(str(tls.key))
        with socket.create_connection(("127.0.0.1", right.port or 0), timeout=PATIENCE) as stream:
            stream.settimeout(None)  # OpenSSL is to wait, and the kernel has the limit
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", int(PATIENCE), 0))
            line = SSL.Connection(context, stream)
            line.set_connect_state()
            line.do_handshake()
            line.renegotiate()
            with pytest.raises(SSL.Error):
                line.do_handshake()
        until(lambda: not right.stats()["connections"])
        with nodes.open("left") as left:
            left.new_connection(address(right))
