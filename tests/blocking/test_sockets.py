"""Selector thread: it waits for sockets, and for nothing else."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from tolliver._driver import socket_session
from tolliver._driver.sockets import NEXT_ADDRESS, tune
from tolliver.blocking.dialing import Dialling
from tolliver.blocking.loop import Loop

from tests.blocking.nodes import PATIENCE, Nodes, address, until
from tests.opening import no_more_threads
from tolliver_proto import Limits

NUMBERS_TAKEN = 3  # standard input, output and error: below that number none comes free
TCP = (socket.AF_INET, socket.SOCK_STREAM, 0, "")


class Running:
    """A loop on a thread of its own."""

    def __init__(self) -> None:
        self.rounds = 0
        self.loop = Loop(self._tick)
        self._thread = threading.Thread(target=self.loop.run)

    def _tick(self) -> None:
        self.rounds += 1

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.loop.stop()
        self._thread.join()
        self.loop.close()
        self.loop.close()


def test_the_system_looks_after_a_peer_that_says_nothing() -> None:
    """D-8: the protocol has no ping; seconds, but for the last one, which is in milliseconds."""
    with socket.socket(*TCP[:3]) as sock:
        tune(sock)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        limits = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 30_000}
        here = {name: value for name, value in limits.items() if hasattr(socket, name)}
        assert {name: sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in here} == here


def test_a_thousand_calls_in_one_round_wake_it_once() -> None:
    with Running() as running:
        inside, go_on, done = threading.Event(), threading.Event(), threading.Event()

        def wait() -> None:
            inside.set()
            go_on.wait(PATIENCE)

        running.loop.soon(wait)
        assert inside.wait(PATIENCE)
        before = running.rounds
        for _ in range(1000):
            running.loop.wake()
        running.loop.soon(done.set)
        go_on.set()
        assert done.wait(PATIENCE)
        assert running.rounds <= before + 2


def test_no_wake_is_lost() -> None:
    """Each call comes, however it falls between the look and the sleep."""
    with Running() as running:
        for _ in range(1000):
            done = threading.Event()
            running.loop.soon(done.set)
            assert done.wait(PATIENCE)
        done = threading.Event()
        running.loop.soon(lambda: running.loop.soon(done.set))  # just before it sleeps
        assert done.wait(PATIENCE)


def test_it_keeps_its_own_times_in_order() -> None:
    seen: list[int] = []
    with Running() as running:
        loop = running.loop
        for delay in (3, 1, 2):
            loop.soon(partial(loop.later, delay / 50, partial(seen.append, delay)))
        until(lambda: len(seen) == 3)
        assert seen == [1, 2, 3]


def dialled(addresses: list[Any]) -> tuple[socket.socket | None, OSError | None]:
    found: list[tuple[socket.socket | None, OSError | None]] = []
    with Running() as running:
        running.loop.soon(lambda: Dialling(running.loop, addresses, lambda sock, error: found.append((sock, error))))
        until(lambda: found)
    assert len(found) == 1
    return found[0]


def test_an_address_that_refuses_or_does_not_answer_is_passed_over() -> None:
    with ExitStack() as ending:
        server = ending.enter_context(socket.create_server(("127.0.0.1", 0)))
        mute = ending.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):  # its queue is full: the next one is not answered at all
            waiting = ending.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(mute.getsockname())
        refusing = (*TCP, ("127.0.0.1", 1))
        strange = (12345, *TCP[1:], ("127.0.0.1", 1))  # of a family that this machine does not have
        nowhere = (*TCP, ("255.255.255.255", 1))  # which the system refuses at once
        sock, error = dialled([strange, nowhere, refusing, (*TCP, mute.getsockname()), (*TCP, server.getsockname())])
        assert error is None
        assert sock is not None
        with sock:
            assert sock.getpeername() == server.getsockname()


def test_of_two_that_answer_in_one_round_the_first_one_is_taken() -> None:
    found: list[Any] = []
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        addresses = [(*TCP, server.getsockname()) for server in (one, other)]
        with Running() as running:
            loop = running.loop

            def begin() -> None:
                Dialling(loop, addresses, lambda sock, error: found.append((sock, error)))
                time.sleep(NEXT_ADDRESS)  # held up by anything: the other one is tried before this one is looked at

            loop.soon(begin)
            until(lambda: found)
            running.loop.soon(partial(found.append, "the end"))
            until(lambda: len(found) > 1)
        [(sock, error), last] = found
        assert (error, last) == (None, "the end")
        with sock:
            assert sock.getpeername() == one.getsockname()


def test_where_nothing_answers_the_last_error_is_told() -> None:
    sock, error = dialled([(*TCP, ("127.0.0.1", 1)), (*TCP, ("127.0.0.1", 2))])
    assert sock is None
    assert isinstance(error, OSError)
    assert dialled([])[1] is not None


def test_a_name_that_takes_long_to_look_up_holds_up_nobody(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, go_on = threading.Event(), threading.Event()
    look_up: Callable[..., Any] = socket.getaddrinfo

    def slow(host: str, *args: Any, **options: Any) -> Any:
        if host == "slow.example" and not options.get("flags"):
            asked.set()
            go_on.wait(2 * PATIENCE)
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return look_up(host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with nodes.open("right", remotes=["slow.example"]) as right, nodes.open("left") as left:
        assert asked.wait(PATIENCE)
        try:
            left.new_connection(address(right), timeout=5)
            started = time.monotonic()
            right.close()
            assert time.monotonic() - started < right._core.options.limits.close_timeout
        finally:
            go_on.set()


def test_a_name_that_is_nobodys_is_tried_again(nodes: Nodes) -> None:
    with nodes.open("left", limits=Limits(redial_first=0.01)) as left:
        with pytest.raises(TimeoutError):
            left.new_connection("nobody.invalid", timeout=0.2)
        left.remove_connection("nobody.invalid")
        until(lambda: not left.stats()["connections"])


def test_words_that_come_after_the_end_of_a_connection_change_nothing(nodes: Nodes) -> None:
    """The loop hears of all of them in one round, and the first one is the end."""
    with nodes.pair() as (left, right):
        inside, go_on = threading.Event(), threading.Event()

        def hold_up() -> None:
            inside.set()
            go_on.wait(PATIENCE)

        left._core._loop.soon(hold_up)
        assert inside.wait(PATIENCE)
        with left._core.lock:
            [wire] = left._core.wires.values()
            for word in (wire.abort, wire.abort, wire.pause, wire.resume):
                word()
        go_on.set()
        right.register_callback("news", "", lambda _message: None)
        until(lambda: wire.cid not in left._core.wires)
        left.wait_acked(left.send("news", "", b"on the next connection"), timeout=PATIENCE)


def test_a_name_that_no_thread_can_look_up_is_tried_again(nodes: Nodes) -> None:
    with nodes.open("right") as right, nodes.open("left", limits=Limits(redial_first=0.01)) as left:
        remote = f"localhost:{right.port}"
        with no_more_threads(), pytest.raises(TimeoutError):
            left.new_connection(remote, timeout=0.1)
        left.new_connection(remote, timeout=PATIENCE)


def test_one_connection_that_writes_much_gives_others_their_turn(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_session, "TURNS", 1)  # a connection that the system always takes more of
    with nodes.pair() as (left, right):
        right.register_callback("news", "", lambda _message: None)
        for _ in range(20):
            receipt = left.send_many([("news", "", bytes(10_000))] * 10)
        left.wait_acked(receipt, timeout=PATIENCE)


def test_localhost_is_found_on_whichever_address_listens(nodes: Nodes) -> None:
    with nodes.open("right") as right, nodes.open("left") as left:
        left.new_connection(f"localhost:{right.port}", timeout=PATIENCE)


def test_all_addresses_of_a_name_listen_on_one_port(nodes: Nodes) -> None:
    with nodes.open("right", listen="localhost:0") as right, nodes.open("left") as left:
        assert {port for _, port in right.addresses} == {right.port}
        left.new_connection(f"localhost:{right.port}", timeout=PATIENCE)


def test_a_shortage_of_descriptors_pauses_accepting_and_does_not_spin(
    nodes: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    resource = pytest.importorskip("resource")
    with nodes.open("right") as right, nodes.open("left") as left:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with ExitStack() as ending:
            waits = ending.enter_context(socket.socket())
            ending.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
            resource.setrlimit(resource.RLIMIT_NOFILE, (NUMBERS_TAKEN, hard))
            waits.connect(("127.0.0.1", right.port or 0))  # in the kernel, until it is accepted
            until(lambda: caplog.text.count("cannot accept") >= 2)
            time.sleep(0.3)
            assert caplog.text.count("cannot accept") < 10
        left.new_connection(address(right), timeout=PATIENCE)
