"""Ports where nobody listens yet, nor anybody but who was given one will.

The system gives those of its own range to whoever asks for any: a test in another process may get the one that this
one was about to use.
"""

from __future__ import annotations

import secrets
import socket

_OURS = range(10_000, 32_768)  # below those that Linux and the others give out


def free_port() -> int:
    for _ in range(1000):
        port = secrets.choice(_OURS)  # a seed would give every process the same
        with socket.socket() as reserved:
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                reserved.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("no port between 10,000 and 32,767 is free")


def free_address() -> str:
    return f"127.0.0.1:{free_port()}"
