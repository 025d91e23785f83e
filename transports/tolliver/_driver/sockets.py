"""TCP sockets: options and helpers common to all loops.

The protocol has no ping, so the kernel must detect a dead peer (D-8, T-80).
"""

from __future__ import annotations

import errno
import itertools
import os
import socket
from collections.abc import Callable, Iterable
from typing import Any

from tolliver_proto import ConnectionLost
from tolliver_proto.errors import CannotListen
from tolliver_proto.node import DialCause

from .._options.unix import SCHEME, UnixAddress, is_unix
from .._tls.pump import USER
from .forks import note
from .unix import Listener, credentials, is_supported

Address = tuple[Any, ...]
"""A socket address, as getaddrinfo gives it."""

NEXT_ADDRESS = 0.25  # seconds until the next address is tried in parallel (RFC 8305)
ACCEPT_PAUSE = 0.1  # seconds after a failed accept (no file descriptors left)
NOT_YET = (BlockingIOError, InterruptedError)
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # "localhost" on a machine without IPv6
_TOO_MANY = (errno.EMFILE, errno.ENFILE)
MORE_FILES = "Raise the limit of open files (`ulimit -n`), and try again"
_UNDER_WAY = (0, errno.EINPROGRESS, errno.EWOULDBLOCK)  # EWOULDBLOCK on Windows

_OPTIONS = (  # options that the platform lacks are left out
    ("IPPROTO_TCP", "TCP_NODELAY", 1),
    ("SOL_SOCKET", "SO_KEEPALIVE", 1),
    ("IPPROTO_TCP", "TCP_KEEPIDLE", 30),
    ("IPPROTO_TCP", "TCP_KEEPINTVL", 10),
    ("IPPROTO_TCP", "TCP_KEEPCNT", 3),
    ("IPPROTO_TCP", "TCP_USER_TIMEOUT", 30_000),  # milliseconds
)
_CAUSES: tuple[tuple[type[OSError], DialCause], ...] = (
    (socket.gaierror, DialCause.NAME),
    (ConnectionRefusedError, DialCause.REFUSED),
    (ConnectionResetError, DialCause.CLOSED),
    (ConnectionAbortedError, DialCause.CLOSED),
    (TimeoutError, DialCause.NO_ANSWER),
)
FREE_PORTS = 8  # tries: a port free at a host's first address may be in use at another
SELF_CONNECTED = "the dial met its own socket, as nobody listens there"
LISTENING = socket.AI_PASSIVE | socket.AI_ADDRCONFIG  # flags of getaddrinfo


def tune(sock: socket.socket) -> None:
    """Set socket options: send small writes at once, and detect an unresponsive peer within 30 seconds."""
    if is_local(sock):
        return
    for level, name, value in _OPTIONS:
        if hasattr(socket, name):
            sock.setsockopt(getattr(socket, level), getattr(socket, name), value)


def is_local(sock: socket.socket) -> bool:
    """True for a Unix socket."""
    return is_supported() and sock.family == socket.AF_UNIX


def peer_of(sock: socket.socket) -> str:
    """Text that says who is at the other end: "host:port", or the user at a Unix socket. Raises OSError."""
    if not is_local(sock):
        return address_of(sock.getpeername())
    who = credentials(sock)
    return f"{USER}unknown" if who is None else f"{USER}{who.uid}"


def bound_to(listener: socket.socket) -> tuple[str, int]:
    """Host and port of a listening socket; (unix:PATH, 0) of a Unix socket."""
    where = listener.getsockname()
    return (f"{SCHEME}{where}", 0) if is_local(listener) else where[:2]


def is_self_connected(sock: socket.socket) -> bool:
    """True if a dial to a free local port has met itself: TCP allows both ends of a connection to be one socket."""
    return not is_local(sock) and bool(sock.getsockname() == sock.getpeername())


def host_of(sock: socket.socket) -> str:
    """IP address of the peer of a connection; "" if the connection has ended already."""
    try:
        return "" if is_local(sock) else str(sock.getpeername()[0])
    except OSError:
        return ""


def numeric(found: Iterable[Address]) -> list[tuple[bool, str]]:
    """The addresses of `find_addresses` as (is IPv6, numeric address)."""
    return [(family == socket.AF_INET6, _with_scope(*where)) for family, *_, where in found]


def _with_scope(host: str, _port: int, _flow: int = 0, scope: int = 0) -> str:
    return f"{host}%{scope}" if scope else host


def find_addresses(host: str, port: int, flags: int = 0) -> list[Address]:
    """Addresses of a host and port, IPv6 and IPv4 alternating, so that an unreachable family costs only one pause (RFC
    8305); `flags` are those of getaddrinfo.

    Blocks, except with AI_NUMERICHOST. Raises OSError if there are none.
    """
    if is_unix(host):
        return [(socket.AF_UNIX, socket.SOCK_STREAM, 0, "", host.removeprefix(SCHEME))]
    families: dict[int, list[Address]] = {}
    for one in dict.fromkeys(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)):
        families.setdefault(one[0], []).append(one)
    return [one for row in itertools.zip_longest(*families.values()) for one in row if one is not None]


def begin_connecting(address: Address) -> socket.socket:
    """Start a non-blocking connect. The socket becomes writable once it is connected or has failed. Raises OSError."""
    family, kind, protocol, _, where = address
    sock = socket.socket(family, kind, protocol)
    note(sock)
    sock.setblocking(False)
    code = sock.connect_ex(where)
    if code not in _UNDER_WAY:
        sock.close()
        raise OSError(code, os.strerror(code))
    return sock


def check_connected(sock: socket.socket) -> None:
    """Finish a connect. If it failed, closes the socket and raises OSError."""
    code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        sock.close()
        raise OSError(code, os.strerror(code))


def is_taken(port: int, error: OSError) -> bool:
    """True if listening failed with `error` because the port that the system chose for one address (`port` 0) is in use
    at another.
    """
    return not port and error.errno == errno.EADDRINUSE


def open_listeners(
    host: str, port: int, tries: int = FREE_PORTS, *, find: Callable[[], list[Address]] | None = None
) -> list[socket.socket]:
    """Non-blocking listening sockets, one for each address of the host, all on one port. With `port` 0 that is any free
    one, for which `tries` are made. `find` returns the addresses, or raises OSError; without it this call looks up the
    host, and blocks.

    Raises CannotListen, and then leaves no socket open.
    """
    if is_unix(host):
        where = UnixAddress.parse(host)
        listener = Listener(where.path, where.mode)
        note(listener)
        return [listener]
    opened: list[socket.socket] = []
    missing = None
    try:
        for address in find_addresses(host, port, socket.AI_PASSIVE) if find is None else find():
            number = opened[0].getsockname()[1] if opened else port
            try:
                opened.append(_listening_socket(address, number))
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                missing = error
        if missing is not None and not opened:
            raise missing
    except OSError as error:
        close_all(opened)
        if is_taken(port, error) and tries > 1:
            return open_listeners(host, port, tries - 1, find=find)
        advice = MORE_FILES if error.errno in _TOO_MANY else "Choose another port or address"
        raise CannotListen(error.errno, f"cannot listen on {host}:{port}: {error}. {advice}") from None
    return opened


def unreached(remote: object, error: OSError) -> ConnectionLost:
    """The error for a dial that got no TCP connection."""
    cause = next((cause for kind, cause in _CAUSES if isinstance(error, kind)), DialCause.UNREACHABLE)
    if error.errno in (*_TOO_MANY, errno.EAGAIN):
        cause = DialCause.HERE
    return ConnectionLost(f"cannot reach {remote}: {error}", cause)


def close_all(sockets: Iterable[socket.socket]) -> None:
    for sock in sockets:
        sock.close()


def _listening_socket(address: Address, port: int) -> socket.socket:
    where = address[4]
    sock = socket.create_server((where[0], port, *where[2:]), family=address[0], backlog=socket.SOMAXCONN)
    note(sock)
    sock.setblocking(False)
    return sock


def address_of(peername: Any) -> str:
    """Text "host:port" of a socket address."""
    host, port = peername[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
