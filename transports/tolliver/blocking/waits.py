"""Waits of threads, and what ends them.

A thread that reads a stream's source waits no longer than that stream runs. The source is the application's, and so is
the thread's stack: a generator over a subscription, say. In the same way the main thread waits no longer when Ctrl-C
has come. All waits are for a lock that somebody releases; a thread knows what it works for, and that knows the lock.
"""

from __future__ import annotations

import threading
from _thread import LockType, allocate_lock
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Work:
    """Work of a thread, until that is over: one wait after the other."""

    def __init__(self) -> None:
        self.over: bool = False
        self._waits_for: LockType | None = None

    def end(self) -> None:
        """From any thread, whatever locks it holds, and from a signal handler."""
        self.over = True
        lock = self._waits_for
        if lock is not None:
            release(lock)

    def wait(self, lock: LockType, timeout: float) -> bool:
        self._waits_for = lock  # before `over` is looked at
        try:
            return not self.over and lock.acquire(timeout=timeout)
        finally:
            self._waits_for = None


class _Here(threading.local):
    work: Work | None = None


_here = _Here()


@contextmanager
def working(work: Work) -> Iterator[None]:
    """This thread does so."""
    _here.work = work
    try:
        yield
    finally:
        _here.work = None


def adopt(work: Work) -> None:
    """This thread does so for as long as it is there."""
    _here.work = work


def still_wanted() -> bool:
    """In a source: False once the stream that this thread reads it for is over. Elsewhere it is True.

    A source that waits for something of its own cannot be woken: let it wait with a timeout, ask this, and return.
    """
    work = _here.work
    return work is None or not work.over


def locked() -> LockType:
    """A lock to wait for."""
    lock = allocate_lock()
    lock.acquire()
    return lock


def release(lock: LockType) -> None:
    """Let the thread go on that waits for it. The second time does nothing."""
    with suppress(RuntimeError):
        lock.release()


def wait_for(lock: LockType, timeout: float | None = None) -> bool:
    """Until it is released. False: after `timeout` seconds, or as what this thread works for is over."""
    work = _here.work
    seconds = limited(timeout)
    return lock.acquire(timeout=seconds) if work is None else work.wait(lock, seconds)


def limited(timeout: float | None) -> float:
    """Seconds that the system's clocks can count; -1 where there is no end."""
    return -1.0 if timeout is None else min(max(timeout, 0.0), threading.TIMEOUT_MAX)
