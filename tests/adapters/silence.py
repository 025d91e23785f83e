"""Silent line: every packet is dropped, without a word. Linux only.

It needs no privilege: a socket filter that passes nothing is asked before TCP is, so what arrives is neither read nor
acknowledged, as if it had been lost on the way. It is put on every socket of this process with the listener's port at
either end: the connections', in both directions, and the listener's own, which therefore never hears of a new dial.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SO_ATTACH_FILTER, SO_DETACH_FILTER = 26, 27  # not in the socket module
_PASS_NOTHING = (ctypes.c_uint16 * 4)(6, 0, 0, 0)  # BPF_RET | BPF_K, 0 bytes


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def missing_filters() -> str:
    """Why packets cannot be dropped here, or ""."""
    return "" if sys.platform == "linux" else "socket filters are Linux's"


@contextmanager
def silence(port: int) -> Iterator[None]:
    """Nothing arrives at either end of the connections of this process to its port."""
    program = bytes(_Program(1, ctypes.addressof(_PASS_NOTHING)))
    try:
        for sock in _sockets(port):
            sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
        yield
    finally:
        for sock in _sockets(port):
            with suppress(OSError):  # it came later, and has none
                sock.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)


def _sockets(port: int) -> Iterator[socket.socket]:
    """Each is a copy of the descriptor, which is closed before the next: a connection must end when its owner says."""
    for entry in list(Path("/proc/self/fd").iterdir()):
        with suppress(OSError):  # it is gone
            copy = os.dup(int(entry.name))
            try:
                sock = socket.socket(fileno=copy)
            except OSError:  # it is no socket
                os.close(copy)
                continue
            with sock:
                if port in _ports(sock):
                    yield sock


def _ports(sock: socket.socket) -> set[int]:
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return set()
    ports = {sock.getsockname()[1]}
    with suppress(OSError):  # it listens
        ports.add(sock.getpeername()[1])
    return ports
