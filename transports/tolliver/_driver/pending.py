"""Pending calls: futures without an event loop, and their table.

A caller and the action that answers the call share a name (key), such as the receipt of a send. No code here waits: a
waiter leaves a callback that wakes it in its loop's or thread's own way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any, Generic, TypeVar

from tolliver_proto import TolliverError
from tolliver_proto.errors import AlreadyClosed

T = TypeVar("T")
V = TypeVar("V")


class PendingCall(Generic[T]):
    """Future answer of one call, for any number of waiters, who are woken once it is there. With threads: use it only
    under the machine's lock.
    """

    __slots__ = ("_answer", "_value", "_waiters", "abandoned", "done", "error", "late")

    def __init__(self, answer: Callable[[Any], T] | None = None) -> None:
        """`answer` converts the value given to `resolve` into the result of the call."""
        self._answer = answer
        self.done: bool = False
        self.late: Callable[[], str] | str = ""
        """Text of the TimeoutError for a waiter: what has not been done, and why."""
        self.abandoned: Callable[[], object] | None = None
        """Called when the last waiter stops waiting before there is an answer."""
        self.error: BaseException | None = None
        self._waiters: list[Callable[[], object]] = []

    def resolve(self, value: Any) -> None:
        self._value = value if self._answer is None else self._answer(value)
        self._settle()

    def fail(self, error: BaseException) -> None:
        self.error = error
        self._settle()

    def when_done(self, wake: Callable[[], object]) -> None:
        """Call `wake` once there is an answer: at once if there is one already."""
        if self.done:
            wake()
        else:
            self._waiters.append(wake)

    def forget(self, wake: Callable[[], object]) -> None:
        """Remove a callback given to `when_done`, because its waiter stopped waiting."""
        if wake in self._waiters:
            self._waiters.remove(wake)
            if not self._waiters and self.abandoned is not None:
                self.abandoned()

    def too_late(self, seconds: float) -> TimeoutError:
        """TimeoutError for a waiter that has waited for `seconds`. The operation itself goes on."""
        late = self.late if isinstance(self.late, str) else self.late()
        return TimeoutError(f"after {seconds:g} s {late or 'it is not done, and goes on'}")

    def result(self) -> T:
        """The answer. Raises the error that the call failed with."""
        if self.error is not None:
            raise self.error.with_traceback(None)  # raised once for each waiter: tracebacks must not add up
        return self._value

    def _settle(self) -> None:
        self.done = True
        waiters, self._waiters = self._waiters, []
        for wake in waiters:
            wake()


class PendingCalls:
    """Table of the calls that wait for an answer, by a name such as a receipt or a condition."""

    def __init__(self) -> None:
        self._calls: dict[Hashable, PendingCall[Any]] = {}

    def __contains__(self, name: Hashable) -> bool:
        return name in self._calls

    def of(self, name: Hashable, answer: Callable[[V], T]) -> PendingCall[T]:
        """The call with this name, created if there is none. `answer` converts the value into the call's result."""
        call = self._calls.get(name)
        if call is None:
            call = self._calls[name] = PendingCall(answer)
        return call

    def settle(self, name: Hashable, value: Any, error: TolliverError | TimeoutError | None = None) -> None:
        """Answer the call with this name, if there is one, with the value, or with the error if that is not None."""
        call = self._calls.pop(name, None)
        if call is None:
            return
        if error is not None:
            call.fail(error)
        else:
            call.resolve(value)

    def settle_all(self, names: Iterable[Hashable], error: TolliverError | None) -> None:
        """Answer the call of each name, if there is one: with its name as the value, or with the error."""
        take = self._calls.pop
        for name in names:
            call = take(name, None)
            if call is None:
                continue
            if error is None:
                call.resolve(name)
            else:
                call.fail(error)

    def drop(self, name: Hashable) -> None:
        """Remove the call with this name, without an answer: it has no waiters any more."""
        self._calls.pop(name, None)

    def give_up(self, but: Collection[Hashable] = ()) -> None:
        """Fail all calls with AlreadyClosed, because the endpoint is closed; but not those with these names."""
        for name in [*self._calls]:
            if name not in but:
                self.settle(name, None, closed())


def closed() -> AlreadyClosed:
    """The error for calls that still wait when the endpoint is closed."""
    return AlreadyClosed("the instance was closed before this was done")


def as_it_is(value: T) -> T:
    """Identity function, for calls whose result is the value itself."""
    return value
