"""Openings that are held up in their midst, by a real lock, and systems without threads."""

from __future__ import annotations

import gc
import linecache
import os
import sqlite3
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Self

import tolliver

_ADAPTERS = Path(tolliver.__path__[0])


class Writer:
    """Another program that writes into a database: who wants to do so, too, waits for it, for a second at most."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.execute("BEGIN IMMEDIATE")

    def let_go(self) -> None:
        self._connection.rollback()


@contextmanager
def written_into(database: Path) -> Iterator[Writer]:
    with closing(sqlite3.connect(database, isolation_level=None, check_same_thread=False)) as connection:
        yield Writer(connection)


class Opening:
    """The next opening of a database that is closed. The process that made the file beside it has our lock (T-79), or
    will have it whatever becomes of who asked for that."""

    def __init__(self, database: Path) -> None:
        self._lock_file = database.with_name(f"{database.name}.lock")
        self._lock_file.unlink()

    def begun(self) -> bool:
        return self._lock_file.exists()


def is_free(database: Path) -> bool:
    """Nobody has it open."""
    import fcntl  # POSIX alone has it

    with database.with_name(f"{database.name}.lock").open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@contextmanager
def no_more_threads() -> Iterator[None]:
    """Meanwhile the system has no room for another thread."""
    size = threading.stack_size(1 << 47)
    try:
        yield
    finally:
        threading.stack_size(size)


@contextmanager
def few_descriptors(free: int) -> Iterator[None]:
    """Meanwhile this process may have so many more."""
    import resource  # POSIX alone has it

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/dev/fd"))) + 1
    with ExitStack() as ending:
        ending.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, limits[1]))
        with suppress(OSError):
            while True:
                ending.enter_context(open(os.devnull))
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + free, limits[1]))
        yield


class Stop(BaseException):
    """As Ctrl-C."""


class Interruption:
    """Raises Stop as the line with that number begins, of those that a thread runs in these modules of the adapters.

    Not in `__enter__` and its like, behind their call of `open`: nobody was given the block yet, and Python itself has
    no place for an exception there. Nor in what the garbage collector ends meanwhile, of other tests.
    """

    def __init__(self, number: int, modules: Iterable[str]) -> None:
        self.happened = False
        self._left = number
        self._files = {str(_ADAPTERS / name) for name in modules}

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        gc.collect()
        gc.disable()
        sys.settrace(self._trace)
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: object, _trace: object) -> bool:
        sys.settrace(self._before)
        gc.enable()
        return self.happened and kind is Stop

    def _trace(self, frame: FrameType, event: str, _argument: Any) -> Any:
        code = frame.f_code
        if code.co_filename not in self._files or code.co_name in ("__enter__", "__aenter__"):
            return None
        if event == "line" and linecache.getline(code.co_filename, frame.f_lineno).strip() != "try:":  # does nothing
            self._left -= 1
            if not self._left:
                self.happened = True
                raise Stop
        return self._trace
