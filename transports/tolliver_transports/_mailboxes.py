"""Waiting, for asyncio and trio: promises, bells, and the mailboxes of iterators and callbacks.

The idea: a mailbox takes runs without waiting and gives them to one task that does. It needs no bound of its own:
what is handed out and not settled is the connection's credit, and the node stops reading when it is spent (D-9).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

import anyio
import anyio.lowlevel

from tolliver_proto import Delivery, Node, NoticeKind, TolliverError

from ._inbox import Received, Run, Settlement, handled_well

T = TypeVar("T")
Callback = Callable[[Delivery], Any]


class Owner(Protocol):
    """What a mailbox asks of its instance."""

    node: Node
    mailboxes: set[Mailbox]

    def turn(self) -> None: ...

    def abandon(self, mailbox: Mailbox) -> None: ...

    async def subscribe(self, channel: str, key: str) -> None: ...

    def complain(self, kind: NoticeKind, delivery: Delivery, text: str) -> None: ...


class Promise(Generic[T]):
    """An answer that is still to come, for any number of tasks."""

    __slots__ = ("_error", "_event", "_value")

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._error: TolliverError | None = None

    def resolve(self, value: T) -> None:
        self._value = value
        self._event.set()

    def fail(self, error: TolliverError) -> None:
        self._error = error
        self._event.set()

    async def wait(self) -> T:
        await self._event.wait()
        if self._error is not None:
            raise self._error
        return self._value


class Bell:
    """An event that can be rung again and again. One task listens."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = anyio.Event()

    def ring(self) -> None:
        self._event.set()

    async def heard(self) -> None:
        await self._event.wait()
        self._event = anyio.Event()


class Mailbox:
    """What matches one registration, for one task that takes it. This is what the node knows as a handler."""

    def __init__(self, instance: Owner, channel: str, key: str) -> None:
        instance.node.register(channel, key, self)
        self._instance = instance
        self._names = (channel, key)
        self._bell = Bell()
        self._runs: deque[Run] = deque()
        self._held: list[Run] = []
        self._closed = False
        instance.mailboxes.add(self)

    def put(self, deliveries: Sequence[Delivery], settlement: Settlement) -> None:
        self._runs.append(Run(deliveries, settlement))
        self._bell.ring()

    async def next_run(self) -> Run | None:
        """The next messages that came together, or None when this was closed."""
        while not self._runs:
            if self._closed:
                return None
            await self._bell.heard()
        run = self._runs.popleft()
        self._held = [one for one in self._held if not one.settled]
        self._held.append(run)
        return run

    def close(self) -> None:
        """Take no more, and fail what is not settled, so that it comes again."""
        if self._closed:
            return
        self._closed = True
        self._instance.mailboxes.discard(self)
        self._instance.node.unregister(*self._names, self)
        for run in (*self._held, *self._runs):
            run.fail()
        self._runs.clear()
        self._bell.ring()


class _Iterator:
    """The application's end of a mailbox. The mailbox does not know it: so it can be seen when nobody does any more."""

    _mailbox: Mailbox | None = None

    def __init__(self, instance: Owner, channel: str, key: str, subscribe: bool) -> None:
        self._instance = instance
        self._names = (channel, key)
        self._subscribe = subscribe
        self._mailbox = Mailbox(instance, channel, key)

    async def next_run(self) -> Run:
        await self._begin()
        run = await self._mailbox.next_run() if self._mailbox else None
        if run is None:
            raise StopAsyncIteration
        return run

    async def _begin(self) -> None:
        if self._subscribe:
            await self._instance.subscribe(*self._names)
            self._subscribe = False

    def __aiter__(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        await self._begin()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Take no more; what was not settled is not acknowledged and comes again. The subscription stays."""
        if self._mailbox is not None:
            self._mailbox.close()

    def __del__(self) -> None:
        if self._mailbox is not None:
            self._instance.abandon(self._mailbox)


class Messages(_Iterator):
    """An iterator of what matches, one message at a time, for one task. Leaving it fails what it still holds."""

    def __init__(self, instance: Owner, channel: str, key: str, subscribe: bool) -> None:
        super().__init__(instance, channel, key, subscribe)
        self._current: deque[Received] = deque()

    async def __anext__(self) -> Received:
        while not self._current:
            run = await self.next_run()
            self._current.extend(Received(delivery, run) for delivery in run)
        return self._current.popleft()

    def close(self) -> None:
        self._current.clear()
        super().close()


class Runs(_Iterator):
    """As Messages, a run at a time: `async for run in instance.message_runs(...)`."""

    async def __anext__(self) -> Run:
        return await self.next_run()


class Registration:
    """A callback at work. `close()` ends it; what it holds is failed and comes again."""

    def __init__(self, instance: Owner, channel: str, key: str, callback: Callback) -> None:
        self._instance = instance
        self._callback = callback
        self._mailbox = Mailbox(instance, channel, key)
        self._scope = anyio.CancelScope()

    def __await__(self) -> Generator[None, None, Registration]:
        """There is nothing to wait for; `await` is allowed so that all calls may be written alike."""
        yield from ()
        return self

    def close(self) -> None:
        self._scope.cancel()
        self._mailbox.close()

    async def work(self) -> None:
        """The task that calls the callback, one delivery after the other."""
        with self._scope:
            while (run := await self._mailbox.next_run()) is not None:
                await self._handle(run)
                self._instance.turn()
                await anyio.lowlevel.checkpoint()

    async def _handle(self, run: Run) -> None:
        well: list[Delivery] = []
        for delivery in run:
            try:
                result = self._callback(delivery)
                if result is None:
                    well.append(delivery)
                    continue
                if hasattr(result, "__await__"):
                    run.settle(well, True)  # what is done must not wait for what takes its time
                    well.clear()
                    result = await result
            except Exception as error:
                self._instance.complain(NoticeKind.HANDLER_FAILED, delivery, f"raised {error!r:.200}")
                run.settle((delivery,), False)
                continue
            if handled_well(result):
                well.append(delivery)
            else:
                self._instance.complain(NoticeKind.HANDLER_FAILED, delivery, f"returned {result!r:.200}")
                run.settle((delivery,), False)
        run.settle(well, True)
