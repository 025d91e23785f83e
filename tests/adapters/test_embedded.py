"""Instances within an application: its threads are busy, its resolver hangs, it forks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio.to_thread
import pytest

from .facade import until
from .kinds import EVERY_LOOP
from .nodes import Nodes, address

pytestmark = EVERY_LOOP


def run(scene: str, nodes: Nodes, kind: str) -> list[str]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.adapters.embedded", scene, kind, str(nodes.directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


# Threads.


@contextmanager
def busy_threads(world: Any) -> Iterator[None]:
    """All threads that the application's loop has for what blocks are at work."""
    free, begun = threading.Event(), threading.Semaphore(0)

    def work() -> None:
        begun.release()
        free.wait()

    async def occupy() -> None:
        await anyio.to_thread.run_sync(work)

    count = 0
    try:
        if world.kind.startswith("twisted"):
            pool = world._reactor.getThreadPool()
            for _ in range(pool.max):
                world.start("a thread", lambda: pool.callInThread(work)).wait()
            count = pool.max
        elif world.kind != "blocking":
            count = 40  # of anyio
            for _ in range(count):
                world.start("a thread", occupy)
        for _ in range(count):
            assert begun.acquire(timeout=10)
        yield
    finally:
        free.set()


def test_an_instance_works_while_all_threads_of_the_application_are_busy(nodes: Nodes) -> None:
    with (
        busy_threads(nodes.world),
        nodes.open("right", listen="localhost:0") as right,
        nodes.open("left") as left,
    ):
        right.subscribe("news", handler=lambda _: None)
        left.new_connection(f"localhost:{right.port}", timeout=20)
        receipt = left.send("news", "", b"x", require_recipients=1)
        left._call("wait_acked", receipt, timeout=20)
        left.close()
        right.close()


# A resolver that hangs.


def test_neither_close_nor_the_end_of_the_process_waits_for_the_resolver(nodes: Nodes, kind: str) -> None:
    assert run("resolver", nodes, kind) == ["closed"]


def test_a_name_is_looked_up_once_however_often_it_is_dialled(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answer = [], threading.Event()
    look_up: Any = socket.getaddrinfo

    def hangs(host: str, *args: Any, **options: Any) -> Any:
        if host == "localhost" and not options.get("flags", 0) & socket.AI_NUMERICHOST:
            asked.append(host)
            answer.wait(60)
        return look_up(host, *args, **options)

    with nodes.open("right") as right, nodes.open("left") as left:
        remote = f"localhost:{right.port}"
        monkeypatch.setattr(socket, "getaddrinfo", hangs)
        try:
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    left.new_connection(remote, timeout=0.05)
                left.remove_connection(remote)
                until(lambda: not left.stats()["connections"])
            dialling = left.start("new_connection", remote)
            left.new_connection(address(right), timeout=20)  # the others are not held up
        finally:
            answer.set()
        dialling.wait()
    assert asked == ["localhost"]


# Forks (T-79).

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


@needs_fork
def test_a_child_that_lives_on_keeps_neither_port_nor_connection(nodes: Nodes, kind: str) -> None:
    assert run("child", nodes, kind) == ["the peer has seen the end", "the port is free"]


@needs_fork
def test_in_a_child_closing_does_nothing(nodes: Nodes, kind: str) -> None:
    assert run("close", nodes, kind) == ["the child is done", "the parent goes on"]
