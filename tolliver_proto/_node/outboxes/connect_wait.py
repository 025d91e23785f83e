"""Messages kept while a connection is being made (T-62)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..._common.errors import TolliverError, UndeliveredReason
from ..._common.intervals import spans_of
from ..._common.reserved import is_envelope
from ..._common.transport import Remote
from ..actions import NoticeKind
from ..commits.batch import Batch, Kept
from ..commits.commits import Commits
from ..context import Context
from ..link import Link, Peer
from .ledger import Ledger
from .routing import Routing
from .sender import Sender


class ConnectWait:
    """Windows of connecting peers: what is sent while a connection is being made is kept for its peer, which may
    subscribe to it. Begins, claims and ends these windows.
    """

    def __init__(self, context: Context, commits: Commits, routing: Routing, ledger: Ledger, sender: Sender) -> None:
        self._context = context
        self._limits = context.limits
        self._timers = context.timers
        self._routing = routing
        self._ledger = ledger
        self._sender = sender
        self._commits = commits
        self._claims: dict[Peer, Sequence[Link | Remote]] = {}  # whose windows a peer has claimed from, until stored
        context.due.update({"patience": self._on_patience_timeout, "window": self._on_window_timeout})

    def begin(self, link: Link) -> None:
        """Begins to keep messages for a connection whose transport stands."""
        self._ledger.keeping.begin(link, self._ledger.next_seq)
        self._timers.set_earlier(("patience", link.cid), self._context.now + self._limits.handshake_timeout)

    def begin_for(self, remote: Remote) -> None:
        """Begins to keep messages for a remote that the application asked for, and that was never up."""
        self._ledger.keeping.begin(remote, self._ledger.next_seq)
        self._timers.set(("window", remote), self._context.now + 2 * self._limits.handshake_timeout)

    def _on_window_timeout(self, remote: Remote) -> None:
        self.stop_keeping(remote)

    def _on_patience_timeout(self, cid: int) -> None:
        """Lets sends continue although the connection `cid` is still connecting: they have waited long enough."""
        if self._ledger.keeping.wait_no_more(self._context.links[cid]):
            self._sender.unblock()

    def claim_kept(self, peer: Peer, *owners: Link | Remote) -> bool:
        """Makes the peer a recipient of the messages kept for these connections and remotes that its list, now in the
        routes, matches; returns False if there are none.
        """
        match = self._routing.routes.match
        claimed = [
            kept
            for kept in self._ledger.keeping.for_peer(peer, owners)
            if peer in match(kept.message.channel, kept.message.key).peers
        ]
        for kept in claimed:
            if kept.claim(peer):  # all had acknowledged: the receipt waits again
                for receipt, _ in self._ledger.receipts.within(kept.message.seq, kept.message.seq):
                    receipt.unacked += 1
        for first, last in spans_of(kept.message.seq for kept in claimed):
            self._ledger.refcounts.give(first, last)
        self._ledger.link_kept(peer, claimed)
        if claimed:
            self._claims[peer] = owners
        return bool(claimed)

    def on_linked(self, linked: Iterable[tuple[Peer, Sequence[Kept]]]) -> None:
        """Has the connections of these peers send the kept messages that each has claimed, once the claims are
        stored.
        """
        for peer, claimed in linked:
            self._claims.pop(peer, None)
            self._ledger.read_again(peer, claimed[0].message.seq, claimed[-1].message.seq)

    def hand_over(self, peer: Peer, *remotes: Remote) -> None:
        """Ends the windows of these remotes, as their peer is up: once what the peer has claimed from them is stored.
        If that fails they go on, as the peer may be gone again.
        """

        def end(error: TolliverError | None) -> None:
            if error is None:
                self.stop_keeping(*remotes)

        claiming = [batch for batch in self._commits.batches() if any(one is peer for one, _ in batch.linked)]
        if claiming:
            claiming[0].then.append(end)  # the later one
        else:
            end(None)

    def take_back(self, batch: Batch) -> None:
        """Takes back the claims of a failed commit; makes them again where another connection relies on them."""
        stored = {message.seq for operation in batch.stored for message in operation.messages}
        for peer, claimed in batch.linked:
            self._ledger.unlink_kept(peer, claimed)
            if peer.lists.voices:
                self._ledger.link_kept(peer, claimed)
            else:
                self._disclaim(peer, claimed)
                kept = self._ledger.keeping.for_peer(peer, self._claims.pop(peer, ()))
                seqs = [{one.message.seq for one in some} for some in (claimed, kept)]
                self._count_lost(peer, len(seqs[0] - seqs[1] - stored))

    def _count_lost(self, peer: Peer, count: int) -> None:
        """Reports messages that no window keeps any more for the next connection of the peer."""
        if count:
            self._context.counts["not_kept"] += count
            text = "messages that were sent while it was connecting are not kept for it: its list was not stored (T-62)"
            self._context.tally.add(NoticeKind.NOT_KEPT, peer.uuid, count, text, self._context.now)

    def _disclaim(self, peer: Peer, claimed: Iterable[Kept]) -> None:
        """Takes a claim back, as its commit failed: the peer may claim the messages again while a window keeps them."""
        for kept in claimed:
            seq = kept.message.seq
            kept.disclaim(peer)
            is_gone = bool(self._ledger.let_go(seq, seq, {seq: kept.message.wire_id}))
            if kept.owners and (is_gone or not kept.owed):  # `owed` is out of date once no window keeps it
                self._ledger.tell_watchers(seq, seq)
            elif is_gone:
                self._tell_unowned([kept])

    def lose(self, link: Link) -> None:
        """Ends the window of a failed connection. Reports the messages that the next connection to its remote will not
        get, as that window was full.
        """
        count = self._ledger.keeping.lose(link)
        if count:
            self._sender.count_not_kept(link, count)
        self.stop_keeping(link)

    def stop_keeping(self, *owners: Link | Remote) -> None:
        """Keeps no more messages for these connections or remotes. Kept messages without an owner then leave the
        store.
        """
        for owner in owners:
            if owner not in self._ledger.keeping:
                continue
            if not isinstance(owner, Link):
                self._timers.cancel(("window", owner))
            left = self._ledger.keeping.end(owner)
            ids = {kept.message.seq: kept.message.wire_id for kept in left}
            for first, last in spans_of(ids):
                self._ledger.let_go(first, last, ids)
            self._timers.set_earlier("removals", self._context.now + self._limits.removal_delay)
            self._tell_unowned([kept for kept in left if not kept.owners])
            self._sender.unblock()

    def _tell_unowned(self, left: Iterable[Kept]) -> None:
        """Reports kept messages that never had a recipient (T-53)."""
        unowned = [kept.message for kept in left if not is_envelope(kept.message.channel)]
        for message in unowned:
            for receipt, _ in self._ledger.receipts.within(message.seq, message.seq):
                receipt.give_up(None, UndeliveredReason.NO_RECIPIENTS, 1)
        for kept in left:
            self._ledger.tell_watchers(kept.message.seq, kept.message.seq)
        if unowned:
            self._sender.count_nobody([message.channel for message in unowned])
