"""Sockets in a forked child.

A fork shares the sockets of its parent. A child that kept them would hold the port after the parent's end, and the
peers of the parent would not see that end. So every socket of ours is noted here, and a child closes them all, without
a word to the peers and without a lock or a loop: those are the parent's (T-79).
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from weakref import WeakSet

_ours: WeakSet[socket.socket] = WeakSet()


def note(sock: socket.socket) -> None:
    """Have forked children close this socket."""
    _ours.add(sock)


def _close_all() -> None:
    for sock in [*_ours]:
        with suppress(OSError):
            os.close(sock.detach())  # `close` would wait for the end of a loop's watch
    _ours.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_all)
