"""Dialling and listening with Twisted's endpoints, on any reactor.

Names are looked up in the reactor's thread pool, and each address has an endpoint of its own. HostnameEndpoint would do
both, but imports the global reactor.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.internet.endpoints import (
    TCP4ClientEndpoint,
    TCP4ServerEndpoint,
    TCP6ClientEndpoint,
    TCP6ServerEndpoint,
    UNIXClientEndpoint,
)
from twisted.internet.error import CannotListenError, ConnectError
from twisted.internet.interfaces import IReadDescriptor
from twisted.internet.threads import deferToThreadPool
from zope.interface import implementer

from tolliver_proto.errors import CannotListen, OutOfThreads

from .._driver.sockets import ACCEPT_PAUSE, FREE_PORTS, LISTENING, NOT_YET, is_taken, look_up
from .._driver.threads import starting_thread
from .._options.unix import SCHEME, is_unix

BACKLOG = 1024  # accept queue: all peers of a restarted instance dial at once


def in_pool(reactor: Any, job: Callable[[], Any]) -> Deferred[Any]:
    """Run a job in the reactor's thread pool; fires with its result. Also fails with OutOfThreads."""
    pool = reactor.getThreadPool()
    try:
        with starting_thread():
            return deferToThreadPool(reactor, pool, job)
    except OutOfThreads:
        pool.threads[:] = (one for one in pool.threads if one.ident is not None)  # stopping would wait for it
        return fail()


async def connect(reactor: Any, host: str, port: int, factory: Any, seconds: float) -> None:
    """Connect to one address of host and port after the other, sharing `seconds` between them; `factory` gets the
    connection. Raises OSError or ConnectError.
    """
    if is_unix(host):
        await UNIXClientEndpoint(reactor, host.removeprefix(SCHEME), seconds).connect(factory)
        return
    found = await in_pool(reactor, partial(look_up, host, port))
    for number, (is_v6, address) in enumerate(found, 1):
        make = TCP6ClientEndpoint if is_v6 else TCP4ClientEndpoint
        try:
            await make(reactor, address, port, seconds / len(found)).connect(factory)
        except ConnectError:
            if number == len(found):
                raise
        else:
            return


@implementer(IReadDescriptor)
class LocalPort:
    """A listening Unix socket. Twisted's own one would set the mode of its file to 0666, at once and for all to see."""

    def __init__(self, reactor: Any, listener: socket.socket, factory: Any) -> None:
        self._reactor = reactor
        self._listener = listener
        self._factory = factory
        reactor.addReader(self)

    def fileno(self) -> int:
        return self._listener.fileno()

    def logPrefix(self) -> str:
        return "tolliver"

    def doRead(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except (*NOT_YET, ConnectionError):
            return
        except OSError:  # no file descriptors left
            self._reactor.removeReader(self)
            self._reactor.callLater(ACCEPT_PAUSE, self._go_on)
            return
        with sock:
            self._reactor.adoptStreamConnection(sock.fileno(), socket.AF_UNIX, self._factory)

    def _go_on(self) -> None:
        if self.fileno() >= 0:
            self._reactor.addReader(self)

    def connectionLost(self, reason: Any) -> None:
        self.stopListening()

    def stopListening(self) -> None:
        self._reactor.removeReader(self)
        self._listener.close()


async def listen(reactor: Any, host: str, port: int, factory: Any, tries: int = FREE_PORTS) -> list[Any]:
    """Listening ports, one for each address of the host, all with one number. With `port` 0 that is any free one, for
    which `tries` are made. Raises CannotListen, and leaves none open.
    """
    ports: list[Any] = []
    try:
        for is_v6, address in await in_pool(reactor, partial(look_up, host, port, LISTENING)):
            make = TCP6ServerEndpoint if is_v6 else TCP4ServerEndpoint
            number = ports[0].getHost().port if ports else port
            ports.append(await make(reactor, number, BACKLOG, address).listen(factory))
    except (OSError, CannotListenError) as error:
        for one in ports:
            await one.stopListening()
        cause = error.socketError if isinstance(error, CannotListenError) else error
        if is_taken(port, cause) and tries > 1:
            return await listen(reactor, host, port, factory, tries - 1)
        text = f"cannot listen on {host}:{port}: {cause}. Choose another port or address"
        raise CannotListen(cause.errno, text) from error
    return ports
