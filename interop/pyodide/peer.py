"""Whole `Node` in WebAssembly, over the sockets of Node.js (`sockets.mjs`).

Everything happens in one thread: a socket or the timer calls an input, the input turns the node, and each action is
carried out before the next one. No action calls an input: a socket answers in a later turn of Node's loop.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Protocol, cast
from uuid import UUID

from tolliver_proto import (
    Abort,
    Action,
    Commit,
    ConnectionLost,
    Deliver,
    Delivery,
    Dial,
    Fetch,
    Node,
    Notice,
    PauseReading,
    PeerIdentity,
    Receipt,
    ResumeReading,
    Role,
    ShutdownWrite,
    Stored,
    Transmit,
)
from tolliver_proto.store import Find, Operation
from tolliver_proto.testing import MemoryStore


class Sockets(Protocol):
    """The calls of `sockets.mjs`."""

    def dial(self, cid: int, host: str, port: int) -> None: ...
    def write(self, cid: int, units: Any) -> None: ...
    def shutdown(self, cid: int) -> None: ...
    def abort(self, cid: int) -> None: ...
    def pause(self, cid: int) -> None: ...
    def resume(self, cid: int) -> None: ...
    def wake(self, seconds: float | None) -> None: ...


class Journal:
    """Commits in a file, one pickle behind the other. A store in memory is made from it when it is opened.

    It is never written anew, so it grows: a store for trials. The browser's or Node's own database would be another.
    """

    def __init__(self, path: Path) -> None:
        self.store = MemoryStore()
        whole = 0
        if path.exists():
            with path.open("rb") as file:
                for operations in _pickles(file):
                    self.store.commit(operations)
                    whole = file.tell()
            os.truncate(path, whole)  # a line torn by a kill was never promised
        self._file = path.open("ab")

    def commit(self, operations: Sequence[Operation]) -> None:
        """Raises StoreError, and then nothing is written."""
        self.store.commit(operations)
        pickle.dump(list(operations), self._file)
        self._file.flush()
        os.fsync(self._file.fileno())


def _pickles(file: Any) -> Iterator[Any]:
    while True:
        try:
            yield pickle.load(file)
        except (EOFError, pickle.UnpicklingError):
            return


class Peer:
    """Inputs for `sockets.mjs`, and the calls of a program: `send`, `unreliable_send`, `close`.

    A handler is called with each delivery, and fails it by an exception. `tell` is given each notice. `to_js` makes of
    a list of bytes what `Sockets.write` takes.
    """

    def __init__(
        self,
        sockets: Sockets,
        journal: Journal,
        to_js: Callable[[Any], Any],
        tell: Callable[[str], None],
        **options: Any,
    ) -> None:
        self._sockets = sockets
        self._journal = journal
        self._to_js = to_js
        self._tell = tell
        self._waiting: dict[Receipt, Callable[[Receipt], None]] = {}
        now = time.monotonic()
        self.node = Node(rng=Random(), loaded=journal.store.load(), now=now, **options)

    # Calls of the program.

    def connect(self, host: str, port: int) -> None:
        self.node.connect((host, port), time.monotonic())
        self.turn()

    def send(self, channel: str, key: str, body: bytes, stored: Callable[[Receipt], None]) -> None:
        """`stored` is called once it is on disk, with how many recipients it has."""
        self._waiting[self.node.send(channel, key, body, time.monotonic())] = stored
        self.turn()

    def unreliable_send(self, channel: str, key: str, body: bytes) -> int:
        reached = self.node.unreliable_send(channel, key, body, time.monotonic())
        self.turn()
        return reached

    def close(self) -> None:
        self.node.close(time.monotonic())
        self.turn()

    # Inputs from the sockets.

    def accepted(self, address: str) -> int | None:
        return self.node.new_cid(time.monotonic(), address)

    def opened(self, cid: int, dialled: bool, uuids: str, key: str | None) -> None:
        identity = PeerIdentity(frozenset(map(UUID, uuids.split())), bytes.fromhex(key) if key else None)
        self.node.opened(cid, Role.CLIENT if dialled else Role.SERVER, identity, time.monotonic())
        self.turn()

    def dial_failed(self, cid: int, why: str) -> None:
        self.node.dial_failed(cid, ConnectionLost(why), time.monotonic())
        self.turn()

    def received(self, cid: int, data: Any) -> None:
        self.node.receive_data(cid, data.to_bytes(), time.monotonic())
        self.turn()

    def ended(self, cid: int) -> None:
        self.node.receive_eof(cid, time.monotonic())
        self.turn()

    def lost(self, cid: int, why: str | None) -> None:
        self.node.lost(cid, ConnectionLost(why) if why else None, time.monotonic())
        self.turn()

    def sent(self, cid: int) -> None:
        self.node.sent(cid, time.monotonic())
        self.turn()

    def time_passed(self) -> None:
        self.turn()

    # Actions of the node.

    def turn(self) -> None:
        self.node.handle_timeout(time.monotonic())
        while (action := self.node.next_action()) is not None:
            self._act(action, time.monotonic())
        due = self.node.next_timeout()
        self._sockets.wake(None if due is None else max(0.0, due - time.monotonic()))

    def _act(self, action: Action, now: float) -> None:
        match action:
            case Commit():
                self._journal.commit(action.operations)
                self.node.committed(action.batch_id, now)
            case Fetch():
                rows = self._journal.store.fetch(action.peer, action.after_seq, action.max_count, action.max_bytes)
                self.node.fetched(action.peer, rows, now)
            case Find():
                self.node.found(action.search_id, action.ask(self._journal.store), None, now)
            case Deliver():
                for delivery in action.deliveries:
                    self._deliver(delivery, action.handlers)
            case Stored():
                for receipt in action.tokens:
                    if (stored := self._waiting.pop(receipt, None)) is not None:
                        stored(receipt)
            case Notice():
                self._tell(f"{action.kind}: {action.detail}")
            case Dial():
                self._sockets.dial(action.cid, *cast("tuple[str, int]", action.remote))
            case Transmit():
                self._sockets.write(action.cid, self._to_js(action.units))
            case ShutdownWrite():
                self._sockets.shutdown(action.cid)
            case Abort():
                self._sockets.abort(action.cid)
            case PauseReading():
                self._sockets.pause(action.cid)
            case ResumeReading():
                self._sockets.resume(action.cid)
            case _:
                pass  # the others tell a person or a caller something

    def _deliver(self, delivery: Delivery, handlers: Sequence[Any]) -> None:
        try:
            for handler in handlers:
                handler(delivery)
        except Exception as error:
            self._tell(f"a handler failed: {error!r}")
            self.node.fail([delivery], time.monotonic())
        else:
            self.node.acknowledge([delivery], time.monotonic())
