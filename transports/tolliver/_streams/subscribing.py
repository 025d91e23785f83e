"""Inbound streams from a publisher, and their demand.

An `InboundStream` receives elements and grants more as the application processes them. It counts the elements granted
and the elements processed; an element counts as processed when the next one is asked for. When the difference falls to
half of the window, it grants enough to fill the window again.

A small window is refilled after each element, and any window more often at the beginning of a stream. Otherwise a
subscriber that always leaves before half a window would never report an element as processed, and a bridge would send
it the same messages for ever. No code here waits: the adapter's `Subscription` does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

from tolliver_proto.node import check_count, check_type
from tolliver_proto.reactive import UNBOUNDED, Elements, Hub, OnComplete, OnError, StreamError, Subscribed

from .._driver.adapter import Wakeup
from .._driver.endpoint import Closable, Closing
from .._driver.ends import is_interrupt
from ..codecs._codec import Coding
from .publishing import OutboundStream
from .sources import converted

PREFETCH = 256  # elements
_SMALL = 16  # windows up to this size are refilled after each element


class InboundCore(Protocol):
    """The part of the streams' core that inbound streams use."""

    hub: Hub

    def run_actions(self) -> None: ...

    def inbound_over(self, stream: InboundStream) -> None: ...


def window_of(demand: int | None, prefetch: int | None) -> tuple[int, int]:
    """First grant and window, in elements, from the arguments `demand` and `prefetch` of `Streams.subscribe`, of which
    one or both may be None. Raises TypeError, ValueError.
    """
    if demand is not None:
        check_type("demand", demand, int, "a number of elements")
    if prefetch is not None:
        check_count("prefetch", prefetch)
    else:
        prefetch = demand if demand is not None and demand > 0 else PREFETCH
    return (prefetch if demand is None else demand), prefetch


def check_handler(handler: object) -> None:
    """Raises TypeError if the handler is not callable."""
    if not callable(handler):
        raise TypeError(f"the handler is {handler!r:.100}: give a function of an element")


class InboundStream:
    """One stream from a publisher to us: what was granted, and the elements that have come. Its public object is a
    Subscription, which documents its options.
    """

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
        """True once no more elements come: ended by the publisher, by us, or with the connection."""
        self.element_size: int | None = None
        """Element size in bytes that the publisher declared; 0 if sizes differ; None before its answer."""
        self.name = name
        self.outbound: set[OutboundStream] = set()
        """Outbound streams that have this stream as their source. They are notified when it ends."""
        self._owner = owner
        self._cid = cid
        self._decode: Callable[[bytes], Any] | None = coding.decode
        self._runs: deque[list[bytes]] = deque()
        self._at = 0  # elements of the first run that are taken
        self._taken = 0  # granted elements that the application has taken
        self._error: BaseException | None = None
        self._id = owner.hub.subscribe(cid, name, self._granted)
        self.key: tuple[int, int] = (cid, self._id)

    # Input from the peer.

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

    # Input from the application.

    def take(self, most: int | None = None) -> list[Any]:
        """The next elements, decoded, at most `most`; [] if none has arrived. Those taken earlier count as processed
        now.

        Raises the error of a failed stream, after its last element. An error of the codec ends the stream.
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
        """Grant `count` more elements, in addition to the window. A count below 1 ends the stream with an error (R-16).

        Raises TypeError.
        """
        check_type("count", count, int, "a number of elements")
        if not self.closed:
            self._request(count)
            self._owner.run_actions()

    def close(self) -> None:
        """Cancel the stream, and drop elements that have arrived. Does nothing if the stream has ended."""
        self._drop()
        if not self.closed:
            self.closed = True
            self._owner.hub.cancel(*self.key)
            self._owner.inbound_over(self)
            self._tell_end()
        self._owner.run_actions()

    def fail(self, error: BaseException) -> None:
        """Cancel the stream, because the application cannot use an element. The next `take` raises the error."""
        self.close()
        self._error = error

    @property
    def waiting(self) -> bool:
        """True if elements can be taken."""
        return bool(self._runs)

    def _grant(self) -> bool:
        """Ask the publisher for more elements if enough of the window is free; True if it did."""
        used = self._window - (self._granted - self._taken)
        most = 1 if self._window <= _SMALL else self._window - self._window // 2
        if self._window and not self.closed and used >= self._share(most):
            self._request(used)
            return True
        return False

    def _share(self, most: int) -> int:
        """Number of elements to hand out at once: `most`, but at the beginning of a stream less, a quarter of the
        elements taken so far, and at least 1.
        """
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
    """The part of the streams' core that subscriptions use."""

    @property
    def lock(self) -> AbstractContextManager[object]: ...

    def abandon(self, dropped: Closable) -> None: ...


class BaseSubscription(ABC):
    """The public object for an inbound stream. The stream has no reference to it, so that dropping it cancels the
    stream."""

    def __init__(self, core: SubscriptionCore, stream: InboundStream) -> None:
        self._core = core
        self._stream = stream

    @property
    def element_size(self) -> int | None:
        """Element size in bytes that the publisher declared; 0 if sizes differ; None before its answer."""
        return self._stream.element_size

    @property
    def closed(self) -> bool:
        """True if the stream has ended: no elements come except those that have arrived."""
        return self._stream.closed

    def request(self, count: int) -> None:
        """Grant `count` more elements, in addition to the window. A count below 1 ends the stream with an error
        (R-16)."""
        with self._core.lock:
            self._stream.request(count)

    def cancel(self) -> None:
        """Cancel the stream. Does nothing if it has ended."""
        with self._core.lock:
            self._forget()
            self._stream.close()

    @abstractmethod
    def _forget(self) -> None:
        """Drop elements that were taken from the stream but not handed out."""

    @abstractmethod
    def _has_more(self) -> bool:
        """True if elements were taken from the stream but not handed out."""

    def _attach_outbound(self, outbound: OutboundStream) -> None:
        """Become the source of an outbound stream, which sees the end of this stream without demand (rules 1.5, 4.2).

        When the last such outbound stream ends, this stream is cancelled (rule 4.1).
        """
        stream = self._stream
        stream.outbound.add(outbound)
        outbound.at_end = lambda: stream.closed and not stream.waiting and not self._has_more()
        outbound.on_over = partial(self._detach_outbound, outbound)

    def _detach_outbound(self, outbound: OutboundStream) -> None:
        """Forget an outbound stream that has ended. Cancelling waits for our own next turn: the outbound stream may
        belong to another program, whose lock is held now."""
        self._stream.outbound.discard(outbound)
        if not self._stream.outbound:
            self._core.abandon(Closing(self.cancel))

    def __repr__(self) -> str:
        return f"<Subscription to {self._stream.name!r:.100}{', over' if self.closed else ''}>"

    def __del__(self) -> None:
        if hasattr(self, "_stream"):
            self._core.abandon(self._stream)
