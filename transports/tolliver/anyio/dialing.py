"""Dialling and accepting on asyncio and trio.

As in `wire`, only socket readiness is awaited. The next address of a name is tried when one fails or is slow; the first
connection wins (RFC 8305).
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable

import anyio

from .._driver.lookups import look_ups
from .._driver.sockets import (
    ACCEPT_PAUSE,
    NEXT_ADDRESS,
    NOT_YET,
    Address,
    begin_connecting,
    check_connected,
    close_all,
)
from .threads import done

log: logging.Logger = logging.getLogger("tolliver.dial")


async def dial(host: str, port: int) -> socket.socket:
    """A connected, non-blocking socket. Raises OSError."""
    addresses = (await done(look_ups.ask(host, port))).result()
    connected: list[socket.socket] = []
    errors = [OSError(errno.EHOSTUNREACH, "its name has no address")]

    async def attempt(address: Address, failed: anyio.Event) -> None:
        try:
            connected.append(await _connect(address))
            trying.cancel_scope.cancel()
        except OSError as error:
            errors.append(error.with_traceback(None))  # else its frames and this list form a cycle
            failed.set()

    try:
        async with anyio.create_task_group() as trying:
            for address in addresses:
                failed = anyio.Event()
                trying.start_soon(attempt, address, failed)
                with anyio.move_on_after(NEXT_ADDRESS):
                    await failed.wait()
    except BaseException:
        close_all(connected)
        raise
    if not connected:
        raise errors.pop()
    close_all(connected[1:])
    return connected[0]


async def _connect(address: Address) -> socket.socket:
    sock = begin_connecting(address)
    try:
        await anyio.wait_writable(sock)
    except BaseException:
        sock.close()
        raise
    check_connected(sock)
    return sock


async def accept(listener: socket.socket, take: Callable[[socket.socket], None]) -> None:
    """Accept connections until cancelled, and pass each socket to `take`."""
    with listener:
        while True:
            await anyio.wait_readable(listener)
            try:
                sock, _ = listener.accept()
            except (*NOT_YET, ConnectionAbortedError):
                continue
            except OSError as error:
                log.warning("cannot accept a connection, trying again: %s", error)
                await anyio.sleep(ACCEPT_PAUSE)
            else:
                sock.setblocking(False)
                take(sock)
