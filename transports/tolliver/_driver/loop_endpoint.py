"""Endpoint on an event loop.

Its turns gather, and it calls handlers without a task. To wake a task costs more than a message does. So the first
request in a turn of the loop is carried out at once, and the others when the loop comes round; handlers are called at
the end of the turn that has read their messages. An iterator's messages are told of in the same way: what is begun and
acknowledged in one turn, together at its end.
"""

from __future__ import annotations

from abc import abstractmethod
from contextvars import Context, copy_context
from time import monotonic
from typing import Protocol

from tolliver_proto import TolliverError

from .endpoint import BaseEndpoint, EndpointOptions

SLICE = 0.001  # seconds that handlers have in one turn of the loop; then they go on in tasks, and others have theirs


class Handling(Protocol):
    """A handler that something has come for."""

    def call(self, until: float) -> None:
        """Call it for what is there, until then; a task does what is left."""


class Telling(Protocol):
    """Something that has gathered what the machine is to be told."""

    def tell(self) -> None:
        """Tell it."""


class LoopEndpoint(BaseEndpoint):
    """The connections of one program, whose users, handlers and sockets are on one loop."""

    run_follows: bool

    def __init__(self, options: EndpointOptions) -> None:
        super().__init__(options)
        self._forget_turn()

    def _forget_turn(self) -> None:
        """An interrupt may have ended the one before in its middle."""
        self.ends_soon: bool = False  # `end_turn` is going to be called
        self._gathered = False  # something was asked for that it carries out
        self.reading: bool = False  # a connection is being read
        self._to_call: dict[Handling, None] = {}
        self._to_tell: dict[Telling, None] = {}

    def _begin(self) -> None:
        self._forget_turn()
        super()._begin()

    @abstractmethod
    def _end_turn_soon(self) -> None:
        """Have the loop call `end_turn` when it comes round."""

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
        """Call it at the end of this turn of the reader, or else when the loop comes round."""
        self._to_call[handling] = None
        if not self.reading:
            self._schedule()

    def tell_at_end(self, telling: Telling) -> None:
        """Have it tell at the end of this turn of the loop. Only while `ends_soon`."""
        self._to_tell[telling] = None
        self._gathered = True

    def end_reading(self) -> None:
        self.reading = False
        if self._to_call:
            self._call()

    def end_turn(self) -> None:
        """The loop has come round."""
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
        """The context that a handler is called in: that of now."""
        return copy_context()

    def _schedule(self) -> None:
        if not self.ends_soon:
            self.ends_soon = True
            self._end_turn_soon()

    def _tell_gathered(self) -> None:
        """All that was gathered; whoever calls this has a turn to follow."""
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
