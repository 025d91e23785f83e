"""Publishers into a stage: what the streaming source of "tolliver-rs" runs where a peer's messages have a stager.

The idea: a stage stands between demand and micro-batches, as a stream has no yesterday (R-31). Each publisher has a
connection and a thread that takes; one thread has the writer, and grants what is on the disk anew (`Credit`): so the
disk is what holds publishers back, and elements wait nowhere but in the window. A stream that ends with its connection
is subscribed to anew.
"""

from __future__ import annotations

import atexit
import logging
import os
import queue
import random
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Self
from uuid import NAMESPACE_URL, UUID, uuid5

from attrs import define

from tolliver_proto import ConnectionClosing, ConnectionLost, Message, Revision, UnexpectedEOF
from tolliver_proto.reactive import ConnectionClosed, StreamError
from tolliver_proto.recording import BLOCK

from ..._options.instance import Remote
from ..._options.streams import StreamsOptions
from ...blocking import Peer, create_streams
from ...blocking.subscription import Subscription
from ...staging import FolderOptions, StageFolder, StageWriter
from ...staging._writer import RETRY
from ._credit import Credit

log = logging.getLogger("tolliver_transports.spark")

CONNECT = 20.0
"""Seconds for a publisher to be there."""

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 30.0
"""Seconds before a publisher that went away is asked again; doubled each time, and as at first after a long stream."""

_FRAME_BYTES = 64  # of a staged message beside its channel and body, rounded up
_LOOK = 0.2  # seconds between two looks at what readers have deleted
_ELEMENTS_AT_ONCE = 4096  # elements that are taken at once
_WAITING = 16 * 2**20  # bytes that have arrived and wait for the disk; beyond it, and a run, nothing is taken
_PASSING = (ConnectionLost, ConnectionClosed, ConnectionClosing, UnexpectedEOF, TimeoutError)


@define(frozen=True, kw_only=True)
class DemandStageOptions:
    """Whom to subscribe to, and where to put it. `window` is of each publisher, in elements; times in seconds."""

    remote: Remote
    streams: StreamsOptions
    publishers: tuple[str, ...]
    window: int
    folder: FolderOptions

    def credit(self) -> Credit:
        """Raises ValueError where the stage is too small."""
        most = self.streams.limits.max_element + BLOCK.size + _FRAME_BYTES
        costs = {name: most + len(name.encode()) for name in self.publishers}
        return Credit(self.folder.max_staged_bytes, self.window, costs)


class _Arrived(NamedTuple):
    name: str
    sender: UUID
    elements: list[bytes]


class _Live:
    """A stream that runs, or is about to."""

    subscription: Subscription[bytes]

    def __init__(self, granted: int) -> None:
        self.due = granted
        """How many may still come."""


class DemandStager:
    """Subscribes to publishers and stages their elements, from `start` to `close`. All threads are daemons."""

    def __init__(self, options: DemandStageOptions) -> None:
        """Raises ValueError where the stage is too small for what is asked for."""
        self._options = options
        self._lock = threading.Condition()
        self._credit = options.credit()
        self._live: dict[str, _Live] = {}
        self._given: set[str] = set()  # who has given anything yet
        self._arrived: queue.SimpleQueue[_Arrived] = queue.SimpleQueue()
        self._waiting = 0  # bytes of what has arrived and is not on the disk
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []
        self._counts = {"staged": 0, "subscriptions": 0, "completed": 0}
        self.failure: Exception | None = None
        """What ended it, and not we."""

    def start(self) -> None:
        """Raises StageInUse and other StoreErrors, and CertificateError. Publishers need not be there yet."""
        self._writer = StageWriter(self._options.folder)
        self._streams = create_streams(self._options.streams)
        try:
            self._streams.__enter__()
        except BaseException:
            self._writer.close()
            raise
        atexit.register(self.close)
        self._work("stages", self._stage)
        for name in self._options.publishers:
            self._work(f"takes {name:.100}", partial(self._follow, name))

    def _work(self, what: str, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            except Exception as error:
                self._fail(error)

        thread = threading.Thread(target=run, name=f"tolliver {what}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def close(self) -> None:
        """End the streams; what is not on the disk yet is given up. A second call does nothing."""
        atexit.unregister(self.close)
        self._stop()
        for thread in self._threads:
            thread.join()
        self._writer.close()

    def _stop(self) -> None:
        self._closing.set()
        self._streams.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def check(self) -> None:
        """Raises what it failed with."""
        if self.failure is not None:
            raise self.failure.with_traceback(None)

    def stats(self) -> Mapping[str, int]:
        """Elements put on the disk, subscriptions, publishers that completed; elements that are out, bytes staged."""
        with self._lock:
            return self._counts | {"out": sum(self._credit.out.values()), "staged_bytes": self._used()}

    @property
    def folder(self) -> StageFolder:
        return self._writer.folder

    # A publisher's thread.

    def _follow(self, name: str) -> None:
        """Subscribe, and again where the stream ended, until the publisher completes.

        A publisher that ends its stream with an error before it has given anything is not asked again: that raises.
        """
        pause = FIRST_PAUSE
        while not self._closing.is_set():
            began = time.monotonic()
            try:
                self._take(name)
                return
            except (*_PASSING, StreamError) as error:
                if self._closing.is_set():
                    return
                if isinstance(error, StreamError) and name not in self._given:
                    raise
                if time.monotonic() - began > LONGEST_PAUSE:
                    pause = FIRST_PAUSE
                log.warning("%s: %s. It is asked again in %g s", self._whom(name), error, pause)
            self._closing.wait(pause * random.uniform(0.5, 1))
            pause = min(2 * pause, LONGEST_PAUSE)

    def _take(self, name: str) -> None:
        """One stream, to its end. Raises what ended it before that."""
        peer = self._streams.connect(self._options.remote, timeout=CONNECT)
        live = _Live(self._first_grant(name))
        try:
            with peer.subscribe(name, demand=live.due, prefetch=0) as live.subscription:
                self._take_all(name, live, _sender(peer, self._options.remote))
        finally:
            with self._lock:
                self._live.pop(name, None)
                self._credit.settle(name, live.due)  # these will not come
            if peer.connected:
                peer.goodbye()

    def _first_grant(self, name: str) -> int:
        """Waits until the whole window fits. Raises ConnectionClosing."""
        with self._lock:
            while not (granted := self._credit.begin(name, self._used())):
                if self._closing.is_set():
                    raise ConnectionClosing("the stager is being closed")
                self._lock.wait(_LOOK)
            self._counts["subscriptions"] += 1
            return granted

    def _take_all(self, name: str, live: _Live, sender: UUID) -> None:
        with self._lock:
            self._live[name] = live
        with suppress(StopIteration):
            while True:
                run = live.subscription.next_run(_ELEMENTS_AT_ONCE)
                with self._lock:
                    while self._waiting > _WAITING and not self._closing.is_set():
                        self._lock.wait(_LOOK)
                    self._given.add(name)
                    live.due -= len(run)
                    self._waiting += sum(map(len, run))
                self._arrived.put(_Arrived(name, sender, run))
        log.info("%s has completed: it is not asked again", self._whom(name))
        with self._lock:
            self._counts["completed"] += 1

    def _whom(self, name: str) -> str:
        return f"the publisher {name!r:.100} at {self._options.remote}"

    # The writer's thread.

    def _stage(self) -> None:
        while not self._closing.is_set():
            arrived = self._gathered()
            for name, sender, elements in arrived:
                messages = [Message(name, "", element, None) for element in elements]
                self._writer.add(sender, 0, Revision.DRAFT_2, messages)
            while not self._writer.sync():
                log.warning("the stage %s: %s. It is tried again", self._options.folder.directory, self._writer.failing)
                if self._closing.wait(RETRY):
                    return
            self._on_staged(arrived)

    def _gathered(self) -> list[_Arrived]:
        """What has come, for one sync; nothing after a moment in which nothing came."""
        arrived: list[_Arrived] = []
        with suppress(queue.Empty):
            arrived.append(self._arrived.get(timeout=_LOOK))
            size, end = 0, time.monotonic() + self._options.folder.sync_interval
            while size < self._options.folder.sync_bytes and time.monotonic() < end:
                size += sum(map(len, arrived[-1].elements))
                arrived.append(self._arrived.get_nowait())
        return arrived

    def _on_staged(self, arrived: list[_Arrived]) -> None:
        """These are on the disk: grant what there is room for."""
        with self._lock:
            for one in arrived:
                self._credit.settle(one.name, len(one.elements))
                self._counts["staged"] += len(one.elements)
                self._waiting -= sum(map(len, one.elements))
            self._lock.notify_all()
            if self._credit.full:
                return
            used = self._used()
            for name, live in self._live.items():
                if more := self._credit.grant(name, used):
                    live.due += more
                    live.subscription.request(more)

    def _used(self) -> int:
        """Bytes that stand in the stage now; readers delete some of it at any time."""
        total = 0
        for segment in self.folder.segments():
            with suppress(FileNotFoundError):
                total += os.stat(segment.path).st_size
        return total

    def _fail(self, error: Exception) -> None:
        """Nothing goes on; whoever asks next is told why."""
        if not self._closing.is_set():
            log.error("the stage %s takes nothing more: %s", self._options.folder.directory, error)
            self.failure = error
            self._stop()


def _sender(peer: Peer, remote: Remote) -> UUID:
    """Whom blocks are from: the publisher's UUID, or one that stands for its address where it shows no single one."""
    if len(peer.identity.uuids) == 1:
        return next(iter(peer.identity.uuids))
    return uuid5(NAMESPACE_URL, f"tolliver-rs://{remote}")
