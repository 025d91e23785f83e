"""Transport of one connection on Twisted, and Deferreds of pending calls.

Twisted owns the socket and a buffer of unsent bytes; the session does everything above TCP. Twisted is given ciphertext
until its buffer is above a mark. The rest stays in the node, which can limit what it keeps for a peer that does not
read.

Properties of TCP in Twisted 23.10 to 26 that this code works around:

- A failed write closes the socket, and drops unread input, such as the peer's refusal of our certificate (T-74). So a
  client keeps a duplicate of the file descriptor until it has received a byte, and reads the rest from that.
- A transport whose sending side is shut ends within the call that closes it, inside the caller's own code. So it is
  closed in the next iteration of the reactor.
- A transport with a paused producer waits for that before it closes. So the producer is unregistered first.

Each waiting caller gets a Deferred of its own, so that cancelling or chaining it does not affect other callers.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from time import thread_time
from typing import Any, NoReturn, TypeVar, cast

from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionAborted
from twisted.internet.error import TimeoutError as DialTooLong
from twisted.internet.interfaces import IAddress, IHalfCloseableProtocol, IPushProducer
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from tolliver_proto import Role, TolliverError

from .._driver.driver import Driver
from .._driver.forks import note
from .._driver.pending import PendingCall
from .._driver.session import Session, broken
from .._driver.socket_session import CHUNK, IN_COMPANY, LEAST, next_chunk
from .._driver.sockets import unreached
from .._options.instance import Remote
from .._tls.pump import AnyPump

T = TypeVar("T")
_REST = 65536  # bytes: more than any peer sends before it has received anything


def wait_for(call: PendingCall[T], clock: Any, timeout: float | None = None) -> Deferred[T]:
    """A new Deferred of the answer. Fails with TimeoutError after `timeout` seconds; the operation itself goes on."""
    waiting: Deferred[T] = Deferred(lambda _: call.forget(wake))

    def wake() -> None:
        if waiting.called:  # cancelled by a waiter woken earlier
            return
        if call.error is not None:
            waiting.errback(call.error)
        else:
            waiting.callback(call.result())

    call.when_done(wake)

    def too_late(_cancelled: object, seconds: float) -> NoReturn:
        raise call.too_late(seconds)

    return waiting if timeout is None else waiting.addTimeout(timeout, clock, too_late)


def follow(call: PendingCall[T], result: Deferred[T]) -> PendingCall[T]:
    """Answer the pending call when `result` fires; returns the call. Waiters of the call cannot cancel `result`."""
    result.addCallbacks(call.resolve, lambda failure: call.fail(failure.value))
    return call


class Wakeup:
    """An event that can be set repeatedly, for Deferreds. Each `set` wakes all current waiters, in an iteration of the
    reactor; if there are none, the next one.
    """

    __slots__ = ("_clock", "_is_set", "_listeners")

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self._listeners: list[Deferred[None]] = []
        self._is_set = False

    def set(self) -> None:
        if not self._is_set:
            self._is_set = True
            if self._listeners:
                self._clock.callLater(0, self._tell)

    def wait(self) -> Deferred[None]:
        if self._is_set and not self._listeners:
            self._is_set = False
            return succeed(None)
        self._listeners.append(Deferred(self._leave))
        return self._listeners[-1]

    def _tell(self) -> None:
        if not self._listeners:  # the waiter was cancelled: keep it for the next one
            return
        listeners, self._listeners, self._is_set = self._listeners, [], False
        for listener in listeners:
            if not listener.called:  # called: cancelled by a waiter woken earlier
                listener.callback(None)

    def _leave(self, listener: Deferred[None]) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)


@implementer(IHalfCloseableProtocol, IPushProducer)
class Transport(Session, Protocol):
    """Transport of a connection, from its cid to its end. `lost` is called with the error that ended it, or None."""

    transport: Any = None  # Twisted's TCP transport; None while dialling
    dialling: Deferred[Any]

    def __init__(
        self,
        driver: Driver,
        cid: int,
        role: Role,
        pump: AnyPump,
        lost: Callable[[int, TolliverError | None], None],
        clock: Any,
    ) -> None:
        super().__init__(driver, cid, role, pump)
        self._lost = lost
        self._clock = clock
        self._full = False  # Twisted's buffer is above its mark
        self._busy = False  # a write is in progress, or no more can follow
        self._second: socket.socket | None = None
        self._chunk = CHUNK

    # Called by the session and the driver.

    def write_soon(self) -> None:
        """Write what the machine has to send, until Twisted's buffer is above its mark."""
        if self._busy or self.transport is None:
            return
        self._busy = True
        while not (self._full or self.writing_over):
            output = self.next_output()
            if output:
                self.transport.write(output)
            elif output is None:
                self._shut_half()
            else:
                break
        self._busy = self.over
        if self.over:
            self.transport.unregisterProducer()
            self._clock.callLater(0, self.transport.loseConnection)

    def pause(self) -> None:
        self.transport.pauseProducing()

    def resume(self) -> None:
        self.transport.resumeProducing()

    def abort(self) -> None:
        if self.transport is None:
            self.dialling.cancel()
        else:
            self.transport.abortConnection()

    # Called by Twisted, as a protocol.

    def unreached(self, failure: Failure, remote: Remote) -> None:
        """Called when the dial has failed or was cancelled: reports the end of the connection."""
        error = unreached(remote, _of_the_system(failure))
        error.__cause__ = failure.value
        self._lost(self.cid, error)

    def connectionMade(self) -> None:
        self.transport.registerProducer(self, True)
        sock = self.transport.getHandle()
        try:
            if self._role is Role.CLIENT and not self._pump.wait:
                self._second = sock.dup()
                note(self._second)
            self.start(sock)
        except OSError as failure:  # the connection has ended already
            self._end(broken(failure))

    def dataReceived(self, data: bytes) -> None:
        began = thread_time() if self._driver.has_company else None
        self.receive(data)
        if len(data) >= LEAST:
            late = began is not None and thread_time() > began + IN_COMPANY
            self._chunk = self.transport.bufferSize = next_chunk(self._chunk, late)
        if self.over:
            self.write_soon()  # closes the connection if it is over
        if self._second is not None and self._pump.wait:
            self._drop_second()

    def readConnectionLost(self) -> None:
        self.dataReceived(b"")

    def writeConnectionLost(self) -> None:
        """Called by Twisted once our sending side is shut, as the machine has asked for; nothing is left to do."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._busy = True
        if not reason.check(ConnectionAborted):
            self._hear_the_rest()
            self.broken(cast(BaseException, reason.value))
        self._drop_second()
        self._lost(self.cid, self.error)

    # Called by Twisted, as a producer.

    def pauseProducing(self) -> None:
        self._full = True

    def resumeProducing(self) -> None:
        self._full = False
        self.write_soon()

    def stopProducing(self) -> None:
        """Does nothing: the connection is lost, and `connectionLost` follows."""

    # The end.

    def _shut_half(self) -> None:
        self.transport.loseWriteConnection()
        self.written()

    def _hear_the_rest(self) -> None:
        """Read from the duplicate descriptor what a failed write made Twisted drop, such as the peer's refusal
        (T-74)."""
        rest = b""
        if self._second is not None:
            with suppress(OSError):
                rest = self._second.recv(_REST)
        if rest:
            self.receive(rest)

    def _drop_second(self) -> None:
        if self._second is not None:
            self._second.close()
            self._second = None


def _of_the_system(failure: Failure) -> OSError:
    """The OSError that a failure of Twisted stands for."""
    error = failure.value
    if isinstance(error, OSError):
        return error
    text = failure.getErrorMessage()
    if failure.check(DialTooLong):
        return TimeoutError(text)
    number = getattr(error, "osError", None)
    return OSError(number, text) if isinstance(number, int) else OSError(text)


class Wires(Factory):
    """Protocol factory: returns the transport of a connection that Twisted has established."""

    noisy = False

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make

    def buildProtocol(self, addr: IAddress | None) -> Any:
        return self._make(addr)
