"""A session with its non-blocking socket, without the waiting.

`read` and `write` move as many bytes as the system takes now and return; the loop decides when to call them again.
While `busy` is True a write is in progress or scheduled, and the loop need not be asked for another one.
"""

from __future__ import annotations

import socket
from contextlib import AbstractContextManager, nullcontext, suppress
from time import thread_time
from typing import ClassVar

from tolliver_proto import Role
from tolliver_proto._common.compiling import mypyc_attr

from .._tls.pump import AnyPump
from .session import Session, SessionDriver
from .sockets import NOT_YET

CHUNK, LEAST = 65536, 4096  # bytes of one read: adapted downwards when they take long to process
TURNS = 16  # reads, or writes, of one connection before others get their turn
SLICE = 0.01  # CPU seconds of one turn: a read full of tiny frames takes 100 times as long as one of large frames
IN_COMPANY = 0.0001  # CPU seconds of one turn when there are other connections


def next_chunk(last: int, late: bool) -> int:
    """Size of the next read in bytes: half of `last`, the size of the last one, if that took too long (`late`), else
    double.
    """
    return max(LEAST, last // 2) if late else min(CHUNK, last * 2)


@mypyc_attr(allow_interpreted_subclasses=True)
class SocketSession(Session):
    """A session that reads and writes a socket.

    `lock` is held while bytes go into or come out of the machine, and never during a system call on the socket.
    """

    alone: ClassVar[float] = SLICE
    """CPU seconds of one turn of reading when there is no other connection."""

    def __init__(
        self,
        driver: SessionDriver,
        cid: int,
        role: Role,
        pump: AnyPump,
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        super().__init__(driver, cid, role, pump)
        self.busy: bool = False
        self.paused: bool = False
        """True while nothing is to be read."""
        self.rest: memoryview[int] = memoryview(b"")
        """Bytes that the system has not accepted yet: call `write` when the socket is writable."""
        self._chunk = CHUNK
        self._lock = lock or nullcontext()
        self._is_shared = lock is not None  # False: a single thread, where taking a lock is needless

    def read(self, sock: socket.socket, *, to_the_end: bool = False) -> bool:
        """Read from the socket for one fair turn. Returns True if there may be more to read now.

        A read that returns less than asked for is taken as the last: the loop reports when more arrives. A loop that
        may not report again passes `to_the_end`.
        """
        turns, share = (1, IN_COMPANY) if self._driver.has_company else (TURNS, self.alone)
        end = 0.0  # 0.0 until a large read: for small ones the clock is not asked
        for _ in range(turns):
            size = self._chunk
            try:
                ciphertext = sock.recv(size)
            except NOT_YET:
                return False
            except OSError as failure:
                with self._lock:
                    self.broken(failure)
                return False
            count = len(ciphertext)
            if count >= LEAST and not end:
                end = thread_time() + share
            if not self._is_shared:
                self.receive(ciphertext)
            else:
                with self._lock:
                    self.receive(ciphertext)
            late = bool(end) and self._is_late(end)
            if self.paused or self.reading_over or (count < size and not (to_the_end or late)):
                return False
            if late:
                break
        return True

    def _is_late(self, end: float) -> bool:
        late = thread_time() > end
        self._chunk = next_chunk(self._chunk, late)
        return late

    def write(self, sock: socket.socket) -> None:
        """Write as much as the system takes, for one fair turn. Afterwards `busy` is False if nothing is left to
        write."""
        for _ in range(TURNS):
            if not self.rest and not self._take(sock):
                return
            try:
                sent = sock.send(self.rest)
                self.rest = self.rest[sent:]
            except NOT_YET:
                return
            except OSError:
                self.rest = memoryview(b"")
                self.written()  # the reading side finds the reason (T-74)

    def _take(self, sock: socket.socket) -> bool:
        """Fetch the next output to write; False if there is none. Shuts down the socket's sending side at the end of
        output.
        """
        if not self._is_shared:
            output = self._next()
        else:
            with self._lock:
                output = self._next()
        if output is None and not self.writing_over:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_WR)
            self.written()
        return bool(output)

    def _next(self) -> bytes | None:
        output = self.next_output()
        self.rest = memoryview(output or b"")
        self.busy = bool(output)  # once False, new output must arrange a write
        return output
