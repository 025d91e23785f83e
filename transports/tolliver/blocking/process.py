"""Closing instances when their process ends, and in its forks.

An instance that is still open is closed when the interpreter ends. A forked child has none of its threads, so the
instance cannot run there (T-79): the child closes what it shares with the parent, without taking any lock, as the
thread that holds the lock does not exist in the child.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable
from typing import Protocol

from .interrupts import forget

log: logging.Logger = logging.getLogger("tolliver")


class Resident(Protocol):
    """An instance that runs in this process."""

    def close(self) -> None: ...

    def disown(self) -> None:
        """Close, in a forked child, what is shared with the parent, so that the parent is not affected."""


running: set[Resident] = set()


def _close_all() -> None:
    for resident in list(running):
        resident.close()


def _disown_all() -> None:
    for resident in running:
        resident.disown()
    running.clear()
    forget()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)


def thread_of(name: str, work: Callable[[], None], fail: Callable[[], None]) -> threading.Thread:
    """A daemon thread of an instance, called `name`; `fail` is called if `work` raises.

    An instance that was not closed must not keep the interpreter from ending, so its threads are daemons.
    """

    def run() -> None:
        try:
            work()
        except BaseException:
            log.exception("the thread tolliver %s has failed, and the instance with it: report this", name)
            fail()

    return threading.Thread(target=run, name=f"tolliver {name}", daemon=True)
