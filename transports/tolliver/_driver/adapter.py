"""Interface that each event loop's adapter implements for the driver.

Every call of a `LoopAdapter` starts an operation (a dial, a store job, a write) and returns without waiting. The result
arrives later, on the loop: as an input of the machine, or through the job's `done` callback.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from tolliver_proto import TolliverError

Job = Callable[[], Any]
Done = Callable[[Any, TolliverError | None], None]


class Wakeup(Protocol):
    """Wakes the waiters of one condition, on the adapter's loop, so that they check the condition again."""

    def set(self) -> None: ...


class AwaitableWakeup(Wakeup, Protocol):
    """A wakeup that tasks can await."""

    def wait(self) -> Awaitable[None]: ...


class Transport(Protocol):
    """Moves the bytes of one connection, as the driver uses it. No call waits."""

    def transmit(self, units: Sequence[bytes]) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def shutdown_write(self) -> None: ...

    def abort(self) -> None: ...


class LoopAdapter(Protocol):
    """Calls that the driver makes to an adapter. No call waits."""

    @property
    def wires(self) -> Mapping[int, Transport]:
        """Transports of open connections, by cid. The driver ignores an action for a cid that is no longer here."""

    def dial(self, cid: int, remote: Any) -> None: ...

    def schedule_run(self) -> None:
        """Arrange for `run_actions()` to be called soon."""

    def wake(self) -> None:
        """Like `schedule_run`, and have the timer read `next_timeout()` again."""

    def rearm(self, due: float) -> None:
        """Arm the timer for `due` (monotonic seconds), which is earlier than the deadline that it waits for now."""


class StoringAdapter(LoopAdapter, Protocol):
    """An adapter of an endpoint that has a database."""

    def store(self, job: Job, done: Done) -> None:
        """Run the job off the loop, one job at a time and in order; then call `done(result, error)` on the loop and run
        the machine's actions."""

    def beside(self, job: Job, done: Done) -> None:
        """Like `store`, but start the job at once, in parallel with all others. `done` is not called if the endpoint
        has been closed before the job ends."""
