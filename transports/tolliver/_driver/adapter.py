"""Interface between the driver and an adapter.

A `LoopAdapter` starts things and never waits: a dial, a job for the store, a write. Their results return as inputs of
the node or by the job's `done`, on the loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from tolliver_proto import TolliverError

Job = Callable[[], Any]
Done = Callable[[Any, TolliverError | None], None]


class Wakeup(Protocol):
    """Tells those that listen, on the adapter's loop, to look again."""

    def set(self) -> None: ...


class AwaitableWakeup(Wakeup, Protocol):
    """A wakeup that tasks wait for."""

    def wait(self) -> Awaitable[None]: ...


class Transport(Protocol):
    """A connection's transport. Nothing here waits."""

    def transmit(self, units: Sequence[bytes]) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def shutdown_write(self) -> None: ...

    def abort(self) -> None: ...


class LoopAdapter(Protocol):
    """Calls that the driver makes of an adapter. Nothing here waits."""

    @property
    def wires(self) -> Mapping[int, Transport]:
        """The transports that are there. An action for one that is gone came a moment late: it is passed over."""

    def dial(self, cid: int, remote: Any) -> None: ...

    def schedule_run(self) -> None:
        """Have `run_actions()` called soon."""

    def wake(self) -> None:
        """As `schedule_run`, and look at `next_timeout()` again."""

    def rearm(self, due: float) -> None:
        """The machine's next deadline is then, in monotonic seconds: before the one that the adapter waits for."""


class StoringAdapter(LoopAdapter, Protocol):
    """One with a database."""

    def store(self, job: Job, done: Done) -> None:
        """Run the job off the loop, one at a time and in order, then `done(result, error)` and a turn on the loop."""

    def beside(self, job: Job, done: Done) -> None:
        """As `store`, but at once, beside all others. If it ends after the instance, nobody is told."""
