"""Inbound streams from a publisher, and their demand.

An `InboundStream` takes what comes and grants more as the application gets through it. It keeps two numbers,
how much was granted and how much is done with; when what lies between falls to half of the window, it is filled up
again. A small window is filled up with each element, and any window more often at the beginning of a stream: else a
subscriber that comes and goes, and takes less than half a window each time, would never say that it is through with
anything, and a bridge would give it the same messages for ever. An element is done with when the next one is asked for.
Nothing here waits: the adapter's own `Subscription` does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

from tolliver_proto.reactive import UNBOUNDED, Elements, Hub, OnComplete, OnError, StreamError, Subscribed

from .._driver.adapter import Wakeup
from .._driver.endpoint import Closable, Closing
from .._driver.ends import is_interrupt
from ..codecs._codec import Coding
from .publishing import OutboundStream
from .sources import converted

PREFETCH = 256  # elements
_SMALL = 16  # a window that is filled up with each of them


class InboundCore(Protocol):
    """The core of a program's streams, as far as inbound ones know it."""

    hub: Hub

    def run_actions(self) -> None: ...

    def inbound_over(self, stream: InboundStream) -> None: ...


def window_of(demand: int | None, prefetch: int | None) -> tuple[int, int]:
    """The first grant and the window, where one or both are left out. Raises TypeError or ValueError."""
    for name, value in (("demand", demand), ("prefetch", prefetch)):
        if value is not None:
            check_count(name, value)
    if prefetch is not None and prefetch < 0:
        raise ValueError(f"prefetch is {prefetch}: give a number of elements, or 0 to call request() yourself")
    if prefetch is None:
        prefetch = demand if demand is not None and demand > 0 else PREFETCH
    return (prefetch if demand is None else demand), prefetch


def check_count(name: str, value: object) -> None:
    """Raises TypeError."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r:.100}: give a number of elements")


def check_handler(handler: object) -> None:
    """Raises TypeError."""
    if not callable(handler):
        raise TypeError(f"the handler is {handler!r:.100}: give a function of an element")


class InboundStream:
    """One stream that is taken. It is what the streams know of a subscription; see Subscription for its options."""

    def __init__(
        self,
        owner: InboundCore,
        cid: int,
        name: str,
        demand: int | None,
        prefetch: int | None,
        coding: Coding,
        wakeup: Wakeup,
    ) -> None:
        self._granted, self._window = window_of(demand, prefetch)
        self.wakeup = wakeup
        self.closed: bool = False
        """Nothing more comes: it was ended by the publisher, by us or with the connection."""
        self.element_size: int | None = None
        """Element size that the publisher declared, in bytes; 0 where elements differ. None before its answer."""
        self.name = name
        self.outbound: set[OutboundStream] = set()
        """Streams whose source it is: they look again when it is closed, by whomever."""
        self._owner = owner
        self._cid = cid
        self._decode: Callable[[bytes], Any] | None = coding.decode
        self._runs: deque[list[bytes]] = deque()
        self._at = 0  # how much of the first run is taken
        self._taken = 0  # of what was granted, how many the application has
        self._error: BaseException | None = None
        self._id = owner.hub.subscribe(cid, name, self._granted)
        self.key: tuple[int, int] = (cid, self._id)

    # Inputs from the peer.

    def on_subscribed(self, event: Subscribed) -> None:
        self.element_size = event.element_size
        self.wakeup.set()

    def on_elements(self, event: Elements) -> None:
        self._runs.append(event.elements)
        self.wakeup.set()

    def on_complete(self, _event: OnComplete) -> None:
        self._end()

    def on_error(self, event: OnError) -> None:
        self._error = event.cause or StreamError(self.name, event.message)
        self._end()

    def _end(self) -> None:
        self.closed = True
        self._owner.inbound_over(self)
        self._tell_end()

    def _tell_end(self) -> None:
        self.wakeup.set()
        for stream in tuple(self.outbound):
            stream.flush_soon()

    # Inputs from the application.

    def take(self, most: int | None = None) -> list[Any]:
        """The next elements, decoded; all that were taken before are done with. [] where none has come.

        Raises what a failed stream failed with, after its last element; a codec's error ends the stream.
        """
        granted = self._grant()
        elements: list[bytes] = []
        goes_on = False
        if self._runs:
            elements = self._next(most or self._share(self._window // 4))
            self._taken += len(elements)
            goes_on = self._owner.hub.took(self._cid, sum(map(len, elements)), len(elements))
        if granted or goes_on:
            self._owner.run_actions()
        if elements:
            return elements if self._decode is None else self._decoded(elements, self._decode)
        if self.closed and self._error is not None:
            raise self._error.with_traceback(None)
        return []

    def request(self, count: int) -> None:
        """Grant `count` more, whatever the window says. Below 1 ends the stream with an error (R-16).

        Raises TypeError.
        """
        check_count("count", count)
        if not self.closed:
            self._request(count)
            self._owner.run_actions()

    def close(self) -> None:
        """Want no more: one cancel goes out, what has come is dropped. Does nothing where the stream is over."""
        self._drop()
        if not self.closed:
            self.closed = True
            self._owner.hub.cancel(*self.key)
            self._owner.inbound_over(self)
            self._tell_end()
        self._owner.run_actions()

    def fail(self, error: BaseException) -> None:
        """The application can do nothing with an element: cancel; whoever takes the next one gets the error."""
        self.close()
        self._error = error

    @property
    def waiting(self) -> bool:
        """True if there is something to take."""
        return bool(self._runs)

    def _grant(self) -> bool:
        """True if more was asked for."""
        used = self._window - (self._granted - self._taken)
        most = 1 if self._window <= _SMALL else self._window - self._window // 2
        if self._window and not self.closed and used >= self._share(most):
            self._request(used)
            return True
        return False

    def _share(self, most: int) -> int:
        """So many elements at once, or less at the beginning: a quarter of what was taken already, and one at least."""
        return max(1, min(most, self._taken // 4))

    def _request(self, count: int) -> None:
        self._owner.hub.request(*self.key, count)
        self._granted = min(self._granted + count, UNBOUNDED)

    def _next(self, most: int) -> list[bytes]:
        run = self._runs[0]
        if not self._at and len(run) <= most:
            return self._runs.popleft()
        piece = run[self._at : self._at + most]
        self._at += len(piece)
        if self._at == len(run):
            self._runs.popleft()
            self._at = 0
        return piece

    def _decoded(self, elements: list[bytes], decode: Callable[[bytes], Any]) -> list[Any]:
        decoded: list[Any] = []
        try:
            decoded.extend(converted(decode, elements))
        except BaseException as error:
            if is_interrupt(error):
                raise
            self.fail(error)
            if not decoded:
                raise
        return decoded

    def _drop(self) -> None:
        left = [element for run in self._runs for element in run][self._at :]
        self._runs.clear()
        self._at = 0
        self._owner.hub.took(self._cid, sum(map(len, left)), len(left))


class SubscriptionCore(Protocol):
    """The core of a program's streams, as far as subscriptions know it."""

    @property
    def lock(self) -> AbstractContextManager[object]: ...

    def abandon(self, dropped: Closable) -> None: ...


class BaseSubscription(ABC):
    """The application's end of an inbound stream, which does not know it: so its end is seen when nobody holds it."""

    def __init__(self, core: SubscriptionCore, stream: InboundStream) -> None:
        self._core = core
        self._stream = stream

    @property
    def element_size(self) -> int | None:
        """Bytes of each element as the publisher declared, 0 where they differ; None before it has answered."""
        return self._stream.element_size

    @property
    def closed(self) -> bool:
        """True if it is over: nothing more comes than has come already."""
        return self._stream.closed

    def request(self, count: int) -> None:
        """Grant `count` more elements, beside what the window grants. Below 1 ends the stream with an error (R-16)."""
        with self._core.lock:
            self._stream.request(count)

    def cancel(self) -> None:
        """Want no more. Does nothing where the stream is over."""
        with self._core.lock:
            self._forget()
            self._stream.close()

    @abstractmethod
    def _forget(self) -> None:
        """Elements that were taken and not handed out."""

    @abstractmethod
    def _has_more(self) -> bool:
        """True if elements were taken and not handed out."""

    def _attach_outbound(self, outbound: OutboundStream) -> None:
        """As the source of a stream: that one sees the end of this one without a request (rules 1.5, 4.2).

        The last one that it is the source of cancels it (rule 4.1).
        """
        stream = self._stream
        stream.outbound.add(outbound)
        outbound.at_end = lambda: stream.closed and not stream.waiting and not self._has_more()
        outbound.on_over = partial(self._detach_outbound, outbound)

    def _detach_outbound(self, outbound: OutboundStream) -> None:
        """In the next turn of our own: the other stream may be another program's, whose lock is held."""
        self._stream.outbound.discard(outbound)
        if not self._stream.outbound:
            self._core.abandon(Closing(self.cancel))

    def __repr__(self) -> str:
        return f"<Subscription to {self._stream.name!r:.100}{', over' if self.closed else ''}>"

    def __del__(self) -> None:
        if hasattr(self, "_stream"):
            self._core.abandon(self._stream)
