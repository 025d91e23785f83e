"""Instances and their process: its end, and its forks.

The idea: an instance that was never left is closed when the interpreter ends, and a fork copies a process in which
nobody is in the middle of anything. The child has none of the threads, so an instance cannot live there (T-79).
"""

from __future__ import annotations

import atexit
import os
import threading
from typing import Protocol


class Resident(Protocol):
    """An instance that runs in this process."""

    @property
    def machine_lock(self) -> threading.RLock: ...

    def close(self) -> None: ...

    def disown(self) -> None:
        """In a forked child: let go of what is shared with the parent, in a way that the parent does not notice."""


running: set[Resident] = set()
_held: list[Resident] = []


def _close_all() -> None:
    for resident in list(running):
        resident.close()


def _before_fork() -> None:
    held = sorted(running, key=id)
    for resident in held:
        resident.machine_lock.acquire()
    _held.extend(held)


def _after_fork() -> None:
    while _held:
        _held.pop().machine_lock.release()


def _disown_all() -> None:
    _after_fork()
    for resident in running:
        resident.disown()
    running.clear()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_disown_all)
