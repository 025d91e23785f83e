"""Transport of one connection on Twisted, and Deferreds of pending calls.

Twisted owns the socket and what is still to be written to it, the session all that is above TCP. So Twisted
is given ciphertext until it has more than its mark, and the rest stays with the node, which knows what to do about a
peer that does not read.

The theory, for TCP in Twisted 23.10 to 26:

- A write that fails closes the socket, and what had come and was not read is gone: the peer's refusal of our
  certificate, perhaps (T-74). So a client has a second descriptor until it has heard a byte, and reads the rest.
- A transport whose half is shut ends within the call that closes it, in the middle of whatever led to that call. So it
  is closed in the next turn.
- A transport that has paused its producer waits for that before it is closed: so it has none any more by then.

Each caller that waits gets a Deferred of its own: to cancel it, or to change its result, is nobody else's business.
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
from .._driver.pending import PendingCall
from .._driver.session import Session, broken
from .._driver.socket_session import CHUNK, IN_COMPANY, LEAST, next_chunk
from .._driver.sockets import unreached
from .._options.instance import Remote
from .._tls.pump import AnyPump

T = TypeVar("T")
_REST = 65536  # bytes: more than any peer says before it has heard from us


def wait_for(call: PendingCall[T], clock: Any, timeout: float | None = None) -> Deferred[T]:
    """A new Deferred of the answer. After `timeout` seconds it fails with TimeoutError; what was asked for goes on."""
    waiting: Deferred[T] = Deferred(lambda _: call.forget(wake))

    def wake() -> None:
        if waiting.called:  # cancelled by one that was woken before
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
    """Answer the call when `result` fires, which nobody can cancel any more."""
    result.addCallbacks(call.resolve, lambda failure: call.fail(failure.value))
    return call


class Wakeup:
    """An event that can be set again and again. Each time wakes all that wait, in a turn of the reactor's own, or
    else the next one that does."""

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
        if not self._listeners:  # the listener was cancelled: the next one hears it
            return
        listeners, self._listeners, self._is_set = self._listeners, [], False
        for listener in listeners:
            if not listener.called:  # cancelled by one that was woken before
                listener.callback(None)

    def _leave(self, listener: Deferred[None]) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)


@implementer(IHalfCloseableProtocol, IPushProducer)
class Transport(Session, Protocol):
    """A connection of the instance, from its cid to its end. `lost` is told why it ended."""

    transport: Any = None  # Twisted's, over TCP; None while it is dialled
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
        self._full = False  # Twisted has more than it can pass on now
        self._busy = False  # it is being written to, or never will be again
        self._second: socket.socket | None = None
        self._chunk = CHUNK

    # Called by the session and the driver.

    def write_soon(self) -> None:
        """At once, until Twisted has enough."""
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

    # Reported by Twisted of the connection.

    def unreached(self, failure: Failure, remote: Remote) -> None:
        """The dial failed, or was cancelled."""
        error = unreached(remote, _of_the_system(failure))
        error.__cause__ = failure.value
        self._lost(self.cid, error)

    def connectionMade(self) -> None:
        self.transport.registerProducer(self, True)
        sock = self.transport.getHandle()
        try:
            if self._role is Role.CLIENT and not self._pump.wait:
                self._second = sock.dup()
            self.start(sock)
        except OSError as failure:  # it is gone already
            self._end(broken(failure))

    def dataReceived(self, data: bytes) -> None:
        began = thread_time() if self._driver.has_company else None
        self.receive(data)
        if len(data) >= LEAST:
            late = began is not None and thread_time() > began + IN_COMPANY
            self._chunk = self.transport.bufferSize = next_chunk(self._chunk, late)
        if self.over:
            self.write_soon()  # which closes it
        if self._second is not None and self._pump.wait:
            self._drop_second()

    def readConnectionLost(self) -> None:
        self.dataReceived(b"")

    def writeConnectionLost(self) -> None:
        """Our half is shut."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._busy = True
        if not reason.check(ConnectionAborted):
            self._hear_the_rest()
            self.broken(cast(BaseException, reason.value))
        self._drop_second()
        self._lost(self.cid, self.error)

    # Asked by Twisted of a producer.

    def pauseProducing(self) -> None:
        self._full = True

    def resumeProducing(self) -> None:
        self._full = False
        self.write_soon()

    def stopProducing(self) -> None:
        """The connection is lost: `connectionLost` follows."""

    # The end.

    def _shut_half(self) -> None:
        self.transport.loseWriteConnection()
        self.written()

    def _hear_the_rest(self) -> None:
        """A write that failed has closed the socket, with what had come and was not read: a refusal, perhaps (T-74)."""
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
    """Python's own error for one of Twisted's."""
    error = failure.value
    if isinstance(error, OSError):
        return error
    text = failure.getErrorMessage()
    if failure.check(DialTooLong):
        return TimeoutError(text)
    number = getattr(error, "osError", None)
    return OSError(number, text) if isinstance(number, int) else OSError(text)


class Wires(Factory):
    """Protocol factory: Twisted asks it for the transport of each connection that stands."""

    noisy = False

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make

    def buildProtocol(self, addr: IAddress | None) -> Any:
        return self._make(addr)
