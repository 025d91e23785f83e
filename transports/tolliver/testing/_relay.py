"""Relay of an outbox in a simulated world, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from tolliver_proto import ConnectionClosing, Node, NoticeKind, Policy, Receipt, TolliverError
from tolliver_proto.testing import App

from .._driver.pending import PendingCall
from .._messages.relay_steps import NotGiven, OnLoop, Pause, RelayStatus, RelaySteps
from .._store.table_marks import TableMarks
from ..outbox import Outbox

_STEP = 0.001  # seconds from one step to the next, in which the process may end


class SimulatedRelay:
    """A relay of one life of a simulated instance, from `relay`. It ends with `close`, or with that life."""

    lacks_commits: bool = False

    def __init__(self, app: App, outbox: Outbox) -> None:
        self.node: Node = app.node
        self.table_marks: TableMarks = TableMarks(None, app.node.instance_id)
        self.remembers: float = Policy().key_window
        self.notices: list[tuple[NoticeKind, str]] = []
        """Notices that an instance would raise of it."""
        self._app = app
        self._steps = RelaySteps(self, outbox, lambda: app.clock, lambda *notice: self.notices.append(notice))
        self._run = self._steps.run()
        app.later(_STEP, self._go_on)

    @property
    def status(self) -> RelayStatus:
        """Counts of this relay, and what holds it up."""
        return self._steps.status

    def close(self) -> None:
        """End the relay after its running batch."""
        self._steps.closed = True

    def given(self, receipts: Sequence[Receipt]) -> Sequence[PendingCall[Receipt]]:
        """The calls that are answered once these receipts are stored."""
        calls = [PendingCall[Receipt]() for _ in receipts]
        for receipt, call in zip(receipts, calls, strict=True):
            self._app.when_stored(receipt, partial(_answer, call, receipt))
        return calls

    def _go_on(self, answer: Any = None, error: BaseException | None = None) -> None:
        try:
            step = self._run.send(answer) if error is None else self._run.throw(error)
        except StopIteration:
            return
        if isinstance(step, OnLoop):
            self._app.later(_STEP, self._do, step.job)
        elif isinstance(step, Pause):
            self._app.later(step.seconds, self._go_on)
        else:
            step.stored.add_done_callback(self._stored)

    def _do(self, job: Callable[[], Any]) -> None:
        answer: object = None
        failure: Exception | None = None
        try:
            answer = job()
            self._app.run_actions()
        except ConnectionClosing as error:
            failure = NotGiven(str(error))
        except Exception as error:
            failure = error
        self._app.later(_STEP, self._go_on, answer, failure)

    def _stored(self, stored: Future[None]) -> None:
        self._app.later(_STEP, self._go_on, None, stored.exception())


def _answer(call: PendingCall[Receipt], receipt: Receipt, error: TolliverError | None) -> None:
    if error is None:
        call.resolve(receipt)
    else:
        call.fail(error)


def relay(app: App, outbox: Outbox) -> SimulatedRelay:
    """Send the rows of an outbox, as `Instance.relay` does, in a simulated world. Call it at each start of the program.

    `outbox` is in a database of its own, such as a file of SQLite: the story's `connect` may end the process, by
    `App.die`, before or after a commit. Leases are by the clock of that database.
    """
    return SimulatedRelay(app, outbox)
