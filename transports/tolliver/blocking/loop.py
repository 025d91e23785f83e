"""Selector loop for threads: one thread at a time serves all sockets.

The loop has a selector, functions to call that other threads put (`soon`), and timers. Other threads wake it through a
socket pair, and only if it sleeps in the selector: a thousand calls in one round cost one byte.

Passing a message to another thread costs more than reading it. So a handler's thread, while it waits for a message,
serves the sockets itself: it "borrows" them. The loop's own thread stops serving once it has woken such a thread, and
takes over again when no thread has served the sockets for PAUSE seconds, as a handler may block.

Why there is no deadlock: the right to serve the sockets is a lock, the baton. It is held only for rounds of the loop,
in which no application code runs. Its holder may take the machine's lock, briefly. Only the loop's own thread waits for
the baton, and holds no other lock then; all other threads try, and give up at once.
"""

from __future__ import annotations

import heapq
import itertools
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident
from time import monotonic, sleep

from tolliver_proto import ConnectionLost

from .._driver.sockets import MORE_FILES

_LONGEST = 86400.0  # seconds: a selector's timeout in milliseconds overflows after 24 days
PAUSE = 0.001  # seconds that the sockets may stay unserved while a borrower is busy
LOOK = PAUSE / 2  # seconds after which a busy borrower serves them between two messages
_STILL = 10  # pauses of one borrower's wait, after which the own thread sleeps until that ends
_GATHERED = 0.0002  # seconds: callers that write more often leave writing to the loop
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Loop:
    """The selector loop of one endpoint: watches its sockets, in a thread of its own or in a thread that waits for an
    answer.

    `tick` is called when the loop was woken or its time has come; it returns seconds until its next call, or None.
    Raises ConnectionLost if the system has no file descriptors left.
    """

    def __init__(self, tick: Callable[[], float | None]) -> None:
        self._tick = tick
        try:
            self._selector = selectors.DefaultSelector()
            near, self._far = socket.socketpair()
        except OSError as error:
            raise ConnectionLost(f"the thread of the sockets cannot begin: {error}. {MORE_FILES}") from error
        for end in (near, self._far):
            end.setblocking(False)
        self._near = near
        self._selector.register(near, READ)
        self._calls: deque[Callable[[], object]] = deque()
        self._timers: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._due = 0.0  # monotonic seconds of the next `tick` or timer
        self._woken = False
        self._asleep = False  # the serving thread waits in the selector
        self._busy = False  # the serving thread processes input
        self._stopped = False
        self._baton = threading.Lock()
        self._baton.acquire()  # on behalf of the loop's own thread, until that runs
        self._borrowed = 0  # number of borrowings so far
        self._is_lent = False  # a borrower was woken, and is to serve the sockets next
        self._dozing = False  # the own thread sleeps until a borrower ends
        self._alarm = threading.Lock()  # released to wake the own thread
        self._alarm.acquire()
        self._error: BaseException | None = None
        self._main = threading.main_thread().ident
        self._claimed = 0.0  # monotonic seconds of the last `claim`
        self._has_read = False  # input has arrived since the last granted `claim`

    # May be called from any thread and from finalizers, without a lock.

    def wake(self) -> None:
        """Have the loop make another round soon, in which it calls `tick`."""
        self._woken = True
        self.nudge()

    def nudge(self) -> None:
        """End the sleep of the serving thread, so that it checks what it waits for."""
        if self._asleep:
            self._asleep = False
            with suppress(OSError):  # buffer full: it wakes anyway; closed: no thread to wake
                self._far.send(b"\0")

    def soon(self, call: Callable[[], object]) -> None:
        self._calls.append(call)
        self.nudge()

    def lend(self) -> None:
        """Note that a thread which waits for an answer was woken, and will serve the sockets meanwhile."""
        self._is_lent = True

    def attend(self) -> None:
        """Have the own thread serve the sockets if no thread does: a caller waits for what arrives there."""
        if not self._baton.locked():
            self._call_back()

    def _call_back(self) -> None:
        with suppress(RuntimeError):  # released already
            self._alarm.release()

    def stop(self) -> None:
        """Make `run` return at the end of this round."""
        self._stopped = True
        self._call_back()
        self.wake()

    # May be called from any thread that holds the machine's lock.

    def claim(self) -> bool:
        """True if the current thread may write to sockets at once.

        It may if no other write is due, and this is an answer to input, or the first write for a while. The main thread
        never may: Ctrl-C could interrupt it between a write and the note of the bytes written.
        """
        if self._woken and not self._asleep:  # a round is about to run
            return False
        last, self._claimed = self._claimed, monotonic()
        if self._busy or get_ident() == self._main or not (self._has_read or self._claimed > last + _GATHERED):
            return False
        self._has_read = False
        return True

    # For threads that hold no lock.

    def run(self) -> None:
        """Serve the sockets until `stop`; the work of the loop's own thread. Raises the error of any thread that served
        them."""
        while not self._stopped:
            self._is_lent = False
            self._read_until(lambda: self._is_lent)
            if not self._stopped:
                self._baton.release()
                self._stand_by()
                self._baton.acquire()
        if self._error is not None:
            raise self._error

    def borrow(self, until: Callable[[], object]) -> bool:
        """Serve the sockets on this thread until `until()` is true. False if another thread serves them, or is to."""
        if not self._baton.acquire(blocking=False):
            return False
        self._borrowed += 1
        self._is_lent = False
        try:
            if not self._stopped:
                self._read_until(lambda: self._is_lent or until())
            return not (self._stopped or self._is_lent)
        except BaseException as error:
            self._error = error
            self.stop()
            return False
        finally:
            self._baton.release()
            if self._dozing:
                self._dozing = False
                self._call_back()
            if self._is_lent:
                sleep(0)  # lets the woken thread have the interpreter

    def _stand_by(self) -> None:
        """Wait, on the loop's own thread, until no other thread has served the sockets for PAUSE seconds."""
        still = 0
        while True:
            seen = self._borrowed
            if self._alarm.acquire(timeout=PAUSE) or self._stopped:
                return
            if seen != self._borrowed:
                still = 0
            elif not self._baton.locked():
                return
            elif (still := still + 1) > _STILL:
                self._dozing = True  # set before the check, so that its end is not missed
                if self._baton.locked():
                    self._alarm.acquire()
                still = 0

    # For the thread that holds the baton.

    def _read_until(self, is_over: Callable[[], object]) -> None:
        try:
            self._serve()
            while not self._stopped:
                self._asleep = True  # set before the check, so that no call is missed
                is_due = self._woken or self._calls or is_over()
                ready = self._selector.select(0 if is_due else self._due - monotonic())
                self._asleep = False
                self._busy = True
                for key, events in ready:
                    if key.data is None:
                        self._near.recv(4096)
                    else:
                        self._has_read = True
                        key.data(events)
                self._serve()
                self._busy = False
                if is_over():
                    return
        finally:
            self._asleep = self._busy = False

    def _serve(self) -> None:
        """Run `tick` and timers if due, and the functions put by other threads."""
        if self._woken or monotonic() >= self._due:
            self._woken = False
            wait = self._tick()
            self._due = monotonic() + (_LONGEST if wait is None else min(wait, _LONGEST))
            self._run_timers()
        for _ in range(len(self._calls)):
            self._calls.popleft()()

    def watch(self, sock: socket.socket, events: int, act: Callable[[int], object]) -> None:
        """Call `act(events)` whenever one of the selector events is ready. `events=0` ends this."""
        key = self._selector.get_map().get(sock)
        if not events:
            self.ignore(sock)
        elif key is None:
            self._selector.register(sock, events, act)
        elif events != key.events:
            self._selector.modify(sock, events, act)

    def ignore(self, sock: socket.socket) -> None:
        if sock in self._selector.get_map():
            self._selector.unregister(sock)

    def close_socket(self, sock: socket.socket) -> None:
        self.ignore(sock)
        sock.close()

    def later(self, delay: float, call: Callable[[], object]) -> None:
        due = monotonic() + delay
        heapq.heappush(self._timers, (due, next(self._numbers), call))
        self._due = min(self._due, due)

    def _run_timers(self) -> None:
        now = monotonic()
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2]()
        if self._timers:
            self._due = min(self._due, self._timers[0][0])

    # After the own thread has ended, or in a forked child.

    def close(self) -> None:
        """Close every watched socket. A second call does nothing."""
        for key in list((self._selector.get_map() or {}).values()):
            key.fileobj.close()  # type: ignore[union-attr]  # sockets are all that `watch` takes
        self._selector.close()
        self._far.close()
