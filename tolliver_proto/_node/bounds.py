"""Bound of one handler: how many messages it may have that are not settled, from all senders (P-24).

Beyond it the credit rules hold: nothing more is read of a peer that brought the last one until half is settled (D-9).
"""

from __future__ import annotations

from uuid import UUID

from .actions import Handler
from .inbox import Inbox


class Bound:
    """Messages with one handler, and the peers that wait for it to settle some."""

    __slots__ = ("count", "handler", "most", "waiting")

    def __init__(self, handler: Handler, most: int) -> None:
        """Raises ValueError."""
        if most < 1:
            raise ValueError(f"pending={most!r:.100}: give the number of messages, at least 1, or None")
        self.handler = handler
        self.most = most
        self.count = 0
        self.waiting: dict[UUID, Inbox] = {}

    def is_full(self, share: int) -> bool:
        """True if it has as many as it may, or that share of them."""
        return self.count * share >= self.most
