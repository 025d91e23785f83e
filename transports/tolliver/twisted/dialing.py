"""Dialling and listening with Twisted's endpoints, on any reactor.

Names are looked up in threads of ours, and each address has an endpoint of its own. HostnameEndpoint would do both, but
in the application's threads, and it imports the global reactor.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.endpoints import (
    TCP4ClientEndpoint,
    TCP4ServerEndpoint,
    TCP6ClientEndpoint,
    TCP6ServerEndpoint,
    UNIXClientEndpoint,
)
from twisted.internet.error import CannotListenError, ConnectError
from twisted.internet.interfaces import IReadDescriptor
from zope.interface import implementer

from tolliver_proto.errors import CannotListen, OutOfThreads

from .._driver.forks import note
from .._driver.lookups import look_ups
from .._driver.sockets import ACCEPT_PAUSE, FREE_PORTS, LISTENING, NOT_YET, is_taken, numeric
from .._driver.threads import start
from .._options.unix import SCHEME, is_unix

T = TypeVar("T")
BACKLOG = 1024  # accept queue: all peers of a restarted instance dial at once


def in_thread(reactor: Any, job: Callable[[], T]) -> Deferred[T]:
    """Run a job in a thread of its own, as those of the reactor's pool are the application's, and may all be busy;
    fires with its result. Also fails with OutOfThreads.
    """
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()

    def run() -> None:
        try:
            outcome.set_result(job())
        except BaseException as error:
            outcome.set_exception(error)

    answer = fired(reactor, outcome)
    try:
        start(Thread(target=run, name="tolliver job", daemon=True))
    except OutOfThreads:
        return fail()
    return answer


def fired(reactor: Any, outcome: Future[T]) -> Deferred[T]:
    """A Deferred that fires with the outcome of what runs in a thread; cancelling it cancels that."""
    if outcome.done():
        return succeed(outcome).addCallback(Future.result)

    def cancel(_answer: object) -> None:
        outcome.cancel()

    answer: Deferred[Future[T]] = Deferred(cancel)

    def fire() -> None:
        if not answer.called:  # called: cancelled meanwhile
            answer.callback(outcome)

    outcome.add_done_callback(lambda _: reactor.callFromThread(fire))
    return answer.addCallback(Future.result)


async def connect(reactor: Any, host: str, port: int, factory: Any, seconds: float) -> None:
    """Connect to one address of host and port after the other, sharing `seconds` between them; `factory` gets the
    connection. Raises OSError or ConnectError.
    """
    if is_unix(host):
        await UNIXClientEndpoint(reactor, host.removeprefix(SCHEME), seconds).connect(factory)
        return
    addresses = await fired(reactor, look_ups.ask(host, port))
    found = numeric(addresses)
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
        addresses = await fired(reactor, look_ups.ask(host, port, LISTENING))
        for is_v6, address in numeric(addresses):
            make = TCP6ServerEndpoint if is_v6 else TCP4ServerEndpoint
            number = ports[0].getHost().port if ports else port
            ports.append(await make(reactor, number, BACKLOG, address).listen(factory))
            if hasattr(ports[-1], "socket"):  # a reactor in memory has none
                note(ports[-1].socket)
    except (OSError, CannotListenError) as error:
        for one in ports:
            await one.stopListening()
        cause = error.socketError if isinstance(error, CannotListenError) else error
        if is_taken(port, cause) and tries > 1:
            return await listen(reactor, host, port, factory, tries - 1)
        text = f"cannot listen on {host}:{port}: {cause}. Choose another port or address"
        raise CannotListen(cause.errno, text) from error
    return ports
