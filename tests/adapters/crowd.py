"""Crowd: very many cheap peers, in a process of their own.

    python -m tests.adapters.crowd PORT COUNT CERT KEY CA

Each is a `RawPeer` with a UUID of its own, which a certificate without one lets it claim (D-3). They come some at a
time, below the bound for one address (D-7), subscribe to "news", acknowledge what they get, and are there until the
input ends. Prints "connected" when all are.
"""

from __future__ import annotations

import selectors
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Self
from uuid import UUID

from tolliver._options.instance import TLS
from tolliver._tls.policy import client_context

from tests.raw import RawPeer
from tolliver_proto import Ack, Message

from .facade import PATIENCE
from .member import ROOT

AT_ONCE = 8
DESCRIPTORS = 20_000
FIRST = UUID("01890000-0000-7000-8000-000000010000").int


class Crowd:
    """The process, from outside. Use it as a context manager: all are connected when it is entered."""

    def __init__(self, port: int, count: int, tls: TLS) -> None:
        arguments = map(str, (port, count, tls.cert, tls.key, tls.ca))
        self._command = [sys.executable, "-m", __name__, *arguments]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        said = self._process.stdout.readline()  # ends with the process, whose every step is limited
        if said != b"connected\n":
            self.__exit__()
            raise AssertionError("the crowd is not connected: what it wrote says why")
        return self

    def __exit__(self, *_error: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE)
        finally:
            self._process.kill()  # where it has not ended; else nothing
            self._process.wait()
            self._process.stdout.close()


class _One(RawPeer):
    def fileno(self) -> int:
        return self._socket.fileno()

    def answer(self) -> bool:
        """Read a record and acknowledge what was in it. False at the end."""
        before = len(self.events)
        goes_on = self.receive()
        for event in self.events[before:]:
            if isinstance(event, Message) and event.message_id is not None:
                self.connection.send(Ack(event.message_id))
        self.flush()
        return goes_on


def raise_limit() -> None:
    """As many descriptors as thousands of connections need, as far as this process may."""
    import resource  # only POSIX has it

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def main(port: str, count: str, cert: str, key: str, ca: str) -> None:
    raise_limit()
    context = client_context(TLS(Path(cert), Path(key), Path(ca)))

    def come(number: int) -> _One:
        one = _One(int(port), context, UUID(int=FIRST + number), ["news"])
        one.establish()
        return one

    with ThreadPoolExecutor(AT_ONCE) as pool:
        everyone = list(pool.map(come, range(int(count))))
    ended = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=listen, daemon=True).start()
    print("connected", flush=True)  # noqa: T201  # its parent waits for it
    with selectors.DefaultSelector() as selector:
        for one in everyone:
            selector.register(one, selectors.EVENT_READ, partial(_look, selector, one))
        while not ended.is_set():
            for key_, _ in selector.select(0.05):
                key_.data()
    for one in everyone:
        one.__exit__()


def _look(selector: selectors.BaseSelector, one: _One) -> None:
    if not one.answer():
        selector.unregister(one)


if __name__ == "__main__":
    main(*sys.argv[1:])
