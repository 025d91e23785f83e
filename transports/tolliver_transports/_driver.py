"""What every adapter does alike: carry out a node's actions, and keep the promises made to callers.

The idea: the driver never waits. An adapter brings a `World`, a handful of functions that start something, and calls
`turn()` after each input; the driver takes actions until there are none. What a caller waits for is a promise, made by
the world in the form that its users know (an awaitable, a Deferred, a future) and kept here until an action settles it.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Collection
from typing import Any

from tolliver_proto import (
    Abort,
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
    PauseReading,
    PeerDown,
    PeerUp,
    Receipt,
    ResumeReading,
    ShutdownWrite,
    Store,
    Stored,
    TolliverError,
    Transmit,
)

from ._inbox import Settlement
from ._promises import Answer, Promises
from ._recorder import Recorder
from ._world import Job, Wire, World

log = logging.getLogger("tolliver")
NOTICES_KEPT = 1000


class Driver:
    """A node at work."""

    def __init__(self, node: Node, store: Store, world: World, recorder: Recorder | None = None) -> None:
        self.node = node
        self.promises = Promises(world.promise)
        self.notices: deque[Notice] = deque(maxlen=NOTICES_KEPT)
        self._store = store
        self._world = world
        self._recorder = recorder
        self._turning = False
        self._armed: float | None = None
        self._apply: dict[type, Callable[[Any], None]] = {
            Transmit: self._on_wire(self._transmit),
            Dial: lambda action: world.dial(action.cid, action.remote),
            PauseReading: self._on_wire(lambda wire, _: wire.pause()),
            ResumeReading: self._on_wire(lambda wire, _: wire.resume()),
            ShutdownWrite: self._on_wire(lambda wire, _: wire.shutdown_write()),
            Abort: self._on_wire(lambda wire, _: wire.abort()),
            Commit: self._commit,
            Fetch: self._fetch,
            Find: self._find,
            Deliver: self._deliver,
            Stored: self._on_stored,
            Acked: self._on_acked,
            PeerUp: self._on_peer_up,
            PeerDown: lambda action: log.info("peer %s is gone: %s", action.peer, action.error or "closed in order"),
            DialEnded: self._on_dial_ended,
            Notice: self.on_notice,
        }

    def turn(self) -> None:
        """Carry out all that the node asks for now. Safe to call from within itself: the outer turn goes on."""
        if self._turning:
            return
        self._turning = True
        try:
            next_action, apply = self.node.next_action, self._apply
            while (action := next_action()) is not None:
                apply[type(action)](action)
        finally:
            self._turning = False
        due = self.node.next_timeout()
        if due is not None and (self._armed is None or due < self._armed):
            self._armed = due
            self._world.wake()

    def arm(self) -> float | None:
        """Seconds until `handle_timeout` is due, for the adapter's one timer; None where nothing is."""
        self._armed = self.node.next_timeout()
        return None if self._armed is None else max(0.0, self._armed - time.monotonic())

    def received(self, cid: int, plaintext: bytes) -> None:
        if self._recorder is not None:
            self._recorder.received(cid, plaintext)
        self.node.receive_data(cid, plaintext, time.monotonic())

    def settle(self, deliveries: Collection[Delivery], well: bool) -> None:
        (self.node.acknowledge if well else self.node.fail)(deliveries, time.monotonic())
        self._world.wake()

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

    def when_read(self, job: Job) -> Any:
        """A promise of what the store says."""
        key = object()
        promise = self.promises.of(key)
        self._world.store(job, lambda result, error: self.promises.keep(key, result, error))
        return promise

    # What the node asks for.

    def _on_wire(self, act: Callable[[Wire, Any], None]) -> Callable[[Any], None]:
        def apply(action: Any) -> None:
            wire = self._world.wires.get(action.cid)
            if wire is not None:
                act(wire, action)

        return apply

    def _transmit(self, wire: Wire, action: Transmit) -> None:
        if self._recorder is not None:
            self._recorder.sent(action.cid, action.units)
        wire.transmit(action.units)

    def _commit(self, action: Commit) -> None:
        def done(_result: None, error: TolliverError | None) -> None:
            if error is None:
                self.node.committed(action.batch_id, time.monotonic())
            else:
                self.node.store_failed(action.batch_id, error, time.monotonic())

        self._world.store(lambda: self._store.commit(action.operations), done)

    def _fetch(self, action: Fetch) -> None:
        def done(rows: Any, error: TolliverError | None) -> None:
            if error is None:
                self.node.fetched(action.peer, rows, time.monotonic())
            else:
                self.node.fetch_failed(action.peer, error, time.monotonic())

        bounds = (action.peer, action.after_seq, action.max_count, action.max_bytes)
        self._world.store(lambda: self._store.fetch(*bounds), done)

    def _find(self, action: Find) -> None:
        def done(rows: Any, error: TolliverError | None) -> None:
            self.node.found(action.search_id, rows or [], error, time.monotonic())

        bounds = (action.peer, action.after_seq, action.max_count, action.min_age)
        self._world.store(lambda: self._store.find(*bounds), done)

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
