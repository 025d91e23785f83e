"""Stager of "tolliver-rs": elements of publishers into a stage.

A stream cannot be resumed (R-31), but Spark reads a batch again after a failure, so elements are staged in between.
Each publisher has a connection and a thread that receives. The loop's thread writes, and grants again what is on disk
(`Credit`). So a full disk holds publishers back, and elements wait only in the window. A stream that ends with its
connection is subscribed to again.
"""

from __future__ import annotations

import logging
import queue
import random
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple
from uuid import NAMESPACE_URL, UUID, uuid5

from attrs import define

from tolliver_proto import ConnectionClosing, ConnectionLost, Message, Revision, UnexpectedEOF
from tolliver_proto.reactive import ConnectionClosed, StreamError
from tolliver_proto.recording import BLOCK

from ..._driver.threads import start
from ..._options.instance import Remote
from ..._options.streams import StreamsOptions
from ...blocking import Peer, Streams, create_streams
from ...blocking.subscription import Subscription
from ...staging import FolderOptions, StageWriter
from ...staging._loop import LOOK, StageLoop
from ._credit import Credit

log = logging.getLogger("tolliver.spark")

CONNECT = 20.0
"""Seconds to wait for a publisher to connect."""

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 30.0
"""Seconds until a lost publisher is tried again: doubled after each try, and reset after a long stream."""

_FRAME_BYTES = 64  # overhead of a staged message in addition to channel and body, rounded up
_ELEMENTS_AT_ONCE = 4096  # most elements taken at once
_WAITING = 16 * 2**20  # bytes waiting for the disk, above which no more runs are taken
_PASSING = (ConnectionLost, ConnectionClosed, ConnectionClosing, UnexpectedEOF, TimeoutError)


@define(frozen=True, kw_only=True)
class DemandStageOptions:
    """Options of a DemandStager: the publishers, and the stage. `window` is the most elements in flight of each
    publisher; times are in seconds."""

    remote: Remote
    streams: StreamsOptions
    publishers: tuple[str, ...]
    window: int
    folder: FolderOptions

    def credit(self) -> Credit:
        """The count of elements that these publishers may send, for this stage. Raises ValueError if the stage is too
        small.
        """
        most = self.streams.limits.max_element + BLOCK.size + _FRAME_BYTES
        costs = {name: most + len(name.encode()) for name in self.publishers}
        return Credit(self.folder.max_staged_bytes, self.window, costs)


class _Arrived(NamedTuple):
    name: str
    sender: UUID
    elements: list[bytes]


class _Live:
    """State of one publisher's stream in a DemandStager, which is running or about to begin."""

    subscription: Subscription[bytes]

    def __init__(self, granted: int) -> None:
        self.due = granted
        """Elements that may still arrive."""


class DemandStager(StageLoop[_Arrived]):
    """Subscribes to publishers and stages their elements, from `start` to `close`. All threads are daemons."""

    _streams: Streams | None = None

    def __init__(self, options: DemandStageOptions) -> None:
        """Raises ValueError if the stage is too small for its options."""
        super().__init__(options.folder)
        self._options = options
        self._lock = threading.Condition()
        self._credit = options.credit()
        self._live: dict[str, _Live] = {}
        self._given: set[str] = set()  # publishers that have sent any element
        self._arrived: queue.SimpleQueue[_Arrived] = queue.SimpleQueue()
        self._waiting = 0  # bytes received but not on disk
        self._followers: list[threading.Thread] = []
        self._counts = {"subscriptions": 0, "completed": 0}

    def close(self) -> None:
        """End the streams; elements not on disk are dropped. A second call does nothing."""
        super().close()
        for thread in self._followers:
            thread.join()

    def stats(self) -> Mapping[str, int]:
        """Counters and gauges by name: elements staged, subscriptions, completed publishers, elements in flight, and
        staged bytes."""
        staged = self._started().messages
        with self._lock:
            out = sum(self._credit.out.values())
            return {"staged": staged, **self._counts, "out": out, "staged_bytes": self.folder.used_bytes()}

    # The source of the loop.

    def _open(self, _writer: StageWriter) -> None:
        self._streams = streams = create_streams(self._options.streams)
        streams.__enter__()
        for name in self._options.publishers:
            work = partial(self._follow, streams, name)
            thread = threading.Thread(target=work, name=f"tolliver takes {name:.100}", daemon=True)
            start(thread)
            self._followers.append(thread)

    def _let_go(self) -> None:
        if self._streams is not None:
            self._streams.close()

    def _take(self, writer: StageWriter, timeout: float) -> _Arrived | None:
        try:
            name, sender, elements = arrived = self._arrived.get(timeout=timeout)
        except queue.Empty:
            return None
        writer.add(sender, 0, Revision.DRAFT_2, [Message(name, "", element, None) for element in elements])
        return arrived

    def _on_synced(self, items: Sequence[_Arrived]) -> None:
        """Called when elements are on disk: request as many further ones as the stage has space for."""
        with self._lock:
            for one in items:
                self._credit.settle(one.name, len(one.elements))
                self._waiting -= sum(map(len, one.elements))
            self._lock.notify_all()
            if self._credit.full:
                return
            used = self.folder.used_bytes()
            for name, live in self._live.items():
                if more := self._credit.grant(name, used):
                    live.due += more
                    live.subscription.request(more)

    # Thread of a publisher.

    def _follow(self, streams: Streams, name: str) -> None:
        try:
            self._take_all(streams, name)
        except Exception as error:
            self._fail(error)

    def _take_all(self, streams: Streams, name: str) -> None:
        """Subscribe to the publisher `name`, and again whenever the stream ends, until the publisher completes.

        Raises the error of a stream that failed before its publisher had sent any element.
        """
        pause = FIRST_PAUSE
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self._take_stream(streams, name)
                return
            except (*_PASSING, StreamError) as error:
                if self._stopping.is_set():
                    return
                if isinstance(error, StreamError) and name not in self._given:
                    raise
                if time.monotonic() - began > LONGEST_PAUSE:
                    pause = FIRST_PAUSE
                log.warning("%s: %s. It is asked again in %g s", self._whom(name), error, pause)
            self._stopping.wait(pause * random.uniform(0.5, 1))
            pause = min(2 * pause, LONGEST_PAUSE)

    def _take_stream(self, streams: Streams, name: str) -> None:
        """Receive one stream of the publisher `name` to its end. Raises the error that ended it."""
        peer = streams.connect(self._options.remote, timeout=CONNECT)
        live = _Live(self._first_grant(name))
        try:
            with peer.subscribe(name, demand=live.due, prefetch=0) as live.subscription:
                self._take_runs(name, live, _sender(peer, self._options.remote))
        finally:
            with self._lock:
                self._live.pop(name, None)
                self._credit.settle(name, live.due)  # these will not arrive
            if peer.connected:
                peer.goodbye()

    def _first_grant(self, name: str) -> int:
        """Wait until the stage has space for the whole window of the publisher `name`, and reserve it; returns the
        number of elements to request. Raises ConnectionClosing.
        """
        with self._lock:
            while not (granted := self._credit.begin(name, self.folder.used_bytes())):
                if self._stopping.is_set():
                    raise ConnectionClosing("the stager is being closed")
                self._lock.wait(LOOK)
            self._counts["subscriptions"] += 1
            return granted

    def _take_runs(self, name: str, live: _Live, sender: UUID) -> None:
        with self._lock:
            self._live[name] = live
        with suppress(StopIteration):
            while True:
                run = live.subscription.next_run(_ELEMENTS_AT_ONCE)
                with self._lock:
                    while self._waiting > _WAITING and not self._stopping.is_set():
                        self._lock.wait(LOOK)
                    self._given.add(name)
                    live.due -= len(run)
                    self._waiting += sum(map(len, run))
                self._arrived.put(_Arrived(name, sender, run))
        log.info("%s has completed: it is not asked again", self._whom(name))
        with self._lock:
            self._counts["completed"] += 1

    def _whom(self, name: str) -> str:
        return f"the publisher {name!r:.100} at {self._options.remote}"


def _sender(peer: Peer, remote: Remote) -> UUID:
    """Sender of blocks: the publisher's UUID, or one derived from its address if its certificate has no single one."""
    if len(peer.identity.uuids) == 1:
        return next(iter(peer.identity.uuids))
    return uuid5(NAMESPACE_URL, f"tolliver-rs://{remote}")
