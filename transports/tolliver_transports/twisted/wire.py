"""One connection on Twisted, and what Deferreds wait for.

The idea: Twisted owns socket, TLS and buffers, so a wire only translates: what the driver asks for into calls of the
transport, and what Twisted reports into inputs of the node. `sent` is said once the transport's buffer is below its
mark, so what a peer does not read stays with the node, which knows what to do about it.

Whoever waits gets a Deferred of its own: to cancel it, or to change its result, is nobody else's business.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, NoReturn, Self

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IAddress, IHalfCloseableProtocol, IHandshakeListener, IPushProducer
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from tolliver_proto import ConnectionLost, Role, TolliverError

from .._driver.driver import Driver
from .._driver.sockets import SELF_CONNECTED, address_of, tune
from .._options.instance import Remote


class Promise:
    """An answer that is still to come, for any number of Deferreds. `clock` counts their timeouts."""

    __slots__ = ("_clock", "_tell", "_waiting")

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self._waiting: deque[Deferred[Any]] = deque()
        self._tell: Callable[[Deferred[Any]], None] | None = None

    def follow(self, result: Deferred[Any]) -> Self:
        """Keep it when `result` fires, which nobody can cancel any more."""
        result.addCallbacks(self.resolve, lambda failure: self.fail(failure.value))
        return self

    def resolve(self, value: Any) -> None:
        self._settle(lambda waiting: waiting.callback(value))

    def fail(self, error: BaseException | None) -> None:
        self._settle(lambda waiting: waiting.errback(error))

    def _settle(self, tell: Callable[[Deferred[Any]], None]) -> None:
        self._tell = tell
        while self._waiting:
            tell(self._waiting.popleft())

    def wait(self, timeout: float | None = None) -> Deferred[Any]:
        """A new Deferred. After `timeout` seconds it fails with TimeoutError; the promise stays."""
        waiting: Deferred[Any] = Deferred(self._waiting.remove)
        if self._tell is None:
            self._waiting.append(waiting)
        else:
            self._tell(waiting)
        return waiting if timeout is None else waiting.addTimeout(timeout, self._clock, _too_late)


def _too_late(_cancelled: object, timeout: float) -> NoReturn:
    raise TimeoutError(f"not done within {timeout:g} s; what was asked for goes on")


class Bell:
    """An event that can be rung again and again. One coroutine listens, and hears it in a turn of the reactor's own."""

    __slots__ = ("_clock", "_listener", "_rung")

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self._listener: Deferred[None] | None = None
        self._rung = False

    def ring(self) -> None:
        if not self._rung:
            self._rung = True
            if self._listener is not None:
                self._clock.callLater(0, self._tell)

    def heard(self) -> Deferred[None]:
        if self._rung:
            self._rung = False
            return succeed(None)
        self._listener = Deferred(self._leave)
        return self._listener

    def _tell(self) -> None:
        listener = self._listener
        if listener is not None and self._rung:
            self._listener, self._rung = None, False
            listener.callback(None)

    def _leave(self, _listener: object) -> None:
        self._listener = None


@implementer(IHandshakeListener, IHalfCloseableProtocol, IPushProducer)
class Transport(Protocol):
    """A connection of the instance, from its cid to its end. `lost` is told why it ended."""

    transport: Any  # a TLSTransport or a PlainTransport; None while it is dialled
    dialling: Deferred[Any]

    def __init__(self, driver: Driver, cid: int, role: Role, lost: Callable[[int, TolliverError | None], None]) -> None:
        self.cid = cid
        self._driver = driver
        self._role = role
        self._lost = lost
        self._address = ""
        self._error: TolliverError | None = None
        self._full = False  # the transport has more than it can pass on now
        self._owes_sent = False  # the node waits for `sent`
        self._shut = False
        self._peer_closed = False

    # What the driver asks for.

    def transmit(self, units: Sequence[bytes]) -> None:
        self._owes_sent = True
        for unit in units:
            self.transport.write(unit)
        self._say_sent()

    def pause(self) -> None:
        self.transport.pauseProducing()

    def resume(self) -> None:
        self.transport.resumeProducing()

    def shutdown_write(self) -> None:
        """The node asks for it when all was sent: so no producer is paused, which TCP would wait for."""
        self._shut = True
        self.transport.unregisterProducer()
        self.transport.loseWriteConnection()
        if self._peer_closed:
            self.transport.loseConnection()

    def abort(self) -> None:
        if self.transport is None:
            self.dialling.cancel()
        else:
            self.transport.abortConnection()

    # What Twisted reports of the connection.

    def unreached(self, failure: Failure, remote: Remote) -> None:
        """The dial failed, or was cancelled."""
        error = ConnectionLost(f"cannot reach {remote}: {failure.getErrorMessage()}")
        error.__cause__ = failure.value
        self._lost(self.cid, error)

    def connectionMade(self) -> None:
        line, peer, host = self.transport.transport, self.transport.getPeer(), self.transport.getHost()
        self._address = address_of((peer.host, peer.port))
        with suppress(OSError):  # it is gone already, as we shall hear
            tune(line.getHandle())
        if (peer.host, peer.port) == (host.host, host.port):
            self._error = ConnectionLost(SELF_CONNECTED)
            self.transport.abortConnection()
        self.transport.registerProducer(self, True)

    def handshakeCompleted(self) -> None:
        identity = self.transport.identity(self._address)
        self._driver.machine.opened(self.cid, self._role, identity, monotonic())
        self._driver.turn()

    def dataReceived(self, data: bytes) -> None:
        self._driver.received(self.cid, data)
        self._driver.turn()

    def readConnectionLost(self) -> None:
        self._peer_closed = True
        self._driver.machine.receive_eof(self.cid, monotonic())
        if self._shut:
            self.transport.loseConnection()
        self._driver.turn()

    def writeConnectionLost(self) -> None:
        """Our half is shut."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._lost(self.cid, self._error or self.transport.ended(reason))

    # What Twisted asks of a producer.

    def pauseProducing(self) -> None:
        self._full = True

    def resumeProducing(self) -> None:
        self._full = False
        self._say_sent()
        self._driver.turn()

    def stopProducing(self) -> None:
        """The connection is lost: `connectionLost` follows."""

    def _say_sent(self) -> None:
        if self._owes_sent and not self._full:
            self._owes_sent = False
            self._driver.machine.sent(self.cid, monotonic())


class Wires(Factory):
    """Whom Twisted asks for the protocol of a connection that stands."""

    noisy = False

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make

    def buildProtocol(self, addr: IAddress | None) -> Any:
        return self._make(addr)
