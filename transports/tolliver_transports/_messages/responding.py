"""Responders: handlers whose results go back to whoever asked (P-10).

They are called as other handlers are, but several requests may be at work at once, up to the responder's `concurrency`.
Nothing here knows the loop; the first half serves threads, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from time import monotonic

from tolliver_proto import BodyNotDecoded, Delivery, LocalProtocolError, NoticeKind, Request, Requests, TolliverError

from .._driver.adapter import AwaitableWakeup
from .._driver.ends import is_interrupt, told
from .inbox import Core, Mailbox, Run, settle
from .iterators import AsyncCore, Receiver, name_of

Responding = Callable[[Request], object]
"""A function of a request that returns the reply's body, bytes. On a loop, its result may be awaitable."""

CONCURRENCY = 64
_WORDS = 1000
_Item = tuple[Delivery, Awaitable[object]]


class RequestBox(Mailbox):
    """Requests for one responder. Its subscription is how requesters know of it, and outlives the instance: durable
    requests wait for the next one (P-16)."""

    def _register(self) -> None:
        self.core.node.use(Requests).respond(self.channel, self.key, self, monotonic())

    def _unregister(self) -> None:
        self.core.node.use(Requests).stop_responding(self.channel, self.key, self, monotonic(), is_over=False)

    def leave(self) -> None:
        """Nobody responds here any more."""
        with self.core.lock:
            if not self.closed:
                self.core.node.use(Requests).stop_responding(self.channel, self.key, self, monotonic())
                self.close()
                self.core.run_actions()


class Responder(Receiver):
    """A responder at work. `close()` ends it, and requesters are told that nobody is here."""

    _mailbox: RequestBox

    def close(self) -> None:
        """Answer no more: what is at work fails at its requester. A durable request waits for the next responder."""
        self._mailbox.leave()

    def _kind(self) -> str:
        return "Responder"


def answer(core: Core, delivery: Delivery, result: object) -> None:
    """The handler has returned this. Under the machine's lock."""
    try:
        is_settled = core.node.use(Requests).reply(delivery, result, monotonic())  # type: ignore[arg-type]  # it says so itself
    except LocalProtocolError as error:
        refuse(core, delivery, error)
    except TolliverError as error:  # a durable one, for whose reply there is no room: it comes again
        core.complain(NoticeKind.HANDLER_FAILED, delivery, f"has a reply that cannot be stored: {error}", None)
        settle(delivery, None)
    else:
        settle(delivery, True if is_settled else None)


def refuse(core: Core, delivery: Delivery, error: BaseException) -> None:
    """The handler has raised this: its requester is told, and is the one who may ask again."""
    text = words_of(error)
    what = f"did not get it: {error}" if isinstance(error, BodyNotDecoded) else f"raised {told(error)}"
    core.complain(NoticeKind.RESPONDER_FAILED, delivery, f"{what}: the requester is told", error)
    try:
        is_settled = core.node.use(Requests).refuse(delivery, text, monotonic())
    except TolliverError:
        is_settled = False
    settle(delivery, True if is_settled else None)


def words_of(error: BaseException) -> str:
    """An error's own words, cut off; its type where it has none."""
    try:
        text = error.detail if isinstance(error, LocalProtocolError) else str(error)
    except BaseException as failure:
        if is_interrupt(failure):
            raise
        text = ""
    return f"{text:.{_WORDS}}" or type(error).__name__


class RequestCalls:
    """Calls of one responder's handler: the requests that wait, and the places for those at work.

    The node holds it for stuck where every place has been taken for too long (D-9): one slow request is none.
    """

    mailbox: RequestBox

    def __init__(self, handler: Responding, concurrency: int) -> None:
        self._handler = handler
        self._free = concurrency
        self._run: Run | None = None
        self._last: Delivery | None = None  # it has the last place

    def next(self) -> Delivery | None:
        """The request that waits for longest."""
        while not self.mailbox.closed:
            run = self._run
            if run is None:
                run = self._run = self.mailbox.take()
                if run is None:
                    return None
            delivery = run.next()
            if delivery is not None:
                return delivery
            self._run = None
        return None

    @property
    def has_more(self) -> bool:
        """True if there may be another one."""
        return not self.mailbox.closed and (self._run is not None or self.mailbox.waiting)

    def begin(self, delivery: Delivery) -> None:
        """It takes a place."""
        self._free -= 1
        if not self._free:
            self._last = delivery
            self.mailbox.begin((delivery,))

    def end(self) -> None:
        """A place is free again."""
        if self._last is not None:
            self.mailbox.end((self._last,))
            self._last = None
        self._free += 1


class _Worker:
    """A task that awaits what handlers have returned, one after the other."""

    __slots__ = ("cancel", "item", "wakeup")

    def __init__(self, wakeup: AwaitableWakeup) -> None:
        self.wakeup = wakeup
        self.item: _Item | None = None
        self.cancel: Callable[[], object] = wakeup.set

    def end(self) -> None:
        """It awaits nothing more. A coroutine that it has not begun will not be."""
        item, self.item = self.item, None
        if item is not None and isinstance(item[1], Coroutine):
            item[1].close()
        self.cancel()


class _LoopCalls(RequestCalls):
    """On a loop, which makes the calls at the end of the turn that has read the requests.

    Awaitables that they give back are for tasks, of which there are as many as were at work at once; they stay for
    the next ones.
    """

    def __init__(self, core: AsyncCore, channel: str, key: str, handler: Responding, concurrency: int) -> None:
        super().__init__(handler, concurrency)
        self._core = core
        self._context = core.context()
        self._idle: list[_Worker] = []
        self._workers: list[_Worker] = []
        self.mailbox = RequestBox(core, channel, key, self, name_of(handler))
        self.mailbox.open()

    def set(self) -> None:
        """Something has come, or nothing will any more."""
        if self.mailbox.closed:
            for worker in self._workers:
                worker.end()
        elif self._free:
            self._core.call_at_end(self)

    def call(self, until: float) -> None:
        while self._free and (delivery := self.next()) is not None:
            try:
                result = self._context.run(self._handler, Request(delivery))
            except BaseException as error:
                if is_interrupt(error):
                    raise
                refuse(self._core, delivery, error)
            else:
                if type(result) is bytes or not isinstance(result, Awaitable):
                    answer(self._core, delivery, result)
                else:
                    self._await(delivery, result)
            if monotonic() > until:
                self._core.call_at_end(self)
                return

    def _await(self, delivery: Delivery, result: Awaitable[object]) -> None:
        self.begin(delivery)
        item = delivery, result
        if self._idle:
            worker = self._idle.pop()
            worker.item = item
            worker.wakeup.set()
        else:
            worker = _Worker(self._core.wakeup())
            worker.item = item
            self._workers.append(worker)
            worker.cancel = self._context.run(self._core.spawn, partial(self._work, worker))

    async def _work(self, worker: _Worker) -> None:
        while not self.mailbox.closed:
            item, worker.item = worker.item, None
            if item is None:
                await worker.wakeup.wait()
                continue
            await self._wait_for(*item)
            self._idle.append(worker)
            self.end()
            if self.has_more:
                self._core.call_at_end(self)

    async def _wait_for(self, delivery: Delivery, result: Awaitable[object]) -> None:
        try:
            outcome = await result
        except BaseException as error:
            if self._core.is_outside(error):
                raise
            if not self.mailbox.closed:  # on Twisted, cancelling raises an Exception
                refuse(self._core, delivery, error)
        else:
            if not self.mailbox.closed:
                answer(self._core, delivery, outcome)


class LoopResponder(Responder):
    """A responder on a loop."""

    def __init__(self, core: AsyncCore, channel: str, key: str, handler: Responding, concurrency: int) -> None:
        self._mailbox = _LoopCalls(core, channel, key, handler, concurrency).mailbox


def checked_responder(handler: Responding, concurrency: int) -> tuple[Responding, int]:
    """Handler and places of a responder, which will do. Raises TypeError, ValueError."""
    if not callable(handler):
        raise TypeError(f"the handler {handler!r:.200} cannot be called: give a function of a request")
    if not isinstance(concurrency, int) or concurrency < 1:
        raise ValueError(f"concurrency={concurrency!r:.100}: give a number of requests, 1 or more")
    return handler, concurrency
