"""Instances and their process: its end, and its forks.

An instance that was never left is closed when the interpreter ends. A forked child has none of its threads, so it
cannot live there (T-79): the child lets go of what it shares with the parent, and takes no lock, as the thread that
would release it is not there.
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
        """In a forked child: close what is shared with the parent, in a way that the parent does not notice."""


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
    """A thread of an instance; `fail` is called when `work` raises.

    Threads are daemons: an instance that was never left does not keep the interpreter from ending.
    """

    def run() -> None:
        try:
            work()
        except BaseException:
            log.exception("the thread tolliver %s has failed, and the instance with it: report this", name)
            fail()

    return threading.Thread(target=run, name=f"tolliver {name}", daemon=True)
