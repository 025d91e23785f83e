"""Calls of one handler that have begun and not ended (D-9, T-48).

A call is what a function is at, or what an iterator has handed out and its user has not settled. Messages that only
queue for a handler are none.
"""

from __future__ import annotations

from .actions import Delivery


class Calls:
    """Beginnings of the calls, oldest first."""

    __slots__ = ("armed", "begun", "stuck")

    def __init__(self) -> None:
        self.begun: dict[Delivery, float] = {}
        self.stuck = False  # the oldest has lasted too long
        self.armed = False  # somebody looks at them again in time

    def oldest(self) -> tuple[Delivery, float] | None:
        """The call that lasts for longest, and since when."""
        return next(iter(self.begun.items()), None)
