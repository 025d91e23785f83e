"""Endpoint on an event loop: turns that gather, and handlers that are called without a task.

To wake a task costs more than a message does. So the first request in a turn of the loop is carried out at once, and
the others when the loop comes round; handlers are called at the end of the turn that has read their messages.
"""

from __future__ import annotations

from abc import abstractmethod
from contextvars import Context, copy_context
from time import monotonic
from typing import Protocol

from .endpoint import BaseEndpoint, EndpointOptions

SLICE = 0.001  # seconds that handlers have in one turn of the loop; then they go on in tasks, and others have theirs


class Handling(Protocol):
    """A handler that something has come for."""

    def call(self, until: float) -> None:
        """Call it for what is there, until then; a task does what is left."""


class LoopEndpoint(BaseEndpoint):
    """The connections of one program, whose users, handlers and sockets are on one loop."""

    def __init__(self, options: EndpointOptions) -> None:
        super().__init__(options)
        self._forget_turn()

    def _forget_turn(self) -> None:
        """An interrupt may have ended the one before in its middle."""
        self._ends_soon = False  # `end_turn` is going to be called
        self._gathered = False  # something was asked for that it carries out
        self._reading = False
        self._to_call: dict[Handling, None] = {}

    def _begin(self) -> None:
        self._forget_turn()
        super()._begin()

    @abstractmethod
    def _end_turn_soon(self) -> None:
        """Have the loop call `end_turn` when it comes round."""

    def turn_soon(self) -> None:
        if self.turn_follows:
            return
        if self._ends_soon:
            self._gathered = True
        else:
            self._schedule()
            self.turn()

    def turn_at_end(self) -> None:
        if not self.turn_follows:
            self._gathered = True
            self._schedule()

    def call_at_end(self, handling: Handling) -> None:
        """Call it at the end of this turn of the reader, or else when the loop comes round."""
        self._to_call[handling] = None
        if not self._reading:
            self._schedule()

    def begin_reading(self) -> None:
        """A connection is being read."""
        self._reading = True

    def end_reading(self) -> None:
        self._reading = False
        if self._to_call:
            self._call()

    def end_turn(self) -> None:
        """The loop has come round."""
        self._ends_soon = False
        if self._gathered:
            self._gathered = False
            self.turn()
        if self._to_call:
            self._call()

    def context(self) -> Context:
        """The context that a handler is called in: that of now."""
        return copy_context()

    def _schedule(self) -> None:
        if not self._ends_soon:
            self._ends_soon = True
            self._end_turn_soon()

    def _call(self) -> None:
        until = monotonic() + SLICE
        called, self._to_call = self._to_call, {}
        self.turn_follows = True
        try:
            for handling in called:
                handling.call(until)
        finally:
            self.turn_follows = False
        self.turn()
