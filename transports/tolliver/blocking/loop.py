"""Selector loop for threads.

One thread at a time reads all sockets. The loop has a selector, calls that other threads leave (`soon`), and a few of
its own for later. Others wake its reader through a socket pair, and only when that sleeps: a thousand calls in one
round cost one byte.

It costs more to pass a message to another thread than to read it. So the thread of a handler borrows the sockets while
it waits, and reads them itself. The sockets' own thread steps back when it has woken such a thread, and takes them
again when nobody has had them for a moment: a handler may block.

Nothing can deadlock here. The baton, a lock, says who has the sockets; it is held for rounds alone, in which no code of
the application runs. Its holder may take the machine's lock, for a moment. The sockets' own thread is the only one that
waits for the baton, and holds no lock then; all others try, and go their way.
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

_LONGEST = 86400.0  # seconds: what a selector counts in milliseconds ends after 24 days
PAUSE = 0.001  # seconds for which a borrower may be away, and the sockets unread
LOOK = PAUSE / 2  # seconds after which a borrower with much to do looks at them
_STILL = 10  # pauses for which a borrower has waited: it is called back then when that has got something
_GATHERED = 0.0002  # seconds: callers that write more often than that leave it to whoever has the sockets
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Loop:
    """`tick` is called in each round; it returns the seconds until it wants to be called again, or None.

    Raises ConnectionLost where the system has no room for what it needs.
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
        self._due = 0.0  # when `tick` or a timer is
        self._woken = False
        self._asleep = False  # the reader waits
        self._busy = False  # or works on what has come
        self._stopped = False
        self._baton = threading.Lock()
        self._baton.acquire()  # for the sockets' own thread, which is still to begin
        self._borrowed = 0  # how often
        self._is_lent = False  # a borrower was woken: it is to have them next
        self._dozing = False  # their own thread, until a borrower is through
        self._alarm = threading.Lock()  # locked, but for the moment in which it goes off
        self._alarm.acquire()
        self._error: BaseException | None = None
        self._main = threading.main_thread().ident
        self._claimed = 0.0  # when a caller last had something to write
        self._has_read = False  # something came since a caller wrote

    # From any thread, and from a finalizer: without a lock.

    def wake(self) -> None:
        """Have another round."""
        self._woken = True
        self.nudge()

    def nudge(self) -> None:
        """Have the reader look whether it still has to wait."""
        if self._asleep:
            self._asleep = False
            with suppress(OSError):  # it is full, then the thread wakes; or closed, then nobody is to be woken
                self._far.send(b"\0")

    def soon(self, call: Callable[[], object]) -> None:
        self._calls.append(call)
        self.nudge()

    def lend(self) -> None:
        """A thread that borrows was woken, and will."""
        self._is_lent = True

    def attend(self) -> None:
        """Somebody waits for what only the sockets can bring: they must not be left alone now."""
        if not self._baton.locked():
            self._call_back()

    def _call_back(self) -> None:
        with suppress(RuntimeError):  # it went off already
            self._alarm.release()

    def stop(self) -> None:
        """`run` returns when this round is over."""
        self._stopped = True
        self._call_back()
        self.wake()

    # From any thread that holds the machine's lock.

    def claim(self) -> bool:
        """True if this thread may write at once: nobody else is about to, and it is an answer, or the first for a
        while.

        Never the main thread: Ctrl-C may end it between a write and the note of how much went out.
        """
        if self._woken and not self._asleep:  # a turn is coming
            return False
        last, self._claimed = self._claimed, monotonic()
        if self._busy or get_ident() == self._main or not (self._has_read or self._claimed > last + _GATHERED):
            return False
        self._has_read = False
        return True

    # From threads that hold no lock.

    def run(self) -> None:
        """The work of their own thread. Nobody has the sockets after it. Raises an error of any thread that had
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
        """Read the sockets until that is true. False: others have them, or are to have them."""
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
                sleep(0)  # the thread that was woken wants the interpreter

    def _stand_by(self) -> None:
        """Until no borrower has come for a moment."""
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
                self._dozing = True  # and only then look again
                if self._baton.locked():
                    self._alarm.acquire()
                still = 0

    # On the thread that holds the baton.

    def _read_until(self, is_over: Callable[[], object]) -> None:
        try:
            self._serve()
            while not self._stopped:
                self._asleep = True  # and only then look whether somebody called meanwhile
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
        """Time, and calls of others."""
        if self._woken or monotonic() >= self._due:
            self._woken = False
            wait = self._tick()
            self._due = monotonic() + (_LONGEST if wait is None else min(wait, _LONGEST))
            self._run_timers()
        for _ in range(len(self._calls)):
            self._calls.popleft()()

    def watch(self, sock: socket.socket, events: int, act: Callable[[int], object]) -> None:
        """Call `act(events)` whenever one of them is true; 0: no longer."""
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

    # When the thread is no more: after its end, or in a forked child.

    def close(self) -> None:
        """Close every socket that is watched. The second time does nothing."""
        for key in list((self._selector.get_map() or {}).values()):
            key.fileobj.close()  # type: ignore[union-attr]  # sockets are all that `watch` takes
        self._selector.close()
        self._far.close()
