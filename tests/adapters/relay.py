"""Relay between two instances, whose connections can be counted and cut.

A dialler is given the relay's port instead of the listener's. Bytes that pass are not touched; how often somebody
dialled is a number, and `cut()` ends every connection as a broken line does, with a reset.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Self

from .facade import PATIENCE

_LINGER_0 = (1).to_bytes(4, "little") + (0).to_bytes(4, "little")


class Relay:
    """Listens, and passes each connection on to a port. Use it as a context manager."""

    def __init__(self, target: int) -> None:
        self.dials = 0
        self.refuses = False
        """True: who dials is cut off at once."""
        self._target = target
        self._server = socket.create_server(("127.0.0.1", 0))
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_error: object) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.cut()
        for thread in self._threads:
            thread.join(PATIENCE)

    def cut(self) -> None:
        """End all connections that there are, as a broken line would."""
        ends, self._ends = self._ends, []
        for end in ends:
            reset(end)

    def _start(self, work: object, *args: object) -> None:
        self._threads.append(threading.Thread(target=work, args=args, daemon=True))  # type: ignore[arg-type]  # any work
        self._threads[-1].start()

    def _accept(self) -> None:
        with suppress(OSError):  # it was closed
            while True:
                here, _ = self._server.accept()
                if self.refuses:
                    reset(here)
                    continue
                there = socket.create_connection(("127.0.0.1", self._target), timeout=PATIENCE)
                there.settimeout(None)
                self._ends += [here, there]
                self.dials += 1  # only now: what is counted can be cut
                self._start(self._pass, here, there)
                self._start(self._pass, there, here)

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):  # it was cut
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


def reset(end: socket.socket) -> None:
    """Close it so that the other side sees a reset."""
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_0)
        end.shutdown(socket.SHUT_RD)  # wakes the thread that reads
    end.close()
