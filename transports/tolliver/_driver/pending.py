"""Pending calls: futures without a loop, and the table that finds them.

A caller and the action that answers it agree on a name, such as the receipt of a send. Nothing here waits: a waiter
leaves a function that wakes it, in the form that its loop knows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar

from tolliver_proto import TolliverError
from tolliver_proto.errors import AlreadyClosed

T = TypeVar("T")
V = TypeVar("V")


class PendingCall(Generic[T]):
    """An answer that comes once, for any number of waiters. On threads it is touched under the machine's lock alone."""

    __slots__ = ("_answer", "_value", "_waiters", "abandoned", "done", "error", "late")

    def __init__(self, answer: Callable[[Any], T] | None = None) -> None:
        """`answer` makes what the waiters get of the value that it is resolved with."""
        self._answer = answer
        self.done: bool = False
        self.late: Callable[[], str] | str = ""
        """Words for a waiter whose time is over: what is not done, and why."""
        self.abandoned: Callable[[], object] | None = None
        """Called when the last who waited waits no more, and there is no answer."""
        self.error: BaseException | None = None
        self._waiters: list[Callable[[], object]] = []

    def resolve(self, value: Any) -> None:
        self._value = value if self._answer is None else self._answer(value)
        self._settle()

    def fail(self, error: BaseException) -> None:
        self.error = error
        self._settle()

    def when_done(self, wake: Callable[[], object]) -> None:
        """Call `wake` when there is an answer: now, if it is there."""
        if self.done:
            wake()
        else:
            self._waiters.append(wake)

    def forget(self, wake: Callable[[], object]) -> None:
        """The waiter that gave this to `when_done` waits no more."""
        if wake in self._waiters:
            self._waiters.remove(wake)
            if not self._waiters and self.abandoned is not None:
                self.abandoned()

    def too_late(self, seconds: float) -> TimeoutError:
        """For a waiter whose time is over; what was asked for goes on."""
        late = self.late if isinstance(self.late, str) else self.late()
        return TimeoutError(f"after {seconds:g} s {late or 'it is not done, and goes on'}")

    def result(self) -> T:
        """The answer. Raises the error that it is."""
        if self.error is not None:
            raise self.error.with_traceback(None)  # it may be raised for several waiters
        return self._value

    def _settle(self) -> None:
        self.done = True
        waiters, self._waiters = self._waiters, []
        for wake in waiters:
            wake()


class PendingCalls:
    """Those without an answer, by name."""

    def __init__(self) -> None:
        self._calls: dict[Hashable, PendingCall[Any]] = {}

    def __contains__(self, name: Hashable) -> bool:
        return name in self._calls

    def of(self, name: Hashable, answer: Callable[[V], T]) -> PendingCall[T]:
        """The call of that name, made now if there is none. `answer` makes what its waiters get of the value."""
        call = self._calls.get(name)
        if call is None:
            call = self._calls[name] = PendingCall(answer)
        return call

    def settle(self, name: Hashable, value: Any, error: TolliverError | TimeoutError | None = None) -> None:
        """Answer the call of that name, if there is one."""
        call = self._calls.pop(name, None)
        if call is None:
            return
        if error is not None:
            call.fail(error)
        else:
            call.resolve(value)

    def settle_all(self, names: Iterable[Hashable], error: TolliverError | None) -> None:
        """As `settle` for each: its name is the value."""
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
        """Nobody waits for the call of that name."""
        self._calls.pop(name, None)

    def give_up(self) -> None:
        """The endpoint is closed: nobody is left waiting."""
        for name in list(self._calls):
            self.settle(name, None, closed())


def closed() -> AlreadyClosed:
    """For whoever waits when the endpoint is closed."""
    return AlreadyClosed("the instance was closed before this was done")


def as_it_is(value: T) -> T:
    """The answer that is the value itself."""
    return value
