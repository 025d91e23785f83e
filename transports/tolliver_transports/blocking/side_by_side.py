"""Handlers side by side in threads.

There is a thread for each call that one handler may have at once.
"""

from __future__ import annotations

import threading

from tolliver_proto import Delivery, OutOfThreads

from .._driver.ends import is_interrupt
from .._driver.threads import interrupt_program, start
from .._messages.inbox import Handler
from .._messages.iterators import name_of
from .._messages.side_by_side import LaneMailbox, SideBySide
from .iterators import Registration, ThreadCore, called, checked_plain


class SideBySideThreads(Registration):
    """A handler that has several messages at a time, each on a thread."""

    _mailbox: LaneMailbox

    def __init__(self, core: ThreadCore, channel: str, key: str, handler: Handler, how: SideBySide) -> None:
        self._core = core
        self._handler = checked_plain(handler)
        self._wakeup = core.wakeup()
        self._mailbox = LaneMailbox(core, channel, key, self._wakeup, name_of(handler), how)
        self._mailbox.open()
        name = f"tolliver calls {getattr(handler, '__name__', handler)!s:.100}"
        try:
            for number in range(how.concurrency):
                start(threading.Thread(target=self._work, name=f"{name} {number}", daemon=True))
        except OutOfThreads:
            self.close()
            raise

    def _work(self) -> None:
        while (delivery := self._next()) is not None:
            self._call(delivery)

    def _next(self) -> Delivery | None:
        box = self._mailbox
        with self._core.lock:
            while not box.closed:
                if (delivery := box.begin_next()) is not None:
                    return delivery
                self._wakeup.wait()
        return None

    def _call(self, delivery: Delivery) -> None:
        try:
            result = called(self._handler, delivery)
        except BaseException as error:
            if is_interrupt(error):
                self._mailbox.end_call(delivery)
                self.close()
                interrupt_program()  # the thread that it would end is ours
                raise
            self._mailbox.raised(delivery, error)
        else:
            self._mailbox.returned(delivery, result)
        with self._core.lock:
            self._mailbox.end_call(delivery)
