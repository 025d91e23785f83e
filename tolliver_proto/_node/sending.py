"""Outbound half of the node: from `send` to the wire.

A message is routed once, when it is sent; from then on it is a row, an id, and for each recipient a number in its
outbox. The window of a peer decides what it is sent, and when (`outbox`); what is still owed to whom is counted in runs
(`intervals`), so that a million waiting messages cost no more than one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import count, groupby
from uuid import UUID

from .._common.errors import (
    ConnectionClosing,
    LocalProtocolError,
    OwnLimitExceeded,
    ReservedChannel,
    TolliverError,
    TooFewRecipients,
    UndeliveredReason,
)
from .._common.reserved import is_envelope
from .._common.transport import Remote
from .._wire.events import PRIVATE_CHANNELS
from .._wire.frames import Encoder
from .actions import LOOK, Acked, Fetch, NoticeKind, Receipt, Rider, Stored
from .base import Item
from .batch import Batch
from .intervals import spans_of
from .keeping import Kept
from .link import Link, Peer, Recipients
from .quota import shares_of
from .room import MakingRoom
from .store import RemoveDeliveries, StoredMessage
from .subscriptions import matching
from .terms import Terms, To, terms_of, uuids_of

_CLOCK_LOOK = 60.0  # seconds between two looks of the store at its clocks
_PAIRS_KNOWN = 4096
_NOBODY: frozenset[UUID] = frozenset()


class Sending(MakingRoom):
    """Messages from the application to the peers."""

    def send(
        self,
        channel: str,
        key: str,
        body: bytes,
        now: float | None = None,
        *,
        require_recipients: int = 0,
        to: To = None,
        expire_after: float | None = None,
    ) -> Receipt:
        """Store a message for every peer that subscribes to it. As `send_many` with one item."""
        self._tick(now)
        has_terms = require_recipients or to is not None or expire_after is not None
        if self._keeping or self._blocked or self._apart or self.closing or has_terms or self._foreign:
            item = (channel, key, body)
            return self.send_many((item,), require_recipients=require_recipients, to=to, expire_after=expire_after)
        size = self._size(channel, key, body)
        recipients = self._routes.match(channel, key)
        for peer in recipients.peers:
            if self._quota.is_tight(peer.outbox, 1, size):
                return self.send_many(((channel, key, body),))
        count = len(recipients.peers)
        receipt = Receipt(self._next_seq, self._next_seq - 1, [count])
        receipt.recipients = count
        if not count:
            self._tell_nobody(receipt, [channel])
            self._actions.append(Stored([receipt]))
            return receipt
        message = StoredMessage(self._next_seq, self._ids.take(), channel, key, body, size)
        self._take_in((message,), recipients, False)
        for peer in recipients.peers:
            peer.outbox.add(1, size)
        self._hold_receipt(receipt, 1)
        return receipt

    def send_many(
        self,
        items: Iterable[Item],
        now: float | None = None,
        *,
        require_recipients: int = 0,
        to: To = None,
        expire_after: float | None = None,
    ) -> Receipt:
        """Store messages, all or none, for every peer that subscribes to each. `Stored` names the receipt.

        `to` narrows them to one peer, or to some (P-25): those of them that do not subscribe get nothing.
        `expire_after` seconds after they were stored those that are not acknowledged are given up, after a restart too
        (P-27).

        Raises, before anything changes, TypeError, ValueError, ReservedChannel (T-27), LocalProtocolError (of a peer in
        `to` that acknowledges nothing too), OwnLimitExceeded (T-06, T-07), OutboxFull (D-10), and TooFewRecipients
        where one of them is for fewer peers than are required. While a connecting peer's share of kept messages is full
        (T-62), or the disk (D-13), or deliveries are looked for that are to make room (D-10), the send waits inside.
        """
        self._tick(now)
        if self.closing:
            raise ConnectionClosing("the instance is closing: nothing was stored")
        items = list(items)
        sizes = self._sizes(items)
        receipt, terms = Receipt(0, -1, []), terms_of(require_recipients, to, expire_after)
        for uuid in terms.to or ():
            if uuid in self._peers and not self._peers[uuid].takes_reliable:
                raise LocalProtocolError(
                    "not_reliable",
                    f"peer {uuid} speaks a layout without acknowledgements, so no message can be reliable for it: use "
                    "unreliable_send",
                )
        if self._foreign:
            self._tell_one_way(items, terms)
        if self._blocked or self._must_wait() or not self._store(items, sizes, receipt, terms):
            self._blocked.append((items, receipt, terms))
        return receipt

    def unreliable_send(self, channel: str, key: str, body: bytes, now: float | None = None, *, to: To = None) -> int:
        """Send to connected subscribers, unstored; returns how many. Dropped where the buffer is full (T-55).

        `to` narrows them as with `send_many`.
        """
        if now is not None:
            self._tick(now)
        if (channel, key) not in self._pair_sizes or type(body) is not bytes or len(body) > self.limits.max_body:
            self._size(channel, key, body)  # new names, or it raises
        marked: Encoder | None = None
        frame = b""  # by that encoder, which hardly ever is another one
        sent = 0
        high_water = self.limits.high_water
        peers = (
            self._routes.match(channel, key) if to is None else self._narrow(channel, key, uuids_of(to), True)
        ).peers
        if self._foreign:
            peers = self._with_foreign(peers, channel, key, body, to is None)
        for peer in peers:
            link = peer.link
            connection = link.connection if link is not None else None
            if link is None or connection is None or (peer.kept_back and peer.holds(channel, key)):
                continue
            if connection.unsent_bytes + link.in_transit >= high_water or not connection.live:
                self._counts["unreliable_dropped"] += 1
                continue
            if connection.encoder is not marked:
                marked, frame = connection.encoder, connection.unreliable_frame(channel, key, body)
            connection.send_encoded(frame)
            self._writable[link] = None
            sent += 1
        self._counts["unreliable_sent"] += sent
        return sent

    def _with_foreign(
        self, peers: tuple[Peer, ...], channel: str, key: str, body: bytes, to_all: bool
    ) -> tuple[Peer, ...]:
        """And those that take nothing but unreliable messages. Raises OwnLimitExceeded where the layout of one of them
        all cannot carry it: nothing was sent."""
        if to_all:
            peers += self._one_way.match(channel, key).peers
        for link in self._foreign:
            if link.peer in peers and link.connection is not None:
                try:
                    link.connection.unreliable_frame(channel, key, body)
                except OwnLimitExceeded as error:
                    raise OwnLimitExceeded(
                        error.code,
                        f"peer {link.peer.uuid} cannot be sent it: {error.detail}. Split it, or name the others with "
                        "`to`; nothing was sent",
                    ) from error
        return peers

    def _tell_one_way(self, items: Iterable[Item], terms: Terms) -> None:
        """Some of what is sent matches what peers want that acknowledge nothing."""
        if terms.to is not None:
            return
        missed: Counter[Peer] = Counter()
        for channel, key, _ in items:
            missed.update(self._one_way.match(channel, key).peers)
        for peer, times in missed.items():
            self._tally.add(
                NoticeKind.NOT_RELIABLE,
                peer.uuid,
                times,
                "reliable messages that it subscribes to were not for this peer, whose layout has no "
                "acknowledgements: it gets what is sent with unreliable_send",
                self._now,
            )

    def subscribed(self, channel: str, key: str, is_connected: bool = False) -> int:
        """Peers that a reliable message with these names would go to now, as `require_recipients` counts them; where
        `is_connected` those of them alone that are."""
        recipients = self._routes.match(channel, key)
        return len(connected(recipients, channel, key)) if is_connected else _subscribed(recipients, channel, key)

    def watch(self, receipt: Receipt) -> bool:
        """`Acked` will name this receipt when every recipient has acknowledged all of it, or some of it is given up.

        Where some of it had no recipients, that is the answer when all else is acknowledged. Returns True where the
        answer comes at once.
        """
        told = [one for one in receipt.undelivered if one.peer is not None or not receipt.unacked]
        if told or not receipt.unacked:
            self._actions.append(Acked([receipt], told[0] if told else None))
            return True
        self._watched.add(receipt)
        return False

    def _size(self, channel: str, key: str, body: bytes) -> int:
        """The encoded size of a message that may be sent, or the error that says why not."""
        around = self._pair_sizes.get((channel, key))
        if around is None:
            around = self._size_around(channel, key)
        self._check_body(channel, body)
        return around + len(body)

    def _check_body(self, channel: str, body: bytes) -> None:
        if not isinstance(body, bytes):
            raise LocalProtocolError("not_bytes", f"a body must be bytes, not {type(body).__name__}: encode it first")
        if len(body) > self.limits.max_body:
            raise OwnLimitExceeded(
                "too_long",
                f"a body of {len(body)} bytes for {channel!r:.100}: the limit is {self.limits.max_body} (T-06). "
                "Split it, or raise Limits.max_body here and at the peers",
            )

    def _sizes(self, items: Sequence[Item]) -> Sequence[int]:
        """As `_size`, of each."""
        known, most = self._pair_sizes, self.limits.max_body
        return [
            known[channel, key] + len(body)
            if type(body) is bytes and len(body) <= most and (channel, key) in known
            else self._size(channel, key, body)
            for channel, key, body in items
        ]

    def _size_around(self, channel: str, key: str) -> int:
        """The same without the body, remembered by name."""
        if channel in PRIVATE_CHANNELS:
            raise ReservedChannel(
                "reserved_channel", f"{channel!r} is the protocol's own: send on another (T-27, T-80)"
            )
        for pattern in self._hooks.refuses:
            refusal = pattern.refuses(channel)
            if refusal is not None:
                raise refusal
        if len(self._pair_sizes) >= _PAIRS_KNOWN:
            self._pair_sizes.clear()
        size = self._pair_sizes[channel, key] = self._around(channel, key)
        return size

    def _narrow(self, channel: str, key: str, to: frozenset[UUID], unreliable: bool = False) -> Recipients:
        """Those of these peers that such a message is for: a step for each of them, not for each that subscribes."""
        pairs, known = matching(channel, key), self._peers
        peers = [known[uuid] for uuid in to if uuid in known and not known[uuid].routed.isdisjoint(pairs)]
        if not unreliable:
            peers = [peer for peer in peers if peer.takes_reliable]
        return peers[0].alone if len(peers) == 1 else Recipients(tuple(peers))

    def _narrow_all(self, items: Sequence[Item], to: frozenset[UUID]) -> Sequence[Recipients]:
        """The same of each, one object for equal ones, so that runs stay runs."""
        found: dict[tuple[str, str], Recipients] = {}
        same: dict[tuple[Peer, ...], Recipients] = {}
        for channel, key, _ in items:
            if (channel, key) not in found:
                recipients = self._narrow(channel, key, to)
                found[channel, key] = same.setdefault(recipients.peers, recipients)
        return [found[channel, key] for channel, key, _ in items]

    def _around(self, channel: str, key: str) -> int:
        return self._encoder.overhead + self._name_size(channel) + self._name_size(key)

    def _store(self, items: Sequence[Item], sizes: Sequence[int], receipt: Receipt, terms: Terms) -> bool:
        """False where the send must wait until room is found."""
        routed: Sequence[Recipients] = (
            self._routes.match_all(items) if terms.to is None else self._narrow_all(items, terms.to)
        )
        _check_recipients(items, routed, terms.required)
        rider = receipt if isinstance(receipt, Rider) else None
        if rider is not None:
            rider.check()
        matched, shares = routed, shares_of(routed, sizes)
        room = None
        if any(self._quota.is_tight(peer.outbox, *share) for peer, share in shares.items()):
            room = self._find_room(routed, sizes, shares, partial(self._on_room, receipt))
            if room is None:
                return False
            routed, shares = room.routed, room.shares
            _check_recipients(items, routed, terms.required)
        # A peer that connects gets what is retained by subscribing, and is not in a `to` that names nobody.
        is_kept = bool(self._keeping) and rider is None and terms.to != _NOBODY and self._look_at_windows(len(items))
        stored = [at for at, recipients in enumerate(routed) if recipients.peers or is_kept]  # T-53
        numbers = zip(count(self._next_seq), self._ids.take_many(len(stored)), strict=False)
        if room is not None:
            self._use_room(room, receipt)
        receipt.counts += [len(recipients.peers) for recipients in routed]
        receipt.recipients = len({peer for recipients in set(routed) for peer in recipients.peers})
        receipt.first_seq = self._next_seq
        for recipients, run in groupby(stored, routed.__getitem__):
            messages = [
                StoredMessage(seq, wire_id, *items[at], sizes[at])
                for at, (seq, wire_id) in zip(run, numbers, strict=False)
            ]
            self._take_in(messages, recipients, is_kept, terms.expire_after)
            if is_kept:
                self._keeping.add(messages, recipients, terms.to)
        for peer, share in shares.items():
            peer.outbox.add(*share)
        if room is not None:
            self._look_at_filling(shares)
        if room is not None and is_kept:  # a full peer does not get it as one that connects
            for seq, peers in enumerate(room.skipped, receipt.first_seq):
                for peer in peers:
                    self._keeping[seq].exclude(peer)
        if rider is not None:
            rider.ride()
        elif not is_kept and terms.to != _NOBODY:
            self._tell_nobody(receipt, [items[at][0] for at, found in enumerate(matched) if not found.peers])
        if stored:
            self._hold_receipt(receipt, len(stored))
            if terms.expire_after is not None:
                self._look_at_due(terms.expire_after)
        elif rider is not None:
            receipt.last_seq = self._next_seq - 1
            self._batch.tokens.append(receipt)
        else:
            receipt.last_seq = self._next_seq - 1
            self._actions.append(Stored([receipt]))
        return True

    def _look_at_due(self, seconds: float) -> None:
        """Some message expires then (P-27)."""
        self._timers.set_earlier("due", self._now + seconds)
        self._watch_clock()

    def _watch_clock(self) -> None:
        """Something has an age, so the store looks for steps of its clock, as the machine of an idle node is set, too
        (D-10)."""
        self._timers.set_earlier("clock", self._now + _CLOCK_LOOK)

    def _on_clock_timeout(self, _subject: None) -> None:
        expires = self._policy.expire_after is not None or self._timers.due("due") is not None
        if expires or any(peer.held or peer.unsaid for peer in self._peers.values()):
            self._actions.append(LOOK)
            self._watch_clock()

    def _take_in(
        self,
        messages: Sequence[StoredMessage],
        recipients: Recipients,
        is_kept: bool,
        expire_after: float | None = None,
    ) -> None:
        """The next messages, for the next commit."""
        self._batch.store(messages, recipients, is_kept, expire_after)
        self._refcounts.add(self._next_seq, len(recipients.peers) + is_kept, len(messages))
        self._next_seq += len(messages)

    def _hold_receipt(self, receipt: Receipt, count: int) -> None:
        """Of so many messages, the last that were taken in."""
        receipt.last_seq = self._next_seq - 1
        receipt.unacked = count
        self._receipts.add(receipt)
        self._batch.tokens.append(receipt)

    def _tell_nobody(self, receipt: Receipt, channels: Iterable[str]) -> None:
        """Messages on these had no recipients, and are not kept (T-53). A requester that has left is no failure."""
        channels = [channel for channel in channels if not is_envelope(channel)]
        if channels:
            receipt.give_up(None, UndeliveredReason.NO_RECIPIENTS, len(channels))
            self._count_nobody(channels)

    def _count_nobody(self, channels: Sequence[str]) -> None:
        self._counts["no_recipients"] += len(channels)
        self._tally.add(
            NoticeKind.NO_RECIPIENTS,
            None,
            len(channels),
            "messages that were to be stored had no recipients and are not kept, the last one on "
            f"{channels[-1]!r:.100}: no peer that is known here subscribes to it. Wait until one does "
            "(wait_subscribed), or send with require_recipients=1 to have an error (T-53)",
            self._now,
        )

    def _on_room(self, receipt: Receipt, error: TolliverError | None) -> None:
        """The search that this send waits for is over."""
        if error is not None and self._blocked and self._blocked[0][1] is receipt:
            self._blocked.popleft()
            self._actions.append(Stored([receipt], error))
        self._unblock()

    # Keeping what is sent while a connection is made (T-62).

    def _keep(self, link: Link) -> None:
        """Its transport stands."""
        self._keeping.begin(link, self._next_seq)
        self._timers.set_earlier(("patience", link.cid), self._now + self.limits.handshake_timeout)

    def _keep_for(self, remote: Remote) -> None:
        """It was asked for just now, and was never up."""
        self._keeping.begin(remote, self._next_seq)
        self._timers.set(("window", remote), self._now + 2 * self.limits.handshake_timeout)

    def _on_window_timeout(self, remote: Remote) -> None:
        self._stop_keeping(remote)

    def _on_patience_timeout(self, cid: int) -> None:
        """No send waits for it any longer, though it may take its time to end."""
        if self._keeping.wait_no_more(self._links[cid]):
            self._unblock()

    def _look_at_windows(self, count: int) -> bool:
        """True if some window keeps so many messages more."""
        for owner in self._keeping.close_full(self._next_seq):
            link = owner if isinstance(owner, Link) else None
            whom = owner if link is None else link.identity.address if link.remote is None else link.remote
            self._counts["not_kept"] += count
            self._tally.add(
                NoticeKind.NOT_KEPT,
                link.peer.uuid if link is not None and link.peer is not None else None,
                count,
                f"messages were not kept for {whom}, which is connecting, as {self._keeping.size} bytes are kept: what "
                "it subscribes to only now it will not get of these (T-62)",
                self._now,
            )
        return self._keeping.open > 0

    def _must_wait(self) -> bool:
        return self._apart or self._keeps_enough()

    def _keeps_enough(self) -> bool:
        return self._keeping.keeps_enough(self._policy.strict_block)

    def _claim_kept(self, link: Link, peer: Peer) -> bool:
        """That peer's list is in the routes now: it is to have what is kept for it. False where that is nothing."""
        match = self._routes.match
        claimed = [
            kept
            for kept in self._keeping.for_peer(link, peer)
            if peer in match(kept.message.channel, kept.message.key).peers
        ]
        for kept in claimed:
            if kept.claim(peer):  # its receipt waits again
                for receipt, _ in self._receipts.within(kept.message.seq, kept.message.seq):
                    receipt.unacked += 1
        for first, last in spans_of(kept.message.seq for kept in claimed):
            self._refcounts.give(first, last)
        self._link(peer, claimed)
        self._stop_keeping(link)  # sends wait no more; the window of its remote lasts until that is up
        return bool(claimed)

    def _disclaim(self, peer: Peer, claimed: Iterable[Kept]) -> None:
        """They were not stored for that peer: another connection may bring it, as long as they are kept."""
        for kept in claimed:
            seq = kept.message.seq
            kept.disclaim(peer)
            is_gone = bool(self._let_go(seq, seq, {seq: kept.message.wire_id}))
            if kept.owners and not kept.owed:
                self._tell_watchers(seq, seq)
            elif is_gone:
                self._tell_unowned([kept])

    def _stop_keeping(self, *owners: Link | Remote) -> None:
        """The end of these windows. Messages that no peer is owed then leave the store."""
        for owner in owners:
            if owner not in self._keeping:
                continue
            if not isinstance(owner, Link):
                self._timers.cancel(("window", owner))
            left = self._keeping.end(owner)
            ids = {kept.message.seq: kept.message.wire_id for kept in left}
            for first, last in spans_of(ids):
                self._let_go(first, last, ids)
            self._timers.set_earlier("removals", self._now + self.limits.removal_delay)
            self._tell_unowned([kept for kept in left if not kept.owners])
            self._unblock()

    def _tell_unowned(self, left: Iterable[Kept]) -> None:
        """They were kept, and no peer was ever to have them (T-53)."""
        unowned = [kept.message for kept in left if not is_envelope(kept.message.channel)]
        for message in unowned:
            for receipt, _ in self._receipts.within(message.seq, message.seq):
                receipt.give_up(None, UndeliveredReason.NO_RECIPIENTS, 1)
        for kept in left:
            self._tell_watchers(kept.message.seq, kept.message.seq)
        if unowned:
            self._count_nobody([message.channel for message in unowned])

    def _unblock(self) -> None:
        """Store the sends that waited, in order, unless they are to go apart."""
        if not self._apart:
            self._store_blocked()

    def _store_blocked(self) -> None:
        """And what patterns have that waited."""
        self._store_sends()
        for pattern in self._hooks.room_is_back:
            pattern.room_is_back()

    def _store_sends(self) -> None:
        """As far as the shares of the connecting peers allow, and until room at a quota is looked for."""
        while self._blocked and not self._keeps_enough():
            items, receipt, terms = self._blocked[0]
            try:
                if not self._store(items, self._sizes(items), receipt, terms):
                    return
            except TolliverError as error:
                self._actions.append(Stored([receipt], error))
            self._blocked.popleft()

    # From the store to the wire.

    def _committed_for(self, peer: Peer, messages: Sequence[StoredMessage]) -> None:
        link = peer.link
        if link is not None and link.window is not None:
            wanted = [one for one in messages if not peer.holds(one.channel, one.key)] if peer.kept_back else None
            link.window.committed(messages, wanted)
            self._sendable[link] = None
        elif peer.reader is not None:
            peer.reader.committed(messages)
            for pattern in self._hooks.stored:
                pattern.stored(peer, messages)
        else:
            peer.outbox.stored(messages[0].seq, messages[-1].seq)

    def _pump(self, link: Link) -> None:
        """Give the connection what its peer may be sent now."""
        window, connection, peer = link.window, link.connection, link.peer
        if window is None or connection is None or peer is None or not connection.live or not peer.takes_reliable:
            return
        room = (self.limits.low_water if link.above_high_water else self.limits.high_water) - link.unsent
        link.above_high_water = room <= 0
        if room > 0:
            room = self.limits.high_water - link.unsent
        while room > 0:
            run = window.next_run(1 if peer.kept_back else room)
            if not run:
                break
            if peer.kept_back and peer.holds(run[0].channel, run[0].key):
                window.acked(run[0].wire_id)  # it goes out anew when it is held no more
                continue
            data = self._encoded(run) if link not in self._foreign else connection.encoder.messages(run)
            connection.send_encoded(data)
            link.gathered += [message.wire_id for message in run]
            room -= len(data)
            outbox = peer.outbox
            if run[0].seq > outbox.sent_to:  # then the others are above it too
                outbox.sent_to = run[-1].seq
                self._counts["sent"] += len(run)
                peer.counts.sent += len(run)
            else:
                self._count_resent(peer, run)
        else:
            link.above_high_water = True
        self._writable[link] = None
        self._fetch(link, peer)
        due = window.next_due()
        if due is not None:
            self._timers.set(("resend", link.cid), due)

    def _encoded(self, run: Sequence[StoredMessage]) -> bytes:
        frames = self._frames
        if not (frames or self._sendable):
            one = run[0]
            if len(run) == 1:
                return self._encoder.message(one.channel, one.key, one.body, one.wire_id)
            return self._encoder.messages(run)
        for message in run:  # for one peer after the other, who may be sent the same
            if message.seq not in frames:
                frames[message.seq] = self._encoder.messages((message,))
        return b"".join([frames[message.seq] for message in run])

    def _count_resent(self, peer: Peer, run: Sequence[StoredMessage]) -> None:
        outbox, counts = peer.outbox, peer.counts
        for message in run:
            if message.seq > outbox.sent_to:
                outbox.sent_to = message.seq
                self._counts["sent"] += 1
                counts.sent += 1
            else:
                self._counts["resent"] += 1
                counts.resent += 1

    def _fetch(self, link: Link, peer: Peer) -> None:
        if link.window is None or (self._fetching and peer.uuid in self._fetching):
            return
        wanted = link.window.next_fetch()
        if wanted is not None:
            self._fetching[peer.uuid] = (link, wanted[0])
            self._actions.append(Fetch(peer.uuid, *wanted))

    def _transmit(self, link: Link) -> None:
        super()._transmit(link)
        link.answers = 0
        link.sent_at = self._now
        link.in_flight, link.gathered = link.gathered, []
        link.exposure.handed(link.in_flight)
        link.handed += link.in_transit
        self._counts["bytes_sent"] += link.in_transit
        if link.peer is not None:
            link.peer.counts.bytes_sent += link.in_transit

    def _resend_control(self, link: Link, wire_ids: Iterable[int]) -> None:
        """Control messages whose acknowledgement is overdue go out again as they were."""
        assert link.connection is not None
        for wire_id in wire_ids:
            frame = link.control.frame(wire_id) if link.control else None
            if frame is not None and link.connection.live:
                link.connection.send(frame)
                link.gathered.append(wire_id)
        self._writable[link] = None

    # From the wire back to the store.

    def _settle(self, link: Link, acked: Mapping[int, tuple[int, int]]) -> None:
        """A run of acknowledgements: wire id -> (seq, size)."""
        peer = link.peer
        assert peer is not None
        ids = {seq: wire_id for wire_id, (seq, _) in acked.items()}
        peer.outbox.add(-len(ids), -sum(size for _, size in acked.values()))
        spans = spans_of(ids)
        peer.outbox.leave(spans)
        peer.outbox.poison.acked()
        link.exposure.acked(self._now)
        window = link.window
        self._look_at_acks(link, link.ack_watch.acked(self._now, window is not None and window.in_flight))
        link.fruitful = True
        self._counts["acked"] += len(ids)
        peer.counts.acknowledged += len(ids)
        if link.timed_id in acked:
            peer.round_trip = self._now - link.timed_at
            self._round_trips.add(peer.round_trip)
        self._batch.put_away.append(RemoveDeliveries(peer.uuid, spans))
        self._release(spans, ids)
        if window is not None and (window.waiting or link.above_high_water):
            self._sendable[link] = None
        for pattern in self._hooks.left:
            pattern.left(peer, ids)

    def _look_at_acks(self, link: Link, due: float | None) -> None:
        if due is not None:
            self._timers.set(("unacked", link.cid), due)

    def _take_back(self, batch: Batch) -> None:
        """Messages that were not stored: no id, no owner, no place in a window that keeps for somebody."""
        for recipients, messages in batch.runs:
            size = sum(message.size for message in messages)
            for peer in recipients.peers:
                peer.outbox.add(-len(messages), -size)
        ids = {message.seq: message.wire_id for message in batch.messages()}
        self._keeping.take_back(batch.messages())
        linked, self._batch.linked = self._batch.linked, []
        for peer, claimed in linked:  # promised to a peer in the meantime
            self._unlink(peer, claimed)
            self._link(peer, [kept for kept in claimed if kept.message.seq not in ids])
        for first, last in spans_of(ids):
            self._refcounts.drop(first, last)
        self._ids.give_back(spans_of(ids.values()))
        for receipt in batch.tokens:
            receipt.unacked = 0
            self.unwatch(receipt)
        for pattern in self._hooks.left:
            for recipients, messages in batch.runs:
                for peer in recipients.peers:
                    pattern.left(peer, [one.seq for one in messages])

    def _link(self, peer: Peer, claimed: list[Kept]) -> None:
        """Messages that are kept become this peer's with the next commit (T-62)."""
        if claimed:
            peer.outbox.add(len(claimed), sum(kept.message.size for kept in claimed))
            self._batch.linked.append((peer, claimed))

    def _unlink(self, peer: Peer, claimed: list[Kept]) -> None:
        peer.outbox.add(-len(claimed), -sum(kept.message.size for kept in claimed))


def _subscribed(recipients: Recipients, channel: str, key: str) -> int:
    """Peers that want it now: a subscription that is held may never come back (T-61)."""
    return sum(not peer.holds(channel, key) for peer in recipients.peers)


def connected(recipients: Recipients, channel: str, key: str) -> list[Peer]:
    """Those of them that such a message may be sent to now."""
    return [
        peer
        for peer in recipients.peers
        if peer.link is not None and peer.link.is_live and not (peer.kept_back and peer.holds(channel, key))
    ]


def _check_recipients(items: Sequence[Item], routed: Sequence[Recipients], required: int) -> None:
    """Raises TooFewRecipients, before anything has changed."""
    for (channel, key, _), recipients in zip(items, routed, strict=True) if required else ():
        found = _subscribed(recipients, channel, key)
        if found < required:
            raise TooFewRecipients(channel, key, required, found)
