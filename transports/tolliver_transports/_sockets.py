"""What is done for every TCP socket, whatever loop it belongs to.

The idea: the protocol has no ping, so the kernel must notice a peer that is gone (D-8, T-80).
"""

from __future__ import annotations

import socket
from typing import Any

_OPTIONS = (  # those that the platform does not have are left out
    ("IPPROTO_TCP", "TCP_NODELAY", 1),
    ("SOL_SOCKET", "SO_KEEPALIVE", 1),
    ("IPPROTO_TCP", "TCP_KEEPIDLE", 30),
    ("IPPROTO_TCP", "TCP_KEEPINTVL", 10),
    ("IPPROTO_TCP", "TCP_KEEPCNT", 3),
    ("IPPROTO_TCP", "TCP_USER_TIMEOUT", 30_000),  # milliseconds
)
SELF_CONNECTED = "the dial met its own socket, as nobody listens there"
LISTENING = socket.AI_PASSIVE | socket.AI_ADDRCONFIG  # for `look_up`


def tune(sock: socket.socket) -> None:
    """Small writes at once, and 30 seconds to notice a peer that does not answer."""
    for level, name, value in _OPTIONS:
        if hasattr(socket, name):
            sock.setsockopt(getattr(socket, level), getattr(socket, name), value)


def is_self_connected(sock: socket.socket) -> bool:
    """Whether a dial to a free local port has met itself: TCP allows both ends of a connection to be one socket."""
    return bool(sock.getsockname() == sock.getpeername())


def host_of(sock: socket.socket) -> str:
    """Where a connection comes from, or "" where it is gone already."""
    try:
        return str(sock.getpeername()[0])
    except OSError:
        return ""


def look_up(host: str, port: int, flags: int = 0) -> list[tuple[bool, str]]:
    """Whether it is IPv6, and the address in numbers; the best first. Blocks. Raises OSError where none is found."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return list(dict.fromkeys((family == socket.AF_INET6, _with_scope(*address)) for family, *_, address in found))


def _with_scope(host: str, _port: int, _flow: int = 0, scope: int = 0) -> str:
    return f"{host}%{scope}" if scope else host


def address_of(peername: Any) -> str:
    """host:port as people write it."""
    host, port = peername[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
