"""Waits of threads that can be ended from another thread.

Two kinds of waits must be cut short: that of a thread reading a stream's source, when the stream has ended, and that of
the main thread, on Ctrl-C. The source is application code, and may itself wait on another subscription, say. So each
such thread has a `Work`, which knows the lock that the thread waits for; ending the work releases that lock.
"""

from __future__ import annotations

import math
import threading
import time
from _thread import LockType, allocate_lock
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tolliver_proto.node import check_timeout


class Work:
    """Work of one thread that another one may end, with at most one wait at a time."""

    def __init__(self) -> None:
        self.over: bool = False
        self._waits_for: LockType | None = None

    def end(self) -> None:
        """End the work and its current wait. May be called from any thread, with any locks held, and from a signal
        handler."""
        self.over = True
        lock = self._waits_for
        if lock is not None:
            release(lock)

    def wait(self, lock: LockType, timeout: float) -> bool:
        self._waits_for = lock  # set before `over` is checked, so that `end` is not missed
        try:
            return not self.over and lock.acquire(timeout=timeout)
        finally:
            self._waits_for = None


class _Here(threading.local):
    work: Work | None = None


_here = _Here()


@contextmanager
def working(work: Work) -> Iterator[None]:
    """Context manager: inside it the waits of the current thread are part of this work, so that ending it ends them."""
    _here.work = work
    try:
        yield
    finally:
        _here.work = None


def adopt(work: Work) -> None:
    """Make the waits of the current thread part of this work from now on, so that ending the work ends them."""
    _here.work = work


def still_wanted() -> bool:
    """For a source: False once the stream that the current thread reads it for is over. True on other threads.

    A source's wait for something of its own cannot be ended from here: give it a timeout, check this, and return.
    """
    work = _here.work
    return work is None or not work.over


def locked() -> LockType:
    """A new lock that is held already, for `wait_for` to wait for its release."""
    lock = allocate_lock()
    lock.acquire()
    return lock


def release(lock: LockType) -> None:
    """Release the lock, and so end the wait for it. A second call does nothing."""
    with suppress(RuntimeError):
        lock.release()


def wait_for(lock: LockType, timeout: float | None = None) -> bool:
    """Wait for the lock's release. False after `timeout` seconds, or when the current thread's work has ended."""
    work = _here.work
    seconds = limited(timeout)
    return lock.acquire(timeout=seconds) if work is None else work.wait(lock, seconds)


def end_of(timeout: float | None) -> float:
    """The monotonic time at which a wait of `timeout` seconds ends; infinity for None. Raises TypeError, ValueError."""
    if timeout is None:
        return math.inf
    check_timeout(timeout)
    return time.monotonic() + timeout


def limited(timeout: float | None) -> float:
    """The timeout in seconds, within the range of `Lock.acquire`; -1 for None."""
    return -1.0 if timeout is None else min(max(timeout, 0.0), threading.TIMEOUT_MAX)
