"""Streams that threads take: iterators that wait.

The idea: as with messages (`_blocking_iterators`), an intake's bell is a condition on the machine's lock: waiting for
an element lets the machine go on, and several threads may take from one subscription. Elements leave the lock as bytes;
the codec, which is the application's, works outside it.
"""

from __future__ import annotations

import inspect
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, Self

from .._streams.codecs import Codec
from .._streams.publishing import OutboundStream
from .._streams.subscribing import InboundStream, check_handler
from .wire import limited


class SubscriptionOwner(Protocol):
    """What a subscription asks of its streams."""

    @property
    def lock(self) -> threading.RLock:
        """The machine's. Raises ConnectionClosing in a forked child."""

    def abandon(self, dropped: InboundStream) -> None: ...


class Subscription:
    """The elements of a stream: `for element in subscription`.

    The loop ends with the stream, and when `timeout` passes without an element; after that it may go on. Use `with`
    around it where the loop may be left early: that cancels the stream at once. Several threads may share one: each
    element goes to one of them.
    """

    _intake: InboundStream | None = None

    def __init__(self, owner: SubscriptionOwner, intake: InboundStream, codec: Codec, timeout: float | None) -> None:
        self._owner = owner
        self._decode = codec.decode
        self._timeout = timeout
        self._current: deque[bytes] = deque()
        self._intake = intake

    @property
    def element_size(self) -> int | None:
        """Bytes of each element as the publisher declared, 0 where they differ; None before it has answered."""
        return self._its.element_size

    @property
    def closed(self) -> bool:
        """Whether it is over: nothing more comes than has come already."""
        return self._its.closed

    @property
    def _its(self) -> InboundStream:
        assert self._intake is not None
        return self._intake

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            element = self._take(self._timeout)
        except TimeoutError:
            raise StopIteration from None
        return element if self._decode is None else self._decoded((element,), self._decode)[0]

    def next(self, timeout: float | None = None) -> Any:
        """The next element. Raises TimeoutError after `timeout` seconds, and StopIteration at the end of the stream."""
        element = self._take(timeout)
        return element if self._decode is None else self._decoded((element,), self._decode)[0]

    def next_run(self, most: int, timeout: float | None = None) -> list[Any]:
        """The next elements that have come, `most` of them or fewer. Raises as `next`, and ValueError for no number."""
        if most < 1:
            raise ValueError(f"most is {most}: give a number of elements, 1 or more")
        run = self._take_run(most, timeout)
        return run if self._decode is None else self._decoded(run, self._decode)

    def runs(self) -> Iterator[list[Any]]:
        """For bulk: lists of elements that have come, at most a quarter of the window each."""
        while True:
            try:
                run = self._take_run(None, self._timeout)
            except (StopIteration, TimeoutError):
                return
            yield run if self._decode is None else self._decoded(run, self._decode)

    def for_each(self, handler: Callable[[Any], object]) -> None:
        """Call the handler with each element, here, until the iteration ends; then cancel, also if the handler raises.

        Raises TypeError where the handler is async.
        """
        check_handler(handler)
        with self:
            for element in self:
                answer = handler(element)
                if answer is not None and hasattr(answer, "__await__"):
                    if inspect.iscoroutine(answer):
                        answer.close()
                    raise TypeError(f"{handler!r:.200} is async, which nobody awaits here: give a plain function")

    def request(self, count: int) -> None:
        """Grant `count` more elements, beside what the window grants. Below 1 ends the stream with an error (R-16)."""
        with self._owner.lock:
            self._its.request(count)

    def cancel(self) -> None:
        """Want no more. Does nothing where the stream is over."""
        with self._owner.lock:
            self._current.clear()
            self._its.close()

    def _attend_feed(self, feed: OutboundStream) -> None:
        """As the source of a publication: its feed sees the end of this stream without a request (rules 1.5, 4.2)."""
        intake = self._its
        intake.on_over = feed.flush_soon
        feed.at_end = lambda: intake.closed and not intake.waiting and not self._current

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.cancel()

    def __del__(self) -> None:
        if self._intake is not None:
            self._owner.abandon(self._intake)

    # Taking.

    def _take(self, timeout: float | None) -> bytes:
        with self._owner.lock:
            if not self._current:
                self._wait(timeout)
            return self._current.popleft()

    def _take_run(self, most: int | None, timeout: float | None) -> list[bytes]:
        with self._owner.lock:
            if not self._current:
                self._wait(timeout, most)
            if most is not None and most < len(self._current):
                return [self._current.popleft() for _ in range(most)]
            run = list(self._current)
            self._current.clear()
            return run

    def _wait(self, timeout: float | None, most: int | None = None) -> None:
        """Until there is a current element. Raises as `next`, and what a failed stream failed with."""
        intake = self._its
        end = math.inf if timeout is None else time.monotonic() + timeout
        while not self._current:
            self._current.extend(intake.take(most))
            if self._current:
                return
            if intake.closed:
                raise StopIteration
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"after {timeout:g} s no element of {intake.name!r:.100} has come: go on")
            intake.bell.wait(limited(left))

    def _decoded(self, elements: Sequence[bytes], decode: Callable[[bytes], Any]) -> list[Any]:
        """A codec's error ends the stream, after the elements before it."""
        decoded: list[Any] = []
        try:
            decoded.extend(map(decode, elements))
        except Exception as error:
            with self._owner.lock:
                self._current.clear()
                self._its.fail(error)
            if not decoded:
                raise
        return decoded
