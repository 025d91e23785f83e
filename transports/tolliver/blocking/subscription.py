"""Blocking iterators over the elements of a stream.

A stream's wakeup releases the machine's lock while a thread waits for an element, so the machine goes on, and several
threads may share one subscription. The codec is application code, so decoding happens without the lock.
"""

from __future__ import annotations

import inspect
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Self, TypeVar, cast

from tolliver_proto.node import check_count

from .._driver.ends import is_interrupt
from .._streams.sources import converted
from .._streams.subscribing import BaseSubscription, InboundStream, SubscriptionCore, check_handler
from ..codecs._codec import Coding
from .waits import end_of
from .wire import Wakeup

T = TypeVar("T")


class _NothingCame(TimeoutError):
    """TimeoutError of a wait for an element; a class of its own, as a codec may raise a TimeoutError, too."""


class _Runs(Generic[T]):
    """Iterator that goes on after a timeout or Ctrl-C, which would end a generator."""

    def __init__(self, following: Callable[[], list[T]]) -> None:
        self._following = following

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> list[T]:
        try:
            return self._following()
        except _NothingCame:
            raise StopIteration from None


class Subscription(BaseSubscription, Generic[T]):
    """The elements of a stream: `for element in subscription`.

    The loop ends with the stream, and after `timeout` seconds without an element, when it may be started again. Use
    `with` around it if the loop may be left early: that cancels the stream at once. Several threads may share one: each
    element goes to one of them.
    """

    def __init__(
        self, core: SubscriptionCore, stream: InboundStream, wakeup: Wakeup, coding: Coding, timeout: float | None
    ) -> None:
        super().__init__(core, stream)
        self._wakeup = wakeup
        self._decode = coding.decode
        self._timeout = timeout
        self._current: deque[bytes] = deque()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        try:
            return self._take(self._timeout)
        except _NothingCame:
            raise StopIteration from None

    def next(self, timeout: float | None = None) -> T:
        """The next element. Raises TimeoutError after `timeout` seconds, and StopIteration at the end of the stream."""
        return self._take(timeout)

    def next_run(self, most: int, timeout: float | None = None) -> list[T]:
        """A list of the next elements that have arrived, at most `most`. Raises like `next`, and ValueError for a bad
        `most`."""
        check_count("most", most, 1)
        return self._take_run(most, timeout)

    def runs(self) -> Iterator[list[T]]:
        """Iterate over lists of elements that have arrived, each at most a quarter of the window long."""
        return _Runs(lambda: self._take_run(None, self._timeout))

    def for_each(self, handler: Callable[[T], object]) -> None:
        """Call the handler with each element, on this thread, until the iteration ends; then cancel, also if it raises.

        Raises TypeError if the handler is async.
        """
        check_handler(handler)
        with self:
            for element in self:
                answer = handler(element)
                if answer is not None and hasattr(answer, "__await__"):
                    if inspect.iscoroutine(answer):
                        answer.close()
                    raise TypeError(f"{handler!r:.200} is async, which nobody awaits here: give a plain function")

    def _forget(self) -> None:
        self._current.clear()

    def _has_more(self) -> bool:
        return bool(self._current)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.cancel()

    # Taking.

    def _take(self, timeout: float | None) -> T:
        taken: list[bytes] = []
        try:
            with self._core.lock:
                if not self._current:
                    self._wait(timeout)
                taken.append(self._current.popleft())
            return self._decoded(taken)[0]
        except KeyboardInterrupt:
            self._put_back(taken)
            raise

    def _take_run(self, most: int | None, timeout: float | None) -> list[T]:
        taken: list[bytes] = []
        try:
            with self._core.lock:
                if not self._current:
                    self._wait(timeout, most)
                there = len(self._current)
                taken += [self._current.popleft() for _ in range(there if most is None else min(most, there))]
            return self._decoded(taken)
        except KeyboardInterrupt:
            self._put_back(taken)
            raise

    def _put_back(self, taken: Sequence[bytes]) -> None:
        """Keep elements that were taken, but not handed out because of Ctrl-C."""
        self._current.extendleft(reversed(taken))

    def _wait(self, timeout: float | None, most: int | None = None) -> None:
        """Wait at most `timeout` seconds for elements, and take those that are there, at most `most`, as the current
        ones. Raises like `next`, and the error of a failed stream.
        """
        stream = self._stream
        end = end_of(timeout)
        while not self._current:
            self._current.extend(stream.take(most))
            if self._current:
                return
            if stream.closed:
                raise StopIteration
            left = end - time.monotonic()
            if left <= 0:
                raise _NothingCame(f"after {timeout:g} s no element of {stream.name!r:.100} has come: go on")
            if not self._wakeup.wait(left):
                raise StopIteration

    def _decoded(self, elements: Sequence[bytes]) -> list[T]:
        """Decode elements. An error of the codec ends the stream, after the elements before it."""
        if self._decode is None:
            return cast(list[T], elements)  # without a codec, T is bytes
        decoded: list[T] = []
        try:
            decoded.extend(converted(self._decode, elements))
        except BaseException as error:
            if is_interrupt(error):
                raise
            with self._core.lock:
                self._current.clear()
                self._stream.fail(error)
            if not decoded:
                raise
        return decoded
