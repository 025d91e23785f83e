"""What every adapter does alike: carry out a node's actions, and tell callers what became of their calls.

The idea: the driver never waits. An adapter brings a `World`, a handful of functions that start something, and calls
`turn()` after each input; the driver takes actions until there are none. What a caller waits for is a promise, made by
the world in the form that its users know (an awaitable, a Deferred, a future) and kept here until an action settles it.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Protocol
from uuid import UUID

from tolliver_proto import (
    Abort,
    Acked,
    Commit,
    ConnectionClosing,
    DeadLetter,
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
from ._options import Remote

log = logging.getLogger("tolliver")
NOTICES_KEPT = 1000

Item = tuple[str, str, bytes]
Job = Callable[[], Any]
Done = Callable[[Any, TolliverError | None], None]


class Promise(Protocol):
    """An answer that is still to come, once."""

    def resolve(self, value: Any) -> None: ...

    def fail(self, error: TolliverError) -> None: ...


class Wire(Protocol):
    """A connection's transport. Nothing here waits."""

    def transmit(self, units: Sequence[bytes]) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def shutdown_write(self) -> None: ...

    def abort(self) -> None: ...


class World(Protocol):
    """What an adapter can do. Nothing here waits."""

    @property
    def wires(self) -> Mapping[int, Wire]:
        """The transports that are there. An action for one that is gone came a moment late: it is passed over."""

    def promise(self) -> Any: ...

    def dial(self, cid: int, remote: Any) -> None: ...

    def store(self, job: Job, done: Done) -> None:
        """Run the job off the loop, one at a time and in order, then `done(result, error)` on the loop."""

    def wake(self) -> None:
        """Have `turn()` called soon, and look at `next_timeout()` again."""


class Driver:
    """A node at work."""

    def __init__(self, node: Node, store: Store, world: World) -> None:
        self.node = node
        self.notices: deque[Notice] = deque(maxlen=NOTICES_KEPT)
        self._store = store
        self._world = world
        self._turning = False
        self._armed: float | None = None
        self._stored: dict[Receipt, Any] = {}
        self._acked: dict[Receipt, Any] = {}
        self._connecting: dict[Remote, Any] = {}
        self._reading: set[Any] = set()  # promises of what the store is asked for
        self._apply: dict[type, Callable[[Any], None]] = {
            Transmit: self._on_wire(lambda wire, action: wire.transmit(action.units)),
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

    # What callers ask for.

    def send_many(self, items: Iterable[Item]) -> Any:
        """A promise of the receipt."""
        return self._when_stored(self.node.send_many(items, time.monotonic()))

    def subscribe(self, channel: str, key: str) -> Any:
        return self._when_stored(self.node.subscribe(channel, key, time.monotonic()))

    def unsubscribe(self, channel: str, key: str) -> Any:
        return self._when_stored(self.node.unsubscribe(channel, key, time.monotonic()))

    def forget_peer(self, peer: UUID) -> Any:
        return self._when_stored(self.node.forget_peer(peer, time.monotonic()))

    def repin(self, peer: UUID, spki_sha256: bytes | None) -> Any:
        return self._when_stored(self.node.repin(peer, spki_sha256, time.monotonic()))

    def retry(self, peer: UUID) -> Any:
        return self._when_stored(self.node.retry(peer, time.monotonic()))

    def drop_parked(self, peer: UUID) -> Any:
        return self._when_stored(self.node.drop_parked(peer, time.monotonic()))

    def dead_letters(self, after_number: int, max_count: int) -> Any:
        """A promise of the list."""
        promise = self._world.promise()
        self._reading.add(promise)

        def done(letters: Any, error: TolliverError | None) -> None:
            self._reading.discard(promise)
            _keep_promise(promise, letters, error)

        self._world.store(lambda: self._store.dead_letters(after_number, max_count), done)
        return promise

    def replay(self, letters: Iterable[DeadLetter]) -> int:
        count = self.node.replay(letters)
        self.turn()
        return count

    def unreliable_send(self, channel: str, key: str, body: bytes) -> int:
        sent = self.node.unreliable_send(channel, key, body)
        self._world.wake()  # and no turn for each: what is sent until the loop comes round goes out together
        return sent

    def wait_acked(self, receipt: Receipt) -> Any:
        """A promise of the receipt, kept when every recipient has acknowledged all of it."""
        promise = self._acked.get(receipt)
        if promise is None:
            promise = self._acked[receipt] = self._world.promise()
            self.node.watch(receipt)
            self.turn()
        return promise

    def connect(self, remote: Remote) -> Any:
        """A promise of the peer's UUID; it fails only where trying again is no use (T-73)."""
        promise = self._connecting.get(remote)
        if promise is None:
            promise = self._connecting[remote] = self._world.promise()
        self.node.connect(remote, time.monotonic())
        self.turn()
        return promise

    def settle(self, deliveries: Collection[Delivery], well: bool) -> None:
        (self.node.acknowledge if well else self.node.fail)(deliveries, time.monotonic())
        self._world.wake()

    def give_up(self) -> None:
        """The instance is closed: nobody is left waiting."""
        error = ConnectionClosing("the instance was closed before this was done")
        waiting = (self._stored.values(), self._acked.values(), self._connecting.values(), self._reading)
        for promise in chain.from_iterable(waiting):
            promise.fail(error)

    def _when_stored(self, receipt: Receipt) -> Any:
        promise = self._stored[receipt] = self._world.promise()
        self.turn()
        return promise

    # What the node asks for.

    def _on_wire(self, act: Callable[[Wire, Any], None]) -> Callable[[Any], None]:
        def apply(action: Any) -> None:
            wire = self._world.wires.get(action.cid)
            if wire is not None:
                act(wire, action)

        return apply

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
            _keep_promise(self._stored.pop(receipt, None), receipt, action.error)

    def _on_acked(self, action: Acked) -> None:
        for receipt in action.tokens:
            _keep_promise(self._acked.pop(receipt, None), receipt, None)

    def _on_peer_up(self, action: PeerUp) -> None:
        log.info("peer %s is up, version %d", action.peer, action.version)
        self._settle_connecting(action.remote, action.peer, None)

    def _on_dial_ended(self, action: DialEnded) -> None:
        error = action.error or ConnectionClosing(f"{action.remote} was removed while it was being dialled")
        self._settle_connecting(action.remote, None, error)

    def _settle_connecting(self, remote: Any, peer: UUID | None, error: TolliverError | None) -> None:
        _keep_promise(self._connecting.pop(remote, None), peer, error)

    def on_notice(self, notice: Notice) -> None:
        self.notices.append(notice)
        log.warning("%s: %s", notice.kind, notice.detail)


def _keep_promise(promise: Promise | None, value: Any, error: TolliverError | None) -> None:
    if promise is None:
        return
    if error is None:
        promise.resolve(value)
    else:
        promise.fail(error)
