"""Handlers side by side.

One handler has several messages at once, in order inside a key where that is asked for. `Lanes` of the core says which
may begin. Here are the mailbox that asks it, on loops and in threads, and the calls on a loop: a task for each that
gives back something to await.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from operator import attrgetter
from time import monotonic
from typing import Any, Literal, NamedTuple
from uuid import UUID

from tolliver_proto import Delivery, Lanes

from .._driver.adapter import Wakeup
from .._driver.ends import is_interrupt
from .._driver.loop_endpoint import SLICE
from .inbox import Core, Handler, Mailbox, settle

OrderedBy = Literal["key"] | None


class SideBySide(NamedTuple):
    """Choices of a registration: calls at once, what is kept in order, messages that it may have at once."""

    concurrency: int = 1
    ordered_by: OrderedBy = None
    pending: int | None = None

    @property
    def is_one(self) -> bool:
        """True if one call follows the other, which keeps all in order."""
        return self.concurrency == 1


def chosen(concurrency: int = 1, ordered_by: OrderedBy = None, pending: int | None = None) -> SideBySide:
    """The choices as a program gives them. Raises ValueError, TypeError."""
    if isinstance(concurrency, bool) or not isinstance(concurrency, int):
        raise TypeError(f"concurrency={concurrency!r:.100}: give the number of calls at once")
    if concurrency < 1:
        raise ValueError(f"concurrency={concurrency}: give the number of calls at once, at least 1")
    if ordered_by not in (None, "key"):
        raise ValueError(f'ordered_by={ordered_by!r:.100}: give "key", or None')
    return SideBySide(concurrency, ordered_by, pending)


def chosen_with(handler: object, concurrency: int, ordered_by: OrderedBy, pending: int | None) -> SideBySide:
    """The same where a handler may be left out. Raises TypeError where it is, and there are choices for it."""
    how = chosen(concurrency, ordered_by, pending)
    if handler is None and how != SideBySide():
        raise TypeError("concurrency, ordered_by and pending are choices of a handler: give one")
    return how


class LaneMailbox(Mailbox):
    """Deliveries that match one registration, for several calls at once."""

    def __init__(self, core: Core, channel: str, key: str, wakeup: Wakeup, calls: str, how: SideBySide) -> None:
        self._lanes: Lanes[Delivery] = Lanes(how.concurrency, attrgetter("key") if how.ordered_by else None)
        self._began: dict[Delivery, float] = {}  # when the call of each began
        super().__init__(core, channel, key, wakeup, calls, how.pending)

    def begin_next(self) -> Delivery | None:
        """The next delivery whose call begins now, or None where none may."""
        while not self.closed:
            delivery = self._lanes.begin()
            if delivery is None:
                run = self.take() if self._lanes.has_place else None
                if run is None:
                    return None
                for one in run:
                    self._lanes.add(one)
            else:
                self.begin((delivery,))
                self._began[delivery] = monotonic()
                return delivery
        return None

    def returned(self, delivery: Delivery, result: object) -> None:
        """Its call has."""
        if self.is_well(delivery, result):
            delivery.ack()

    def end_call(self, delivery: Delivery) -> None:
        """Its call is over (D-9)."""
        self.end((delivery,))
        self.took(monotonic() - self._began.pop(delivery), 1)
        self._lanes.end(delivery)

    def take_back(self, peer: UUID) -> None:
        """Let go what nobody has begun and came from this peer: others need its credit."""
        for one in self._lanes.take_out(lambda delivery: delivery.peer_id == peer):
            settle(one, None)
        self._take_back_waiting(peer)


class SideBySideCalls:
    """Calls of one handler on a loop. They begin at the end of the turn that has read their messages."""

    def __init__(self, core: Any, channel: str, key: str, handler: Handler, name: str, how: SideBySide) -> None:
        self._core = core
        self._handler = handler
        self._context = core.context()
        self._tasks: dict[Delivery, Callable[[], object] | None] = {}
        self.mailbox = LaneMailbox(core, channel, key, self, name, how)
        self.mailbox.open()

    def close(self) -> None:
        for cancel in [*self._tasks.values()]:
            if cancel is not None:
                cancel()
        self.mailbox.close()

    def set(self) -> None:
        """Something has come, or nothing will any more."""
        if not self.mailbox.closed:
            self._core.call_at_end(self)

    def call(self, until: float) -> None:
        self._context.run(self._begin_each, until)

    def _begin_each(self, until: float) -> None:
        """Call the handler for all that may begin, until then."""
        while (delivery := self.mailbox.begin_next()) is not None:
            awaited = self._called(delivery)
            if awaited is not None:
                self._tasks[delivery] = None
                cancel = self._core.spawn(partial(self._work, delivery, awaited))
                if delivery in self._tasks:
                    self._tasks[delivery] = cancel
            if monotonic() > until:
                self.set()
                return

    def _called(self, delivery: Delivery) -> Awaitable[object] | None:
        """The awaitable that the call gave back, if it did."""
        try:
            result = self._handler(delivery)
        except BaseException as error:
            if is_interrupt(error):
                raise
            self._raised(delivery, error)
            return None
        if isinstance(result, Awaitable):
            return result
        self._returned(delivery, result)
        return None

    async def _work(self, delivery: Delivery, awaited: Awaitable[object]) -> None:
        try:
            outcome = await awaited
        except BaseException as error:
            if self._core.is_outside(error):
                raise
            self._raised(delivery, error)
        else:
            self._returned(delivery, outcome)
        finally:
            del self._tasks[delivery]
        self._begin_each(monotonic() + SLICE)

    def _returned(self, delivery: Delivery, result: object) -> None:
        self.mailbox.returned(delivery, result)
        self.mailbox.end_call(delivery)

    def _raised(self, delivery: Delivery, error: BaseException) -> None:
        if not self.mailbox.closed:  # on Twisted, cancelling raises an Exception
            self.mailbox.raised(delivery, error)
        self.mailbox.end_call(delivery)
