"""Flushes, answered when the sockets have taken all messages.

A flush waits only for connected peers. First the blocked sends are stored; then, connection by connection, the reliable
messages up to the last of those are encoded, and at last the bytes before the socket are counted. The node checks this
when there is nothing else to do, and checks one connection at a time.
"""

from __future__ import annotations

from uuid import UUID

from ..._common.errors import ConnectionClosing, TolliverError
from ..actions import Receipt, Stored
from ..commits.commits import Commits
from ..context import Context
from ..link import Link
from .ledger import Ledger
from .sender import Sender


class Flush:
    """One call of `flush` until it is answered: its receipt, its last message, and the connections that it waits
    for.
    """

    __slots__ = ("behind", "links", "mark", "receipt", "seq", "stored")

    def __init__(self, behind: Receipt | None, links: list[Link]) -> None:
        self.receipt = Receipt(0, -1, [])
        self.behind = behind  # the last blocked send
        self.links = links  # connections to wait for, from the last one on
        self.seq: int | None = None  # of the last message, once `behind` is no longer blocked
        self.stored = False  # all messages up to `seq` are durable
        self.mark: int | None = None  # bytes that the socket of the last link must have taken


class Flushes:
    """The calls of `flush` that wait until sockets have taken messages."""

    def __init__(self, context: Context, commits: Commits, ledger: Ledger, sender: Sender) -> None:
        self._context = context
        self._actions = context.actions
        self._hooks = context.hooks
        self._commits = commits
        self._ledger = ledger
        self._sender = sender
        self.waiting: list[Flush] = []

    def flush(self, now: float | None = None) -> Receipt:
        """Begins a flush. `Stored` names the receipt once the sockets of connected peers have taken all messages so
        far, unreliable ones too. A connection that ends meanwhile is not waited for.

        Raises ConnectionClosing if the instance is closing.
        """
        self._context.tick(now)
        if self._context.closing:
            raise ConnectionClosing("the instance is closing: what was sent goes out as far as the peers take it")
        waiting = [receipt for _, receipt, _ in self._sender.blocked]
        for pattern in self._hooks.unsent:
            waiting += pattern.unsent()
        behind = waiting[-1] if waiting else None
        flush = Flush(behind, list(self._context.up.values()))
        self.waiting.append(flush)
        return flush.receipt

    def unflushed(self, receipt: Receipt) -> list[UUID]:
        """Returns the peers that this flush still waits for."""
        links = [link for flush in self.waiting if flush.receipt is receipt for link in flush.links]
        return [link.peer.uuid for link in links if link.up and link.peer is not None]

    def end_flushes(self) -> bool:
        """Answers the completed flushes; returns True if there is something to do now."""
        done = [flush.receipt for flush in self.waiting if self._has_left(flush)]
        if done:
            self.waiting = [flush for flush in self.waiting if flush.receipt not in done]
            self._actions.append(Stored(done))
        return bool(done) or (self._commits.running is None and self._commits.batch.urgent)

    def _has_left(self, flush: Flush) -> bool:
        if flush.seq is None and not self._waits_inside(flush.behind):
            self._begin_flush(flush)
        while flush.stored and flush.links and self._is_through(flush, flush.links[-1]):
            flush.links.pop()
            flush.mark = None
        return flush.stored and not flush.links

    def _waits_inside(self, receipt: Receipt | None) -> bool:
        if receipt is None:
            return False
        is_blocked = any(one is receipt for _, one, _ in self._sender.blocked)
        return is_blocked or any(receipt in pattern.unsent() for pattern in self._hooks.unsent)

    def _begin_flush(self, flush: Flush) -> None:
        def stored(_error: TolliverError | None) -> None:
            flush.stored = True

        flush.seq = self._ledger.next_seq - 1
        self._commits.when_stored(stored)

    def _is_through(self, flush: Flush, link: Link) -> bool:
        """True if the socket has taken all messages of the flush, or the link is not its peer's live link."""
        if link.sending.window is None or link.connection is None:
            return True
        assert flush.seq is not None
        if flush.mark is None:
            if link.sending.window.owes(flush.seq):
                return False
            flush.mark = link.sending.handed + link.connection.unsent_bytes
        return link.sending.handed - link.in_transit >= flush.mark
