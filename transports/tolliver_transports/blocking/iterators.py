"""Taking messages in threads: iterators that wait, and callbacks on a thread of their own.

The idea: a mailbox's bell is a condition on the machine's lock, so waiting for a message lets the machine go on, and
several threads may take from one iterator. What is said of a message, from whatever thread, is said under that lock.
"""

from __future__ import annotations

import inspect
import math
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

from tolliver_proto import ConnectionClosing, Delivery

from .._messages.inbox import Callback, Calls, Mailbox, Owner, Received, Run, Settlement
from .wire import limited

Item = TypeVar("Item", Received, Run)


class ThreadOwner(Owner, Protocol):
    """What they ask of their instance."""

    @property
    def lock(self) -> threading.RLock:
        """The machine's. Raises ConnectionClosing in a forked child."""

    def check_open(self) -> None: ...

    def subscribe(self, channel: str, key: str) -> None: ...


class Bell(threading.Condition):
    """Tells the threads that wait for one mailbox to look again. It is rung under the lock."""

    def ring(self) -> None:
        self.notify_all()


class LockedRun(Run):
    """One that any thread may settle."""

    def __init__(self, owner: ThreadOwner, deliveries: Sequence[Delivery], settlement: Settlement) -> None:
        super().__init__(deliveries, settlement)
        self._owner = owner

    def settle(self, deliveries: Iterable[Delivery], well: bool) -> None:
        with self._owner.lock:
            super().settle(deliveries, well)


class Inbox(Mailbox):
    """A mailbox that threads wait for."""

    def __init__(self, owner: ThreadOwner, channel: str, key: str) -> None:
        self._owner = owner
        with owner.lock:
            owner.check_open()
            super().__init__(owner, channel, key)

    def put(self, deliveries: Sequence[Delivery], settlement: Settlement) -> None:
        self._runs.append(LockedRun(self._owner, deliveries, settlement))
        self.bell.ring()

    def wait(self, timeout: float | None = None) -> Run | None:
        """The next run, or None when it was closed. Call it under the lock. Raises TimeoutError."""
        end = math.inf if timeout is None else time.monotonic() + timeout
        while (run := self.take()) is None and not self.closed:
            left = end - time.monotonic()
            if left <= 0:
                channel, key = self._names
                raise TimeoutError(f"after {timeout:g} s no message of {channel!r:.100} {key!r:.100} has come: go on")
            self.bell.wait(limited(left))
        return run

    def close(self) -> None:
        with self._owner.lock:
            super().close()


class _Iterator(ABC, Generic[Item]):
    """The application's end of a mailbox. The mailbox does not know it: so it can be seen when nobody does any more."""

    _inbox: Inbox | None = None

    def __init__(self, owner: ThreadOwner, channel: str, key: str, subscribe: bool, timeout: float | None) -> None:
        self._owner = owner
        self._timeout = timeout
        self._current: deque[Item] = deque()
        self._inbox = Inbox(owner, channel, key)
        if subscribe:
            owner.subscribe(channel, key)

    @abstractmethod
    def _items(self, run: Run) -> Iterable[Item]: ...

    def _take(self, timeout: float | None) -> Item | None:
        assert self._inbox is not None
        with self._owner.lock:
            while not self._current:
                run = self._inbox.wait(timeout)
                if run is None:
                    return None
                self._current.extend(self._items(run))
            return self._current.popleft()

    def next(self, timeout: float | None = None) -> Item:
        """The next one. Raises TimeoutError after `timeout` seconds, and ConnectionClosing when it was closed."""
        item = self._take(timeout)
        if item is None:
            raise ConnectionClosing("the iterator was closed, by close() or with its instance: nothing more comes")
        return item

    def __next__(self) -> Item:
        try:
            item = self._take(self._timeout)
        except TimeoutError:
            item = None
        if item is None:
            raise StopIteration
        return item

    def __iter__(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Take no more; what was not settled is not acknowledged and comes again. The subscription stays."""
        if self._inbox is not None:
            self._inbox.close()
            self._current.clear()

    def __del__(self) -> None:
        if self._inbox is not None:
            self._owner.abandon(self._inbox)


class Messages(_Iterator[Received]):
    """An iterator of what matches, one message at a time. Leaving it fails what it still holds.

    It ends when it or its instance is closed, and when its `timeout` passes without a message; after that it may be
    used again. Several threads may share one: each message goes to one of them.
    """

    def _items(self, run: Run) -> Iterable[Received]:
        return [Received(delivery, run) for delivery in run]


class Runs(_Iterator[Run]):
    """As Messages, a run at a time: `for run in instance.message_runs(...)`."""

    def _items(self, run: Run) -> Iterable[Run]:
        return (run,)


class Registration:
    """A callback at work, on a thread of its own. `close()` ends it; what it holds is failed and comes again."""

    def __init__(self, owner: ThreadOwner, channel: str, key: str, callback: Callback) -> None:
        if inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(type(callback).__call__):
            raise TypeError(f"{callback!r:.200} is async: give a plain function, it may wait")
        self._owner = owner
        self._callback = callback
        self._inbox = Inbox(owner, channel, key)
        name = f"tolliver calls {getattr(callback, '__name__', callback)!s:.100}"
        try:
            threading.Thread(target=self._work, name=name, daemon=True).start()
        except RuntimeError:  # there are too many
            self.close()
            raise

    def close(self) -> None:
        """A call that is running goes on, and what it says counts no more."""
        self._inbox.close()

    def _work(self) -> None:
        while (run := self._next()) is not None:
            calls = Calls(self._owner, run)
            for delivery in run:
                if self._inbox.closed:
                    return
                self._call(calls, delivery)
                calls.end()  # each at once: the next call may take its time

    def _next(self) -> Run | None:
        with self._owner.lock:
            return self._inbox.wait()

    def _call(self, calls: Calls, delivery: Delivery) -> None:
        try:
            result: Any = self._callback(delivery)
            if inspect.isawaitable(result):
                if inspect.iscoroutine(result):
                    result.close()
                raise TypeError("an awaitable, which nobody awaits here: give a plain function")
        except Exception as error:
            calls.raised(delivery, error)
        else:
            calls.returned(delivery, result)
