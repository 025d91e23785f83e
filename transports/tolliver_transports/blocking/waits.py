"""Waits of threads for a wakeup.

A thread that reads a stream's source waits no longer than that stream runs. The source is the application's, and so is
the thread's stack: a generator over a subscription, say. The wait itself ends, as no other thread can interrupt it; it
knows for which stream its thread works.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol

from .._driver.endpoint import Closable, Closing
from .wire import Wakeup


class WakeupOwner(Protocol):
    """Core whose lock the wakeup is a condition of."""

    def abandon(self, dropped: Closable) -> None: ...


class Work:
    """Work for a stream, until that is over: in a thread, one wait after the other."""

    def __init__(self) -> None:
        self.over = False
        self._wake: Callable[[], None] | None = None

    def end(self) -> None:
        """From any thread, whatever locks it holds: the wakeup is set in a turn of its owner's."""
        self.over = True
        wake = self._wake
        if wake is not None:
            wake()

    @contextmanager
    def waiting(self, owner: WakeupOwner, wakeup: Wakeup) -> Iterator[None]:
        self._wake = partial(owner.abandon, Closing(wakeup.set))  # before `over` is looked at
        try:
            yield
        finally:
            self._wake = None


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


def still_wanted() -> bool:
    """In a source: False once the stream that this thread reads it for is over. Elsewhere it is True.

    A source that waits for something of its own cannot be woken: let it wait with a timeout, ask this, and return.
    """
    work = _here.work
    return work is None or not work.over


def wait(owner: WakeupOwner, wakeup: Wakeup, timeout: float | None) -> bool:
    """Until the wakeup is set, or for `timeout` seconds, under its lock. False: what this thread works for is over."""
    work = _here.work
    if work is None:
        wakeup.wait(timeout)
        return True
    with work.waiting(owner, wakeup):
        if not work.over:
            wakeup.wait(timeout)
    return not work.over
