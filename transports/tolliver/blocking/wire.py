"""Transport of one connection on the selector loop.

The driver's calls, such as `transmit`, come from any thread that holds the machine's lock. The first write for a while,
and an answer, is written at once, under that lock, as no write here waits. All others are left to the thread that
serves the sockets, which writes everything together. `busy` means that a write is in progress or scheduled. The serving
thread holds the lock while bytes go into or come out of the machine, and never during a system call on the socket.
"""

from __future__ import annotations

import socket
from _thread import LockType
from collections.abc import Callable
from time import monotonic
from typing import ClassVar, Protocol

from tolliver_proto import Role, TolliverError

from .._driver.driver import Driver
from .._driver.lookups import Addresses
from .._driver.session import broken
from .._driver.socket_session import SocketSession
from .._driver.sockets import Address, unreached
from .._options.instance import Remote
from .._tls.pump import AnyPump
from .dialing import Dialling, resolve
from .interrupts import StepLock, undisturbed
from .loop import LOOK, PAUSE, READ, WRITE, Loop
from .waits import locked, release, still_wanted, wait_for


class Wakeup:
    """Wakes the threads that wait for one condition, so that they check it again. `set` needs the machine's lock."""

    def __init__(self, lock: StepLock) -> None:
        self._lock = lock
        self._waiters: list[LockType] = []

    def set(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            release(waiter)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, or `timeout` seconds. Call it with the lock held once. False if the thread must stop
        waiting, because its work has ended or Ctrl-C came."""
        waiter = locked()
        self._waiters.append(waiter)
        with undisturbed:
            self._lock.release()
            try:
                wait_for(waiter, timeout)
            except BaseException as error:  # raised by a signal handler
                self._lock.harmless = error
                raise
            finally:
                self._lock.acquire()
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        return still_wanted()


class BorrowerWakeup(Wakeup):
    """The wakeup of one thread that serves the sockets while it waits (see `loop`)."""

    def __init__(self, lock: StepLock, loop: Loop) -> None:
        super().__init__(lock)
        self._loop = loop
        self._borrowing = False
        self._waiting = False
        self._looked = 0.0
        self.lends = True
        """True if the thread serves the sockets when woken: its last handler call was short."""

    def set(self) -> None:
        if self._borrowing:
            self._loop.nudge()
        elif self._waiting:  # else it will check before it waits
            super().set()
            if self.lends:
                self._loop.lend()

    def wait_for_it(self, is_there: Callable[[], object]) -> None:
        """Wait until the condition is true, or it was set. Call it with the lock held once."""
        if (self.lends and self._borrow(is_there)) or is_there():
            return
        self._waiting = True
        try:
            self.wait()
        finally:
            self._waiting = False

    def look(self) -> None:
        """Serve the sockets for a moment if no thread does, as this one is busy with messages. Call it with the lock
        held once."""
        if self.lends and monotonic() > self._looked + LOOK:
            self._borrow(lambda: True)

    def _borrow(self, is_there: Callable[[], object]) -> bool:
        self._borrowing = True
        self._lock.release()
        try:
            return self._loop.borrow(is_there)
        finally:
            self._lock.acquire()
            self._borrowing = False
            self._looked = monotonic()


class TransportOwner(Protocol):
    """The endpoint of a connection, as its transport calls it."""

    def may_write(self) -> bool:
        """True if the current thread, which holds the lock, may write to sockets at once."""

    def ended(self, cid: int, error: TolliverError | None) -> None:
        """Called once, when the socket of the connection `cid` has been closed; `error` is None after an orderly
        end.
        """


class Transport(SocketSession):
    """Transport of one connection for an endpoint with threads: owns its socket, and moves its bytes."""

    alone: ClassVar[float] = PAUSE
    busy: bool
    paused: bool

    def __init__(
        self,
        owner: TransportOwner,
        driver: Driver,
        cid: int,
        role: Role,
        pump: AnyPump,
        loop: Loop,
        lock: StepLock,
    ) -> None:
        super().__init__(driver, cid, role, pump, lock)
        self._owner = owner
        self._loop = loop
        self._sock: socket.socket | None = None
        self._dialling: Dialling | None = None
        self._asked: Addresses | None = None
        self._closed = False
        self._watched = 0
        self._left = False  # writing is left to the serving thread

    # May be called from any thread that holds the lock.

    def write_soon(self) -> None:
        if self.busy:
            return
        self.busy = True
        if self._sock is not None and self._owner.may_write():
            self.write(self._sock)
        if self.busy or self.writing_over:
            self._left = True
            self._loop.soon(self._look)

    def pause(self) -> None:
        self.paused = True
        self._loop.soon(self._see)

    def resume(self) -> None:
        self.paused = False
        self._loop.soon(self._see)

    def abort(self) -> None:
        self._loop.soon(lambda: self.end(self.error))

    # For the serving thread.

    def dial(self, remote: Remote) -> None:
        def resolved(addresses: list[Address], error: OSError | None) -> None:
            if error is not None:
                connected(None, error)
            elif not self._closed:
                dialling = Dialling(self._loop, addresses, connected)
                self._dialling = None if self._closed else dialling  # it may have failed within the call

        def connected(sock: socket.socket | None, error: OSError | None) -> None:
            if sock is None:
                self.end(unreached(remote, error or OSError("there is no socket")))
            else:
                self.begin(sock)

        self._asked = resolve(self._loop, remote.host, remote.port, resolved)

    def begin(self, sock: socket.socket) -> None:
        """Start on a connected, non-blocking socket."""
        try:
            with self._lock:  # no thread may write before `start` is done
                self._sock, self._dialling = sock, None
                self.start(sock)
                self.write_soon()
        except OSError as failure:
            self.end(broken(failure))
        else:
            self._look()

    def end(self, error: TolliverError | None) -> None:
        """Close the socket at once, even with unsent bytes, because of `error` (None: in order). A second call does
        nothing.
        """
        if self._closed:
            return
        self._closed = True
        if self._asked is not None:
            self._asked.cancel()
        if self._dialling is not None:
            self._dialling.close()
            self._dialling = None  # breaks a reference cycle
        with self._lock:  # so that no thread is writing
            sock, self._sock = self._sock, None
            if sock is not None:
                self._loop.close_socket(sock)
        self._owner.ended(self.cid, error)

    def disown(self) -> None:
        """Close the socket in a forked child, without ending the parent's connection."""
        if self._sock is not None:
            self._sock.close()

    def _ready(self, events: int) -> None:
        assert self._sock is not None, "whoever closes it takes it out of the selector"
        if events & READ:
            self.read(self._sock)
        if self._left:
            self._write()
        self._see()

    def _look(self) -> None:
        if self._sock is None:
            with self._lock:
                self.busy = self._left = False  # `begin` checks for output again
            return
        if self._left:  # else a caller may be writing
            self._write()
        self._see()

    def _write(self) -> None:
        assert self._sock is not None
        self.write(self._sock)
        with self._lock:  # a caller may have left more output since
            self._left = self.busy

    def _see(self) -> None:
        """Close the connection if it has ended; else watch its socket for what it can do next."""
        if self._sock is None:
            return
        if self.over:
            self.end(self.error)
            return
        reading = READ if not (self.paused or self.reading_over) else 0
        writing = self._left and self.busy
        watched = reading | (WRITE if writing and self.rest else 0)
        if watched != self._watched:
            self._watched = watched
            self._loop.watch(self._sock, watched, self._ready)
        if writing and not self.rest:
            self._loop.soon(self._look)
