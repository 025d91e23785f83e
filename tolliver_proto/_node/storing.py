"""Completion of commits and fetches, and what follows.

Storage is an output and its completion an input. A commit that is through makes its batch true: rows may be sent,
answers may go out, callers are told. One that failed makes it never have been, but for what peers have acknowledged:
that stays, and its rows are removed by a later commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from .._common.errors import DiskFull, TolliverError, Unconfirmed
from .actions import Commit, NoticeKind, Stored, SubscriptionsChanged
from .batch import Batch
from .handshakes import Handshakes
from .outbox import Holds, Window
from .store import RememberHandled, ReplacePeerSubscriptions, Row
from .subscriptions import applied, removed_by

_STORE_RETRY = 1.0  # seconds until what a store failure left over is tried again


class Storing(Handshakes):
    """Commits and fetches."""

    _last_batch = 0

    def _begin_commit(self) -> None:
        self._removals_due = False
        if self._apart and self._waits_alone:
            self._store_blocked()
        batch, self._batch = self._batch, Batch()
        if batch.empty:
            return
        if batch.handled:
            batch.operations.append(RememberHandled(batch.handled, self._policy.dedupe))
        if self._ids.needs_reserve:
            batch.operations.append(self._ids.reserve())
        self._last_batch += 1
        self._running = (self._last_batch, batch)
        self._actions.append(Commit(self._last_batch, batch.all_operations()))

    @property
    def _waits_alone(self) -> bool:
        """True if messages that go in commits of their own wait for the next one, and may have it (D-13)."""
        # Asked where `_apart` holds, without which none wait: to ask costs more than all else of an idle node.
        if not self._batch.empty:
            return False
        is_blocked = bool(self._blocked) and not (self._keeps_enough() or self._room.busy)
        return is_blocked or any(pattern.waits() for pattern in self._hooks.waits)

    def committed(self, batch_id: int, now: float | None = None) -> None:
        """The Commit is durable."""
        batch = self._finish(batch_id, now)
        if batch is None:
            return
        self._apart = self._apart and not batch.stores
        if batch.runs:
            self._stored_times.stored(batch.runs[-1][1][-1].seq, self._now)
        for recipients, messages in batch.runs:
            for peer in recipients.peers:
                self._committed_for(peer, messages)
        for peer, linked in batch.linked:
            self._read_again(peer, linked[0].message.seq, linked[-1].message.seq)
        for peer in batch.lists:
            peer.stored = True
        for one in batch.put_away:
            self._peers[one.peer].outbox.removed(one.spans)
        if batch.tokens:
            self._actions.append(Stored(batch.tokens))
        for link, message_ids in batch.acks.items():
            self._ack(link, message_ids)
        for handled in batch.handled:
            self._learn(handled)
        for peer, (before, _) in batch.peer_lists.items():
            if self._tells_events and peer.subscriptions != before:
                self._actions.append(SubscriptionsChanged(peer.uuid, peer.subscriptions))
        for go_on in batch.then:
            go_on(None)
        self._unblock()

    def store_failed(self, batch_id: int, error: TolliverError, now: float | None = None) -> None:
        """The Commit was not applied. Nothing of it is true; what was acknowledged is removed later.

        Where the disk was too full for its messages, all else goes in commits without any until there is room again:
        what peers acknowledge is removed at once, and who connects is not turned away (D-13).
        """
        batch = self._finish(batch_id, now)
        if batch is None:
            return
        self._ids.forget_reserve()
        sure = "" if isinstance(error, Unconfirmed) else ", nothing of it was stored"
        self._notice(NoticeKind.STORE_ERROR, None, f"a commit failed{sure}: {error}")
        no_room = batch.stores and isinstance(error, DiskFull)
        if no_room:
            self._apart, self._no_letters_until = True, self._now + _STORE_RETRY
            if self._batch.stores:  # it would fail as well
                gathered, self._batch = self._batch, Batch()
                self._fail(gathered, error)
        self._fail(batch, error)
        if self._apart and not no_room:
            self._fail_blocked(error)
        self._removals_due = self._removals_due or (no_room and self._batch.putting_away)
        self._unblock()

    def _fail_blocked(self, error: TolliverError) -> None:
        """Sends that wait for a commit that stores nothing, which has no room either."""
        if self._blocked and not (self._keeps_enough() or self._room.busy):
            self._actions.append(Stored([receipt for _, receipt, _ in self._blocked], error))
            self._blocked.clear()
        for pattern in self._hooks.no_room:
            pattern.no_room(error)

    def _fail(self, batch: Batch, error: TolliverError) -> None:
        self._restore_lists(batch)
        for peer, linked in batch.linked:
            self._unlink(peer, linked)
            if peer.voices:  # another connection of this peer has left them to the one that fails now
                self._link(peer, linked)
            else:
                self._disclaim(peer, linked)
        self._take_back(batch)
        self._letters.take_back(batch.letters_added, batch.letters_gone)
        self._batch.follow(batch)
        if self._batch.putting_away:
            self._timers.set("removals", self._now + _STORE_RETRY)
        if batch.tokens:
            self._actions.append(Stored(batch.tokens, error))
        for go_on in batch.then:
            go_on(error)

    def _restore_lists(self, failed: Batch) -> None:
        """Subscriptions as the store has them, and on top what the next commit says about them."""
        for link, told in failed.told.items():
            if link in self._batch.told:
                self._batch.told[link] = told
            self._set_told(link, applied(told, [said for one, said in self._batch.heard if one is link]))
        for link, said in failed.heard:
            if isinstance(said, ReplacePeerSubscriptions) and link.peer is not None:
                link.peer.voices.pop(link, None)  # its handshake is over
        for peer, (before, held) in failed.peer_lists.items():
            said_since = [said for link, said in self._batch.heard if link.peer is peer]
            now = self._wanted_by(peer) if peer.voices else applied(before, said_since)
            peer.subscriptions, peer.held = before, dict(held)
            self._set_peer_list(peer, now, removed_by(said_since))
            if peer in self._batch.peer_lists or now != before or peer.held.keys() != held.keys():
                self._batch.peer_lists[peer] = before, held
                self._batch.lists[peer] = None
        self._batch.lists |= {peer: None for peer in failed.lists if peer not in failed.peer_lists}

    def _finish(self, batch_id: int, now: float | None) -> Batch | None:
        self._tick(now)
        if self._running is None or self._running[0] != batch_id:
            return None
        batch = self._running[1]
        self._running = None
        return batch

    def fetched(self, peer: UUID, rows: Sequence[Row], now: float | None = None) -> None:
        """Take the result of a Fetch, in order."""
        self._tick(now)
        if any(pattern.rows(peer, rows, None) for pattern in self._hooks.rows):
            return
        link, after_seq = self._fetching.pop(peer, (None, 0))
        live = self._peers[peer].link if peer in self._peers else None
        if live is not None:
            self._sendable[live] = None
        if link is None or link is not live or link.window is None:
            return
        self._take_rows(
            link.window, peer, rows, after_seq, link.peer.holds if link.peer and link.peer.kept_back else None
        )

    def _take_rows(self, window: Window, peer: UUID, rows: Sequence[Row], after_seq: int, holds: Holds) -> None:
        for row in window.fetched(rows, after_seq, holds):
            self._park(window.outbox, peer, row.seq, row.size)
            self._notice(
                NoticeKind.CORRUPT_MESSAGE,
                peer,
                f"message {row.seq} (id {row.wire_id}) failed its checksum and was set aside; the rest goes on",
            )

    def fetch_failed(self, peer: UUID, error: TolliverError, now: float | None = None) -> None:
        """The Fetch brought nothing; it is tried again in a second."""
        self._tick(now)
        self._fetching.pop(peer, None)
        self._notice(NoticeKind.STORE_ERROR, peer, f"reading the outbox failed, it is tried again: {error}")
        for pattern in self._hooks.rows:
            pattern.rows(peer, (), error)
        link = self._peers[peer].link if peer in self._peers else None
        if link is not None:
            self._timers.set(("fetch", link.cid), self._now + _STORE_RETRY)
