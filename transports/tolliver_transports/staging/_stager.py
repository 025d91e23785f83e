"""The receiver of a stage: an instance whose messages are acknowledged once they stand in it.

The idea: one thread takes what has come, has it written and synced together, and acknowledges it; so the slower the
disk is, the more goes into one sync. What cannot be written now is held: the credit of its connection is spent, the
node stops reading, and the peers keep what they have. No time limit of a reader plays a part.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from types import TracebackType
from typing import Self
from uuid import UUID

from tolliver_proto import Acl, ConnectionClosing, Delivery, TolliverError

from ..blocking import Instance, Run, Runs, create_instance
from ._folder import Position, StageFolder
from ._options import StageOptions
from ._writer import RETRY, StageWriter

_LOOK = 0.2  # seconds between two looks at whether to end, or at what readers have deleted
_ENDING = 10.0  # seconds for the last sync
_NAMES = 4096
_log = logging.getLogger("tolliver")
_source = attrgetter("peer_id", "cid")


class Stager:
    """Receives into a stage from `start` to `close`: `with Stager(options) as stager`. Nothing is touched before.

    Every call may come from any thread. Its own threads are daemons: one may leave the process without `close`.
    """

    failure: Exception | None = None
    """What ended it, and not `close`. Raised by `check`."""

    def __init__(self, options: StageOptions) -> None:
        self.options = options
        self._wanted = _Wanted(options.subscriptions)
        self._stopping = threading.Event()
        self._closing = threading.Lock()
        self._held: str | None = None
        self._counts = {"dropped": 0, "unwanted": 0}
        self._writer: StageWriter | None = None
        self._instance: Instance | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Open the stage, listen and dial. Peers need not be there.

        Raises UnknownStage, StageInUse, StageLost and other StoreErrors, CertificateError, IdentityConflict, and
        ConnectionLost where it cannot listen. Once only.
        """
        if self._writer is not None:
            raise RuntimeError("a stager is started once: make another one")
        self._writer = StageWriter(self.options)
        try:
            self._instance = create_instance(self.options.instance)
            self._instance.__enter__()
            self._writer.local = self._instance.instance_id
            runs = self._instance.message_runs("", "", subscribe=False)
            self._subscribe(self._instance)
            self._thread = threading.Thread(
                target=self._work, args=(self._writer, runs), name="tolliver stages", daemon=True
            )
            self._thread.start()
            atexit.register(self.close)
        except BaseException:
            self._shut()
            raise

    def close(self) -> None:
        """Stage what has come, as far as the disk takes it now, and end. A second call does nothing."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_ENDING)
        self._shut()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _shut(self) -> None:
        """The instance first: what it still holds goes back to the peers."""
        atexit.unregister(self.close)
        with self._closing:
            if self._instance is not None:
                self._instance.close()
            thread = self._thread
            at_work = thread is not None and thread is not threading.current_thread() and thread.is_alive()
            if self._writer is not None and not at_work:  # else the disk hangs: the lock is kept as long
                self._writer.close()

    # How it stands.

    def check(self) -> None:
        """Raises what ended it."""
        if self.failure is not None:
            raise self.failure.with_traceback(None)

    @property
    def folder(self) -> StageFolder:
        return self._started().folder

    @property
    def position(self) -> Position:
        """In front of what is not staged yet."""
        return self._started().end

    @property
    def held(self) -> str | None:
        """Why nothing is taken at the moment; None while all is well."""
        return self._held

    @property
    def addresses(self) -> Sequence[tuple[str, int]]:
        """Where it listens."""
        return () if self._instance is None else self._instance.addresses

    @property
    def instance_id(self) -> UUID:
        """Who receives."""
        self._started()
        assert self._instance is not None
        return self._instance.instance_id

    def set_acl(self, acl: Acl) -> None:
        """Other access rules from now on; connections of peers whose rights change are made anew (D-4, D-5, D-8)."""
        self._started()
        assert self._instance is not None
        self._instance.set_acl(acl)

    def stats(self) -> dict[str, int]:
        """Since the start: messages `staged` and their `bytes`, `duplicates`, unreliable ones `dropped`, and `unwanted`
        ones, whose keys only begin like a subscription's. And `staged_bytes` now, which readers make less.
        """
        writer = self._started()
        return {
            "staged": writer.messages,
            "bytes": writer.bytes,
            "duplicates": writer.duplicates,
            **self._counts,
            "staged_bytes": writer.staged_bytes,
        }

    def _started(self) -> StageWriter:
        if self._writer is None:
            raise RuntimeError("the stager was not started: call start(), or use it with `with`")
        return self._writer

    # The thread.

    def _subscribe(self, instance: Instance) -> None:
        wanted = {(channel, "" if key.endswith("*") else key) for channel, key in self.options.subscriptions}
        for one in instance.subscriptions():
            if tuple(one) not in wanted:
                instance.unsubscribe(*one)
        for channel, key in sorted(wanted):
            instance.subscribe(channel, key)

    def _work(self, writer: StageWriter, runs: Runs) -> None:
        try:
            while not self._stopping.is_set():
                if not writer.has_room():
                    self._hold("as much is staged as may be: readers must delete some")
                    self._stopping.wait(_LOOK)
                    continue
                taken = self._take(writer, runs)
                if taken and self._sync(writer):
                    for run in taken:
                        run.ack()
                self._held = None
        except Exception as error:
            self._fail(error)

    def _take(self, writer: StageWriter, runs: Runs) -> list[Run]:
        """What waits, for one sync: nothing more once there is a moment in which nothing waits."""
        taken: list[Run] = []
        with suppress(TimeoutError):
            taken.append(runs.next(_LOOK))
            self._add(writer, taken[0])
            end = time.monotonic() + self.options.sync_interval
            while writer.waiting_bytes < self.options.sync_bytes and time.monotonic() < end:
                taken.append(runs.next(0.0))
                self._add(writer, taken[-1])
        return taken

    def _add(self, writer: StageWriter, run: Run) -> None:
        for (peer, cid), deliveries in groupby(run, _source):
            messages = [one.message for one in self._chosen(list(deliveries))]
            if messages:
                writer.add(peer, cid, self.options.revision, messages)

    def _chosen(self, deliveries: list[Delivery]) -> list[Delivery]:
        wanted = [one for one in deliveries if self._wanted(one.channel, one.key)]
        self._counts["unwanted"] += len(deliveries) - len(wanted)
        if self.options.unreliable == "keep":
            return wanted
        kept = [one for one in wanted if one.reliable]
        self._counts["dropped"] += len(wanted) - len(kept)
        return kept

    def _sync(self, writer: StageWriter) -> bool:
        """Whether it is done: False where it is to end before the disk takes it. Raises StageFull."""
        while not writer.sync():
            self._hold(f"the disk takes nothing: {writer.failing}")
            if self._stopping.wait(RETRY):
                return False
        return True

    def _hold(self, why: str) -> None:
        if why != self._held:
            _log.warning("the stage %s: %s. The peers keep what comes", self.options.directory, why)
        self._held = why

    def _fail(self, error: Exception) -> None:
        if self._stopping.is_set() and isinstance(error, ConnectionClosing):
            return
        self.failure = error
        with suppress(TolliverError):
            self._shut()


class _Wanted:
    """Whether a message's names are subscribed to, prefixes of keys included."""

    def __init__(self, subscriptions: Sequence[tuple[str, str]]) -> None:
        self._subscriptions = subscriptions
        self._known: dict[tuple[str, str], bool] = {}

    def __call__(self, channel: str, key: str) -> bool:
        known = self._known.get((channel, key))
        if known is None:
            known = any(_matches(channel, key, *one) for one in self._subscriptions)
            if len(self._known) >= _NAMES:
                self._known.clear()
            self._known[channel, key] = known
        return known


def _matches(channel: str, key: str, wanted: str, pattern: str) -> bool:
    if wanted not in ("", channel):
        return False
    return key.startswith(pattern[:-1]) if pattern.endswith("*") else pattern in ("", key)
