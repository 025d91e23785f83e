"""Instances and their process: its end, and its forks.

The idea: an instance that was never left is closed when the interpreter ends. A forked child has none of its threads,
so it cannot live there (T-79): the child lets go of what it shares with the parent, and takes no lock, as the thread
that would release it is not there.
"""

from __future__ import annotations

import atexit
import os
from typing import Protocol


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


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)
