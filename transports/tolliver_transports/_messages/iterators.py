"""Taking messages where one awaits: iterators and callbacks, for asyncio, trio and Twisted alike.

The idea: nothing here knows the loop. All that is ever awaited is a mailbox's bell, the application's own awaitable and
`breathe()`, and each adapter brings these in its own form.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Protocol, Self

from .inbox import Callback, Calls, Mailbox, Owner, Received, Run


class AsyncOwner(Owner, Protocol):
    """What they ask of their instance."""

    turn_follows: bool

    def subscribe(self, channel: str, key: str) -> Awaitable[None]: ...

    def spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], object]:
        """Run it beside everything else; what is returned cancels it."""

    def breathe(self) -> Awaitable[object]:
        """Let others run."""


class _Iterator:
    """The application's end of a mailbox. The mailbox does not know it: so it can be seen when nobody does any more."""

    _mailbox: Mailbox | None = None

    def __init__(self, instance: AsyncOwner, channel: str, key: str, subscribe: bool) -> None:
        self._instance = instance
        self._names = (channel, key)
        self._subscribe = subscribe
        self._mailbox = Mailbox(instance, channel, key)

    async def next_run(self) -> Run:
        await self._begin()
        run = await _next_run(self._mailbox) if self._mailbox else None
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

    def __init__(self, instance: AsyncOwner, channel: str, key: str, subscribe: bool) -> None:
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

    def __init__(self, instance: AsyncOwner, channel: str, key: str, callback: Callback) -> None:
        self._instance = instance
        self._callback = callback
        self._mailbox = Mailbox(instance, channel, key)
        self._cancel = instance.spawn(self._work)

    def __await__(self) -> Generator[None, None, Registration]:
        """There is nothing to wait for; `await` is allowed so that all calls may be written alike."""
        yield from ()
        return self

    def close(self) -> None:
        self._cancel()
        self._mailbox.close()

    async def _work(self) -> None:
        """Call the callback, for one delivery after the other."""
        while (run := await _next_run(self._mailbox)) is not None:
            self._instance.turn_follows = True
            await self._handle(run)
            self._instance.turn_follows = False
            self._instance.turn()
            if self._mailbox.waiting:
                await self._instance.breathe()

    async def _handle(self, run: Run) -> None:
        calls = Calls(self._instance, run)
        for delivery in run:
            if self._mailbox.closed:
                return
            try:
                result = self._callback(delivery)
                if result is not None and hasattr(result, "__await__"):
                    calls.end()  # what is done must not wait for what takes its time
                    self._instance.turn_follows = False
                    self._instance.turn()
                    result = await result
                    self._instance.turn_follows = True
            except Exception as error:
                if not self._mailbox.closed:  # on Twisted, cancelling raises an Exception
                    calls.raised(delivery, error)
            else:
                calls.returned(delivery, result)
        calls.end()


async def _next_run(mailbox: Mailbox) -> Run | None:
    """The next messages that came together, or None when the mailbox was closed."""
    while (run := mailbox.take()) is None:
        if mailbox.closed:
            return None
        await mailbox.bell.heard()
    return run


class Count(int):
    """A number that is there at once. `await` is allowed, so that all calls may be written alike."""

    def __await__(self) -> Generator[Any, None, Count]:
        yield from ()
        return self
