"""Rows of an outbox, given to a node in order.

Each row has its message key, and those of one channel go in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeAlias

from tolliver_proto import Node, Receipt, TolliverError
from tolliver_proto.node import ForLater, MessageKeys, Queues

from .._boxes.outbox_table import Row
from .._driver.pending import PendingCall

Given: TypeAlias = tuple[Sequence[Row], Receipt]
NOBODY = "nobody subscribes"
UNTAKEN = "no subscriber takes it: they have left, or are at their quota"


class Giver:
    """Sends and puts of a node for rows. Used on its loop."""

    def __init__(self, node: Node, clock: Callable[[], float]) -> None:
        self._node = node
        self._clock = clock

    def give(self, rows: Sequence[Row]) -> tuple[list[Given], str | None]:
        """Give rows of one channel, all in one step if that goes. Returns what went, and why the next one did not."""
        with suppress(TolliverError):  # the row that is refused is found below
            receipt = self._give_all(rows)
            if receipt is not None:
                return [(rows, receipt)], None
        given = list[Given]()
        for row in rows:
            if not self.takes(row.channel, row.key):
                return given, NOBODY
            try:
                receipt = self._give_one(row)
            except TolliverError as error:
                return given, str(error)
            given.append(((row,), receipt))
            if receipt.failure is not None and not goes(receipt):
                return given, UNTAKEN
        return given, None

    def _give_all(self, rows: Sequence[Row]) -> Receipt | None:
        """Give rows, each under its key, in one step. None: they are no plain case, and nothing was given."""
        if any(row.not_before is not None for row in rows):
            return None
        items = [(row.channel, row.key, row.body) for row in rows]
        return self._node.use(MessageKeys).send_many(items, [row.id for row in rows], self._clock())

    def _give_one(self, row: Row) -> Receipt:
        keys = self._node.use(MessageKeys)
        give = keys.put if self._is_queue(row.channel) else keys.send
        return give(row.channel, row.key, row.body, row.id, self._clock(), not_before=row.not_before)

    def takes(self, channel: str, key: str) -> bool:
        """True if a message with these names would be stored for somebody: a subscriber, or a channel that keeps."""
        keeping = self._node.used(ForLater)
        is_kept = keeping is not None and keeping.keeps(channel) is not None
        return is_kept or self._is_queue(channel) or self._node.subscribed(channel, key) > 0

    def _is_queue(self, channel: str) -> bool:
        queues = self._node.used(Queues)
        return queues is not None and queues.owns(channel)


def goes(receipt: Receipt) -> bool:
    """True if somebody gets the message, or will at its time (P-93)."""
    return receipt.recipients > 0 or receipt.later > 0


def when_all(calls: Sequence[PendingCall[Receipt]], stored: Future[None]) -> None:
    """Answer `stored` once all calls are answered: with the first error, if there is one."""
    left = len(calls)

    def answered() -> None:
        nonlocal left
        left -= 1
        if left > 0:
            return
        error = next((call.error for call in calls if call.error is not None), None)
        if error is None:
            stored.set_result(None)
        else:
            stored.set_exception(error)

    for call in calls:
        call.when_done(answered)
    if not calls:
        answered()
