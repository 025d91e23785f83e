"""A session and its non-blocking socket, without the waiting.

`read` and `write` do what the system allows now and return; when they may be called again is the loop's business.
`busy` says that the writing side is at work already: who has something to say then need not wake it.
"""

from __future__ import annotations

import socket
from contextlib import AbstractContextManager, nullcontext, suppress
from time import thread_time

from tolliver_proto import Role

from .._tls.pump import AnyPump
from .session import Session, SessionDriver
from .sockets import NOT_YET

CHUNK, LEAST = 65536, 4096  # bytes that are read at once: less where they take long
TURNS = 16  # reads, or writes, that one connection does before the others have theirs
SLICE = 0.01  # CPU seconds: tiny frames take a hundred times as long as large ones
IN_COMPANY = 0.0001  # CPU seconds of one read where there are other connections, which must not wait for long


def next_chunk(last: int, late: bool) -> int:
    """Bytes to read at once after so many, which took long or did not."""
    return max(LEAST, last // 2) if late else min(CHUNK, last * 2)


class SocketSession(Session):
    """`lock` is held while bytes go into the machine or come out of it, and never while the system takes them."""

    alone = SLICE
    """CPU seconds that are spent on what has come, until others have their turn, where there is no other connection."""

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
        """Nothing is to be read for now."""
        self.rest: memoryview[int] = memoryview(b"")
        """Bytes that the system has not taken yet: call `write` when it can."""
        self._chunk = CHUNK
        self._lock = lock or nullcontext()
        self._is_shared = lock is not None  # else one thread has it all, and each message passes by the lock

    def read(self, sock: socket.socket, *, to_the_end: bool = False) -> bool:
        """Read what has come, and as much as is fair. Returns True if there may be more now.

        A chunk that is not full is the last one, as the loop says when more comes; a loop that may not say it again
        wants to read `to_the_end`.
        """
        turns, share = (1, IN_COMPANY) if self._driver.has_company else (TURNS, self.alone)
        end = 0.0  # small pieces are not worth the look at the clock
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
        """As much as the system takes, and as is fair. There is no more to say if it is not `busy` afterwards."""
        for _ in range(TURNS):
            if not self.rest and not self._take(sock):
                return
            try:
                self.rest = self.rest[sock.send(self.rest) :]
            except NOT_YET:
                return
            except OSError:
                self.rest = memoryview(b"")
                self.written()  # only the reading side knows why (T-74)

    def _take(self, sock: socket.socket) -> bool:
        """True if there is something to write. When all is said, our half is shut."""
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
        self.busy = bool(output)  # from here on whoever has something says so
        return output
