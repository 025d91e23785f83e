"""Calls of one handler in one turn of a loop."""

from __future__ import annotations

from collections.abc import Awaitable
from time import monotonic

from tolliver_proto import Delivery

from .._driver.ends import is_interrupt
from .mailbox import Handler, Mailbox

Awaited = tuple[Delivery, Awaitable[object]]
"""A delivery, and what its handler has returned to be awaited."""


class HandlerTurn:
    """Calls a handler for the messages of its mailbox, and acknowledges together what it has handled."""

    def __init__(self, mailbox: Mailbox, handler: Handler, keeps_task: bool) -> None:
        self._mailbox = mailbox
        self._handler = handler
        self.keeps_task: bool = keeps_task
        """True if a task makes the calls, and awaits their results: each message is then noted by itself."""
        self.well: list[Delivery] = []
        """Handled, to be acknowledged at the end of the next turn."""

    def call_each(self, until: float) -> Awaited | None:
        """Call the handler for each waiting message, until the monotonic time `until`. Stops at a call that returned an
        awaitable and returns that; None without one.
        """
        handler, mailbox = self._handler, self._mailbox
        began, calls = monotonic(), 0
        awaited = None
        while (delivery := mailbox.take(not self.keeps_task)) is not None:
            try:
                result = handler(delivery)
            except BaseException as error:
                if is_interrupt(error):
                    raise
                self.raised(delivery, error)
            else:
                if result is not None and isinstance(result, Awaitable):
                    awaited = delivery, result
                    break
                if result is None or mailbox.is_well(delivery, result):  # the common result first
                    self.well.append(delivery)
            calls += 1
            if monotonic() > until:
                break
        mailbox.took(monotonic() - began, calls)
        well, self.well = self.well, []
        mailbox.settle(well, True)
        return awaited

    def raised(self, delivery: Delivery, error: BaseException) -> None:
        """Settle the delivery as failed by `error`, the exception of its handler."""
        if not self._mailbox.closed:  # closing cancels the task, which on Twisted raises an Exception
            self._mailbox.raised(delivery, error)
