"""The node's part of the driver: its store, its handlers, and what callers of an instance wait for.

The idea: as in `_driver`: nothing waits, and each of the node's actions has one function here.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Collection
from typing import Any

from tolliver_proto import (
    Acked,
    Commit,
    ConnectionClosing,
    Deliver,
    Delivery,
    Dial,
    DialEnded,
    Fetch,
    Find,
    Node,
    Notice,
    PeerDown,
    PeerUp,
    Receipt,
    Store,
    Stored,
    Transmit,
)

from .._driver.adapter import Job, StoringAdapter, Transport
from .._driver.driver import Driver
from .._driver.pending import Answer
from .inbox import Settlement
from .recorder import Recorder
from .store_jobs import StoreJobs

log = logging.getLogger("tolliver")
NOTICES_KEPT = 1000


class NodeDriver(Driver):
    """A node at work."""

    def __init__(self, node: Node, store: Store, world: StoringAdapter, recorder: Recorder | None = None) -> None:
        super().__init__(node, world)
        self.node = node
        self.notices: deque[Notice] = deque(maxlen=NOTICES_KEPT)
        self._storing = world.store
        self._turn_soon = world.turn_soon
        self._recorder = recorder
        jobs = StoreJobs(node, store, world.store)
        self.register_handlers(
            {
                Commit: jobs.commit,
                Fetch: jobs.fetch,
                Find: jobs.find,
                Deliver: self._deliver,
                Stored: self._on_stored,
                Acked: self._on_acked,
                PeerUp: self._on_peer_up,
                PeerDown: lambda action: log.info(
                    "peer %s is gone: %s", action.peer, action.error or "closed in order"
                ),
                DialEnded: self._on_dial_ended,
                Notice: self.on_notice,
            }
        )

    def received(self, cid: int, plaintext: bytes) -> None:
        if self._recorder is not None:
            self._recorder.received(cid, plaintext)
        super().received(cid, plaintext)

    def settle(self, deliveries: Collection[Delivery], well: bool) -> None:
        (self.node.acknowledge if well else self.node.fail)(deliveries, time.monotonic())
        self._turn_soon()

    # What callers wait for.

    def when_stored(self, receipt: Receipt, answer: Answer | None = None) -> Any:
        """A promise of the receipt, kept when its commit is done."""
        promise = self.promises.of((Stored, receipt), answer)
        self.turn()
        return promise

    def when_acked(self, receipt: Receipt, answer: Answer | None = None) -> Any:
        """A promise of the receipt, kept when every recipient has acknowledged all of it."""
        key = (Acked, receipt)
        if key not in self.promises:
            self.node.watch(receipt)
        promise = self.promises.of(key, answer)
        self.turn()
        return promise

    def when_read(self, job: Job, answer: Answer | None = None) -> Any:
        """A promise of what the job finds, off the loop and in its turn with what the store has to do."""
        key = object()
        promise = self.promises.of(key, answer)
        self._storing(job, lambda result, error: self.promises.keep(key, result, error))
        return promise

    # What the node asks for.

    def _transmit(self, wire: Transport, action: Transmit) -> None:
        if self._recorder is not None:
            self._recorder.sent(action.cid, action.units)
        super()._transmit(wire, action)

    def _deliver(self, action: Deliver) -> None:
        settlement = Settlement(self.settle, action.deliveries, len(action.handlers))
        for handler in action.handlers:
            handler.put(action.deliveries, settlement)  # type: ignore[attr-defined]  # what `register` was given

    def _on_stored(self, action: Stored) -> None:
        for receipt in action.tokens:
            self.promises.keep((Stored, receipt), receipt, action.error)

    def _on_acked(self, action: Acked) -> None:
        for receipt in action.tokens:
            self.promises.keep((Acked, receipt), receipt)

    def _on_peer_up(self, action: PeerUp) -> None:
        log.info("peer %s is up, version %d", action.peer, action.version)
        self.promises.keep((Dial, action.remote), action.peer)

    def _on_dial_ended(self, action: DialEnded) -> None:
        error = action.error or ConnectionClosing(f"{action.remote} was removed while it was being dialled")
        self.promises.keep((Dial, action.remote), None, error)

    def on_notice(self, notice: Notice) -> None:
        self.notices.append(notice)
        log.warning("%s: %s", notice.kind, notice.detail)
