"""Thread of a relay, which does its steps.

A relay has a thread of its own, the same on every kind of loop, as drivers of databases block. `relay_steps.py` has
what it does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import partial
from time import monotonic
from typing import Any, Protocol, Self

from tolliver_proto import ConnectionClosing, NoticeKind

from .._driver.threads import start
from ..outbox import Outbox
from .marking import tell
from .relay_steps import LONGEST, NotGiven, OnLoop, Pause, RelayStatus, RelaySteps, Sender, Step

_PATIENCE = 10.0  # seconds that the end of an instance waits for its relays


class Core(Sender, Protocol):
    """The part of an instance that a relay uses."""

    relays: set[Relay]

    @property
    def lock(self) -> AbstractContextManager[object]: ...

    @property
    def is_open(self) -> bool: ...

    def check_open(self) -> None: ...

    def call_soon(self, job: Callable[[], object]) -> None: ...

    def run_actions(self) -> None: ...

    def notice(self, kind: NoticeKind, detail: str) -> None: ...


class Relay:
    """A running relay, from `Instance.relay`. It ends with `close`, or with its instance."""

    def __init__(self, core: Core, outbox: Outbox) -> None:
        self._core = core
        self._outbox = outbox
        self._over = threading.Event()
        self._steps = RelaySteps(core, outbox, monotonic, partial(tell, core))
        self._thread = threading.Thread(target=self._run, name="tolliver relay", daemon=True)
        start(self._thread)
        core.relays.add(self)

    @property
    def status(self) -> RelayStatus:
        """Counts of this relay, and what holds it up."""
        return self._steps.status

    def close(self) -> None:
        """End the relay after its running batch. Does not wait; rows that are left stay in the table."""
        self._steps.closed = True
        self._over.set()
        self._core.relays.discard(self)

    def join(self) -> None:
        """Wait for the end of its running batch, ten seconds at most."""
        self._thread.join(_PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Relay of {self._outbox.table}, {self.status.moved} rows moved>"

    # The thread.

    def _run(self) -> None:
        steps, answer, error = self._steps.run(), None, None
        while True:
            try:
                step = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration:
                return
            answer = error = None
            try:
                answer = self._do(step)
            except Exception as failure:
                error = failure

    def _do(self, step: Step) -> Any:
        if isinstance(step, OnLoop):
            return self._in_loop(step.job)
        if isinstance(step, Pause):
            return self._over.wait(step.seconds)
        return step.stored.result(None if self._core.is_open else _PATIENCE)

    def _in_loop(self, job: Callable[[], Any]) -> Any:
        """The result of a job that runs on the loop, under the lock. Raises NotGiven if it never runs."""
        done: Future[Any] = Future()

        def run() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                with self._core.lock:
                    self._core.check_open()
                    result = job()
                    self._core.run_actions()
            except ConnectionClosing as error:
                done.set_exception(NotGiven(str(error)))
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(result)

        self._core.call_soon(run)
        while True:
            try:
                return done.result(LONGEST)
            except TimeoutError:
                if not self._core.is_open and done.cancel():  # a loop that has ended runs nothing more
                    raise NotGiven from None
