"""The endpoint among strangers: slow, endless, many and malformed requests, and a loop that does not answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

import pytest
from tolliver._status.server import CONNECTIONS, HEAD, StatusServer
from tolliver.status import InstanceStatus

from tolliver_proto.errors import CannotListen

from .samples import hostile, snapshot

Ask = Callable[[Callable[[InstanceStatus], None]], None]
LONG = 30.0  # seconds for what must come
GET = b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def at_once(answered: Callable[[InstanceStatus], None]) -> None:
    answered(snapshot())


@contextmanager
def serving(ask: Ask = at_once, **options: Any) -> Iterator[StatusServer]:
    with closing(StatusServer("127.0.0.1", 0, ask, **options)) as server:
        server.start()
        yield server


def connect(server: StatusServer) -> socket.socket:
    return socket.create_connection(server.address, timeout=LONG)


def rest(sock: socket.socket) -> bytes:
    """All that comes until the other side ends it."""
    parts = []
    while data := sock.recv(65536):
        parts.append(data)
    return b"".join(parts)


def asked(server: StatusServer, request: bytes = GET % b"/healthz") -> tuple[int, str, bytes]:
    """Status code, head and body."""
    with connect(server) as sock:
        sock.sendall(request)
        head, _, body = rest(sock).partition(b"\r\n\r\n")
        return int(head.split()[1]), head.decode(), body


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (GET % b"/healthz", 200),
        (GET % b"/readyz?verbose", 200),
        (GET % b"/metrics", 200),
        (GET % b"/status.json", 200),
        (GET % b"/", 200),
        (GET % b"/../etc/passwd", 404),
        (GET % b"http://elsewhere/", 404),
        (b"GET /healthz HTTP/1.0\r\n\r\n", 200),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost:9464\r\n\r\n", 200),
        (b"GET /healthz HTTP/1.1\r\nhost: [::1]:9464\r\n\r\n", 200),
        (b"GET /healthz HTTP/1.1\r\nHost: attacker.example\r\n\r\n", 403),
        (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: attacker.example\r\n\r\n", 403),
        (b"POST /healthz HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody", 405),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
        (b"GET /healthz\r\n\r\n", 400),
        (b"GET /healthz HTTP/2\r\n\r\n", 400),
        (b"GET /" + b"x" * HEAD, 431),
    ],
)
def test_a_request_has_its_answer(request_: bytes, code: int) -> None:
    with serving() as server:
        found, head, body = asked(server, request_)
        assert found == code
        assert f"Content-Length: {len(body)}" in head
        assert "Content-Security-Policy: default-src 'none'" in head
        assert "X-Content-Type-Options: nosniff" in head


def test_a_head_request_gets_the_head_alone() -> None:
    with serving() as server:
        code, head, body = asked(server, b"HEAD /status.json HTTP/1.1\r\n\r\n")
        assert (code, body) == (200, b"")
        assert "Content-Length: 0" not in head


def test_names_are_for_those_who_say_so() -> None:
    with serving(anywhere=True) as server:
        assert asked(server, b"GET /healthz HTTP/1.1\r\nHost: status.example\r\n\r\n")[0] == 200


def test_one_that_is_not_ready_says_why() -> None:
    with serving(lambda answered: answered(hostile())) as server:
        code, head, body = asked(server, GET % b"/readyz")
        assert code == 503
        assert "text/plain" in head
        assert body.decode().startswith("not ready\n")
        assert asked(server, GET % b"/healthz")[0] == 200
        assert b"<script>alert(1)" in asked(server, GET % b"/status.json")[2]
        assert b"alert(1)" not in asked(server, GET % b"/")[2]


def test_the_slow_hold_up_nobody_and_are_ended() -> None:
    """Each sends a part of its request, and no more."""
    with serving(patience=0.3) as server, ExitStack() as stack:
        slow = [stack.enter_context(connect(server)) for _ in range(8)]
        for one in slow:
            one.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
        assert asked(server)[0] == 200
        assert [rest(one) for one in slow] == [b""] * len(slow)


def test_an_endless_body_ends_the_connection() -> None:
    with serving() as server, connect(server) as sock:
        sock.sendall(GET % b"/healthz")
        with pytest.raises(OSError, match=r"."):  # a pipe that is broken, or reset
            sock.sendall(bytes(64 * 2**20))
        assert asked(server)[0] == 200


def test_a_thousand_connections_leave_it_at_work() -> None:
    with serving() as server, ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(connect(server))
        assert len(server._clients) <= CONNECTIONS
        assert asked(server)[0] == 200


def test_who_has_its_answer_and_stays_makes_room() -> None:
    with serving() as server, ExitStack() as stack:
        for _ in range(CONNECTIONS):
            one = stack.enter_context(connect(server))
            one.sendall(GET % b"/healthz")
            assert b"200 OK" in rest(one)
        assert asked(server)[0] == 200


def test_who_does_not_read_is_ended() -> None:
    large = snapshot(database="x" * 20_000_000)
    with serving(lambda answered: answered(large), patience=0.3) as server, connect(server) as sock:
        sock.sendall(GET % b"/status.json")
        for _ in range(2000):
            if not server._clients and server._made:
                break
            threading.Event().wait(0.005)
        with suppress(ConnectionError):
            assert len(rest(sock)) < 20_000_000


def test_one_that_ends_its_half_gets_its_answer() -> None:
    with serving() as server, connect(server) as sock:
        sock.sendall(GET % b"/metrics")
        sock.shutdown(socket.SHUT_WR)
        assert rest(sock).endswith(b"\n")


def test_half_an_end_before_the_answer_costs_no_time() -> None:
    asking: list[Callable[[InstanceStatus], None]] = []
    with serving(asking.append, answer=LONG) as server, connect(server) as sock:
        sock.sendall(GET % b"/healthz")
        sock.shutdown(socket.SHUT_WR)
        for _ in range(2000):
            if asking and not any(one.events for one in server._clients.values()):
                break
            threading.Event().wait(0.005)
        assert not any(one.events for one in server._clients.values()), "nothing is waited for that is true already"
        asking[0](snapshot())
        assert b"200 OK" in rest(sock)


# The loop.


def test_a_loop_that_does_not_answer_is_told_and_comes_back() -> None:
    asking: list[Callable[[InstanceStatus], None]] = []
    with serving(asking.append, answer=0.05) as server:
        for path in (b"/healthz", b"/readyz", b"/metrics", b"/status.json"):
            code, _, body = asked(server, GET % path)
            assert code == 503
            assert b"has not answered for" in body
        assert asked(server, GET % b"/")[0] == 200
        assert len(asking) == 1
        asking[0](snapshot())
        assert asked(server)[0] == 200


def test_many_who_ask_get_one_snapshot() -> None:
    asking: list[Callable[[InstanceStatus], None]] = []
    with serving(asking.append, answer=LONG) as server, ExitStack() as stack:
        many = [stack.enter_context(connect(server)) for _ in range(20)]
        for one in many:
            one.sendall(GET % b"/metrics")
        for _ in range(2000):
            if len(server._waiting) == len(many):
                break
            threading.Event().wait(0.005)
        asking[0](snapshot())
        assert len({rest(one) for one in many}) == 1
        assert len(asking) == 1


def test_an_answer_that_cannot_be_made_is_an_error_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    broken = snapshot(gauges={"ready": float("nan")})
    with serving(lambda answered: answered(broken)) as server:
        assert asked(server, GET % b"/status.json")[0] == 500
        assert asked(server, GET % b"/healthz")[0] == 200
    assert "the status endpoint has no answer for /status.json" in caplog.text


# Its end.


def test_it_ends_with_connections_open() -> None:
    with serving() as server, connect(server) as idle, connect(server) as waiting:
        waiting.sendall(b"GET ")
        assert asked(server)[0] == 200  # it came later, so both others have been taken: else their end is a reset
        server.close()
        assert rest(idle) == b""
        server.close()
    with pytest.raises(ConnectionRefusedError):
        connect(server)


def test_one_that_never_started_closes_too() -> None:
    server = StatusServer("127.0.0.1", 0, at_once)
    with pytest.raises(CannotListen):
        StatusServer("127.0.0.1", server.address[1], at_once)
    server.close()
    with closing(StatusServer("127.0.0.1", server.address[1], at_once)):
        pass


def test_a_thread_that_fails_leaves_a_line(caplog: pytest.LogCaptureFixture) -> None:
    def ask(_answered: object) -> None:
        raise ValueError("no loop")

    with serving(ask) as server, connect(server) as sock:
        sock.sendall(GET % b"/healthz")
        thread = server._thread
        assert thread is not None
        thread.join(LONG)
    assert "the status endpoint has failed" in caplog.text
