"""Endpoint on an event loop: batched requests, and handlers without tasks.

Waking a task costs more than a message does. So the first request in a turn of the loop is carried out at once, and all
later ones together at the end of the turn. Handlers are called directly, at the end of the turn that has read their
messages. Acknowledgements of iterators are reported to the machine together at the end of a turn, too.
"""

from __future__ import annotations

from abc import abstractmethod
from contextvars import Context, copy_context
from time import monotonic
from typing import Protocol

from tolliver_proto import TolliverError

from .endpoint import BaseEndpoint, EndpointOptions

SLICE = 0.001  # seconds for all handlers in one turn of the loop; afterwards they go on in tasks


class Handling(Protocol):
    """Caller of one handler, which has messages to process."""

    def call(self, until: float) -> None:
        """Call the handler for the messages that are there, until the monotonic time `until`; a task processes the
        rest."""


class Telling(Protocol):
    """Collector of reports, such as acknowledgements, which go to the machine together at the end of a turn."""

    def tell(self) -> None:
        """Report everything collected to the machine."""


class LoopEndpoint(BaseEndpoint):
    """Base of the endpoints whose users, handlers and sockets share one event loop: collects what comes in one turn of
    it, reports and requests, to do that together at its end.
    """

    run_follows: bool

    def __init__(self, options: EndpointOptions) -> None:
        super().__init__(options)
        self._forget_turn()

    def _forget_turn(self) -> None:
        """Reset the state of a turn. Also needed on opening again: an interrupt may have cut the last turn short."""
        self.ends_soon: bool = False  # a call of `end_turn` is scheduled
        self._gathered = False  # requests wait for `end_turn` to run the machine's actions
        self.reading: bool = False  # bytes of a connection are being processed
        self._to_call: dict[Handling, None] = {}
        self._to_tell: dict[Telling, None] = {}

    def _begin(self) -> None:
        self._forget_turn()
        super()._begin()

    @abstractmethod
    def _end_turn_soon(self) -> None:
        """Have the loop call `end_turn` in its next iteration."""

    def schedule_run(self) -> None:
        if self.run_follows:
            return
        if self.ends_soon:
            self._gathered = True
        else:
            self._schedule()
            self.run_actions()

    def run_at_end(self) -> None:
        if not self.run_follows:
            self._gathered = True
            self._schedule()

    def call_at_end(self, handling: Handling) -> None:
        """Call the handler at the end of the current read, or in the loop's next iteration if no read is in
        progress."""
        self._to_call[handling] = None
        if not self.reading:
            self._schedule()

    def tell_at_end(self, telling: Telling) -> None:
        """Have `telling.tell()` called at the end of this turn. Allowed only while `ends_soon` is True."""
        self._to_tell[telling] = None
        self._gathered = True

    def end_reading(self) -> None:
        self.reading = False
        if self._to_call:
            self._call()

    def end_turn(self) -> None:
        """Carry out all that was collected in this turn: reports, requests, then handler calls."""
        self.ends_soon = False
        self._tell_gathered()
        if self._gathered:
            self._gathered = False
            self.run_actions()
        if self._to_call:
            self._call()

    def _begin_close(self) -> None:
        self._tell_gathered()
        super()._begin_close()

    def _lost(self, cid: int, error: TolliverError | None) -> None:
        self._tell_gathered()
        super()._lost(cid, error)

    def keep_time(self) -> None:
        self._tell_gathered()
        super().keep_time()

    def context(self) -> Context:
        """Context variables for a handler call: a copy of the current ones."""
        return copy_context()

    def _schedule(self) -> None:
        if not self.ends_soon:
            self.ends_soon = True
            self._end_turn_soon()

    def _tell_gathered(self) -> None:
        """Make all collected reports. The caller runs the machine's actions afterwards."""
        if self._to_tell:
            telling, self._to_tell = self._to_tell, {}
            self.run_follows = True
            try:
                for one in telling:
                    one.tell()
            finally:
                self.run_follows = False

    def _call(self) -> None:
        until = monotonic() + SLICE
        called, self._to_call = self._to_call, {}
        self.run_follows = True
        try:
            for handling in called:
                handling.call(until)
        finally:
            self.run_follows = False
        self.run_actions()
