"""Brokers that are found on PATH: started when the first contestant needs one, ended at the end."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from benchmarks._peers.measuring import HOST

BESIDE_PATH = "/usr/local/sbin:/usr/sbin"  # Debian has servers there, and people not on their PATH
PATIENCE = 10.0  # seconds until one listens, or has ended


class NotThere(Exception):
    """A reason to leave a contestant out."""


def _nats(directory: Path, port: int) -> Iterable[object]:
    return "-a", HOST, "-p", port, "-js", "-sd", directory


def _redis(when: str) -> Callable[[Path, int], Iterable[object]]:
    def arguments(directory: Path, port: int) -> Iterable[object]:
        # Its log is not written anew meanwhile: that would be work on the disk beside others.
        log = "--appendonly", "yes", "--appendfsync", when, "--auto-aof-rewrite-percentage", 0, "--save", ""
        return "--bind", HOST, "--port", port, "--dir", directory, *log

    return arguments


def _mosquitto(directory: Path, port: int) -> Iterable[object]:
    lines = (
        f"listener {port} {HOST}",
        "allow_anonymous true",
        "persistence true",
        f"persistence_location {directory}/",
        "max_queued_messages 0",
        f"user {getpass.getuser()}",
    )
    file = directory / "mosquitto.conf"
    file.write_text("\n".join(lines) + "\n", "utf-8")
    return "-c", file


_ARGUMENTS: dict[str, Callable[[Path, int], Iterable[object]]] = {
    "nats-server": _nats,
    "redis-server always": _redis("always"),
    "redis-server everysec": _redis("everysec"),
    "mosquitto": _mosquitto,
}
_ON_EVERY_CORE = ("nats-server",)  # it is between two processes, each of which has a core


def program_of(broker: str) -> str:
    return broker.partition(" ")[0]


def path_of(broker: str) -> str:
    """Raises NotThere."""
    path = shutil.which(program_of(broker)) or shutil.which(program_of(broker), path=BESIDE_PATH)
    if path is None:
        raise NotThere(f"{program_of(broker)} is not on PATH")
    return path


def free_port() -> int:
    with socket.create_server((HOST, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def pinned(cores: tuple[int, ...]) -> Iterator[None]:
    """Processes that are started here are on these cores; on all where there is none."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Brokers:
    """Those that have been started. Use it as a context manager."""

    def __init__(self, directory: Path, cores: tuple[int, ...]) -> None:
        self._directory = directory
        self._cores = cores
        self._ports: dict[str, int] = {}
        self._processes: list[subprocess.Popen[bytes]] = []

    def port(self, broker: str) -> int:
        """Raises NotThere."""
        if broker not in self._ports:
            self._ports[broker] = self._start(broker)
        return self._ports[broker]

    def _start(self, broker: str) -> int:
        path = path_of(broker)
        directory = self._directory / broker.replace(" ", "-")
        directory.mkdir(exist_ok=True)
        port = free_port()
        command = [path, *map(str, _ARGUMENTS[broker](directory, port))]
        with pinned(() if broker in _ON_EVERY_CORE else self._cores[-1:]):
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        self._processes.append(process)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and process.poll() is None:
            with suppress(OSError), socket.create_connection((HOST, port), 1):
                return port
            time.sleep(0.05)
        raise NotThere(f"{program_of(broker)} does not listen on {HOST}:{port}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
