"""What a program subscribes to: each stream on its way to the application.

The idea: an `InboundStream` takes what comes and grants more as the application gets through it. It keeps two numbers,
how much was granted and how much is done with; when what lies between falls to half of the window, it is filled up
again. An element is done with when the next one is asked for. Nothing here waits: the adapter's own `Subscription`
does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from tolliver_proto.reactive import UNBOUNDED, Elements, Hub, OnComplete, OnError, StreamError, Subscribed

from .codecs import Codec

PREFETCH = 256  # elements


class IntakeOwner(Protocol):
    """What an intake asks of the streams that it belongs to."""

    hub: Hub

    def bell(self) -> Any: ...

    def turn(self) -> None: ...

    def intake_over(self, intake: InboundStream) -> None: ...


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
        self, owner: IntakeOwner, cid: int, name: str, demand: int | None, prefetch: int | None, codec: Codec
    ) -> None:
        self._granted, self._window = window_of(demand, prefetch)
        self.bell = owner.bell()
        self.closed = False
        """Nothing more comes: it was ended by the publisher, by us or with the connection."""
        self.element_size: int | None = None
        """What the publisher declared, in bytes; 0 where elements differ. None before its answer."""
        self.name = name
        self.on_over: Callable[[], object] = lambda: None
        """Called when it is closed, by whomever."""
        self._owner = owner
        self._cid = cid
        self._decode: Callable[[bytes], Any] | None = codec.decode
        self._piece = max(1, self._window // 4)
        self._runs: deque[list[bytes]] = deque()
        self._at = 0  # how much of the first run is taken
        self._taken = 0  # of what was granted, how many the application has
        self._error: Exception | None = None
        self._id = owner.hub.subscribe(cid, name, self._granted)
        self.key = (cid, self._id)

    # What comes.

    def on_subscribed(self, event: Subscribed) -> None:
        self.element_size = event.element_size
        self.bell.ring()

    def on_elements(self, event: Elements) -> None:
        self._runs.append(event.elements)
        self.bell.ring()

    def on_complete(self, _event: OnComplete) -> None:
        self._end()

    def on_error(self, event: OnError) -> None:
        self._error = event.cause or StreamError(self.name, event.message)
        self._end()

    def _end(self) -> None:
        self.closed = True
        self._owner.intake_over(self)
        self.bell.ring()
        self.on_over()

    # What the application does.

    def take(self, most: int | None = None) -> list[Any]:
        """The next elements, decoded; all that were taken before are done with. [] where none has come.

        Raises what a failed stream failed with, after its last element; a codec's error ends the stream.
        """
        self._grant()
        if self._runs:
            elements = self._next(most or self._piece)
            self._owner.hub.took(self._cid, sum(map(len, elements)), len(elements))
            self._taken += len(elements)
            self._owner.turn()  # reading may go on now, for this stream or another
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
            self._owner.hub.request(*self.key, count)
            self._granted = min(self._granted + count, UNBOUNDED)
            self._owner.turn()

    def close(self) -> None:
        """Want no more: one cancel goes out, what has come is dropped. Does nothing where the stream is over."""
        self._drop()
        if not self.closed:
            self.closed = True
            self._owner.hub.cancel(*self.key)
            self._owner.intake_over(self)
            self.bell.ring()
            self.on_over()
        self._owner.turn()

    def fail(self, error: Exception) -> None:
        """The application can do nothing with an element: cancel; whoever takes the next one gets the error."""
        self.close()
        self._error = error

    @property
    def waiting(self) -> bool:
        """Whether there is something to take."""
        return bool(self._runs)

    def _grant(self) -> None:
        outstanding = self._granted - self._taken
        if self._window and not self.closed and outstanding <= self._window // 2:
            self.request(self._window - outstanding)

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
            decoded.extend(map(decode, elements))
        except Exception as error:
            self.fail(error)
            if not decoded:
                raise
        return decoded

    def _drop(self) -> None:
        left = [element for run in self._runs for element in run][self._at :]
        self._runs.clear()
        self._at = 0
        self._owner.hub.took(self._cid, sum(map(len, left)), len(left))
