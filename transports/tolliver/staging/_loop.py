"""Thread that copies items of a source into a stage, in batches.

One thread takes all waiting items, writes and syncs them together, and confirms them to the source; the slower the
disk, the larger the batches. Items that cannot be written now are held, and no more are taken meanwhile.
"""

from __future__ import annotations

import atexit
import logging
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Generic, Self, TypeVar

from tolliver_proto import ConnectionClosing, TolliverError

from .._driver.threads import start
from ._folder import Position, StageFolder
from ._options import FolderOptions
from ._writer import RETRY, StageWriter

LOOK = 0.2
"""Seconds between two checks for the end, and for deletions by readers."""

_ENDING = 10.0  # seconds allowed for the last sync
_log = logging.getLogger("tolliver.staging")

Item = TypeVar("Item")


class StageLoop(ABC, Generic[Item]):
    """Thread that copies one source into a stage. A subclass implements the source. The thread is a daemon: `close` may
    be left out.
    """

    failure: Exception | None = None
    """The error that ended the loop, None after `close`. `check` raises it."""

    def __init__(self, options: FolderOptions) -> None:
        self._folder_options = options
        self._stopping = threading.Event()
        self._closing = threading.Lock()
        self._held: str | None = None
        self._writer: StageWriter | None = None
        self._thread: threading.Thread | None = None

    @abstractmethod
    def _open(self, writer: StageWriter) -> None:
        """Called by `start`: opens the source. If this raises, `_let_go` is called."""

    @abstractmethod
    def _let_go(self) -> None:
        """Called at the end: closes the source, also when only partly opened. A second call does nothing."""

    @abstractmethod
    def _take(self, writer: StageWriter, timeout: float) -> Item | None:
        """Called by the thread: adds the next item to the writer and returns it; None after `timeout` seconds without
        one."""

    @abstractmethod
    def _on_synced(self, items: Sequence[Item]) -> None:
        """Called when items are on disk; also with none, after a wait in which no item came."""

    # Life cycle.

    def __repr__(self) -> str:
        state = "not started" if self._writer is None else "ended" if self._stopping.is_set() else "at work"
        return f"<{type(self).__name__} into {self._folder_options.directory}, {state}>"

    def start(self) -> None:
        """Open the stage and the source, once. Peers need not be reachable yet.

        Raises UnknownStage, StageInUse, StageLost and other StoreErrors, CertificateError, IdentityConflict,
        OutOfThreads, and ConnectionLost if it cannot listen.
        """
        if self._writer is not None:
            raise RuntimeError("a stager is started once: make another one")
        self._writer = StageWriter(self._folder_options)
        try:
            self._open(self._writer)
            thread = threading.Thread(target=self._work, args=(self._writer,), name="tolliver stages", daemon=True)
            start(thread)
            self._thread = thread
            atexit.register(self.close)
        except BaseException:
            self._shut()
            raise

    def close(self) -> None:
        """Stage what has been taken, as far as the disk accepts it now, and end. A second call does nothing."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_ENDING)
        self._shut()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _shut(self) -> None:
        """Close the source first, which returns unacknowledged items to their senders, then the writer."""
        atexit.unregister(self.close)
        with self._closing:
            self._let_go()
            thread = self._thread
            at_work = thread is not None and thread is not threading.current_thread() and thread.is_alive()
            if self._writer is not None and not at_work:  # if the disk hangs, the thread still needs the lock
                self._writer.close()

    # Status.

    def check(self) -> None:
        """Raises the error that ended the loop."""
        if self.failure is not None:
            raise self.failure.with_traceback(None)

    @property
    def folder(self) -> StageFolder:
        return self._started().folder

    @property
    def position(self) -> Position:
        """Position before the next message to be staged."""
        return self._started().end

    @property
    def held(self) -> str | None:
        """Reason why no items are taken from the source at present, for people; None if items are taken."""
        return self._held

    def _started(self) -> StageWriter:
        if self._writer is None:
            raise RuntimeError("the stager was not started: call start(), or use it with `with`")
        return self._writer

    # The thread.

    def _work(self, writer: StageWriter) -> None:
        try:
            while not self._stopping.is_set():
                writer.retain()
                if not writer.has_room():
                    self._hold("as much is staged as may be: readers must delete some")
                    self._stopping.wait(LOOK)
                    continue
                items = self._gather(writer)
                if self._sync(writer):
                    self._on_synced(items)
                self._held = None
        except Exception as error:
            self._fail(error)

    def _gather(self, writer: StageWriter) -> list[Item]:
        """Take the items that are waiting in the source, for one sync."""
        items: list[Item] = []
        options, end = self._folder_options, math.inf
        while (item := self._take(writer, 0.0 if items else LOOK)) is not None:
            items.append(item)
            now = time.monotonic()
            end = min(end, now + options.sync_interval)
            if writer.waiting_bytes >= options.sync_bytes or now >= end:
                break
        return items

    def _sync(self, writer: StageWriter) -> bool:
        """Write what was added to the disk; False if the loop must end before the disk accepts the data. Raises
        StageFull.
        """
        while not writer.sync():
            self._hold(f"the disk takes nothing: {writer.failing}")
            if self._stopping.wait(RETRY):
                return False
        return True

    def _hold(self, why: str) -> None:
        if why != self._held:
            path = str(self._folder_options.directory)
            _log.warning("the stage %s: %s. The peers keep what comes", path, why, extra={"path": path})
        self._held = why

    def _fail(self, error: Exception) -> None:
        """End the loop with an error, which later calls raise. Only the first is kept."""
        if self.failure is not None or (self._stopping.is_set() and isinstance(error, ConnectionClosing)):
            return
        self.failure = error
        self._stopping.set()
        with suppress(TolliverError):
            self._shut()
