"""Instance in a process of its own, that a test can stop.

    python -m tests.adapters.member KIND DATABASE CERT KEY CA [ACK]

prints its port, and then the body of each message of "news" that it handles, until its input ends. With ACK, that
option of the handler, the handler does not return: it is to be killed within.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from tolliver._options.instance import TLS, InstanceOptions

from tolliver_proto import Delivery

from .facade import PATIENCE, Facade, Gate, until
from .kinds import make_world

ROOT = Path(__file__).parent.parent.parent


class Member:
    """The process, from outside. Use it as a context manager."""

    def __init__(self, kind: str, database: Path, tls: TLS, *hangs: str) -> None:
        command = [sys.executable, "-m", __name__, kind, *map(str, (database, tls.cert, tls.key, tls.ca)), *hangs]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self._said: list[str] = []
        self._listening = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Self:
        self._listening.start()
        until(lambda: self._said, "the member's port")
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
            self._listening.join(PATIENCE)
            self._process.stdout.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.append(line.rstrip("\n"))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._said[0]}"

    @property
    def bodies(self) -> list[bytes]:
        return [line.encode() for line in self._said[1:]]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """It does nothing meanwhile; its kernel still answers for it."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)


def _say(line: bytes) -> None:
    os.write(1, line + b"\n")


def main(kind: str, database: str, cert: str, key: str, ca: str, *hangs: str) -> None:
    world = make_world(kind)
    choices = {"ack": hangs[0]} if hangs else {}

    def handle(delivery: Delivery) -> Gate | None:
        _say(delivery.body)
        if hangs and kind.startswith("twisted"):
            return Gate()  # Twisted writes between two calls, so a plain function would hold it up
        if hangs:
            time.sleep(PATIENCE)
        return None

    tls = TLS(Path(cert), Path(key), Path(ca))
    with Facade(world, InstanceOptions(database=Path(database), listen="127.0.0.1:0", tls=tls)) as node:
        node.subscribe("news", handler=handle, **choices)
        _say(b"%d" % (node.port or 0))
        sys.stdin.read()
    world.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
