"""Messages from the store to the wire, and acknowledgements back.

State: here the running fetches (one for each peer) and the encoded frames of one round (`frames`). The state of a
connection is its `link.sending`: the window, and the ids on their way to the socket. The window decides which messages
are sent, and when (`outbox`).

The way: `on_stored` or `fetched` brings rows to the window; `pump` encodes what the window gives, up to high water;
`hand_over` notes the ids in the Transmit; `taken` starts the time to their resend when the socket has taken them
(T-50); `settle` ends deliveries at an ack.

Invariants: a connection that went above high water gets no frames until it is below low water (D-9). All pending
messages are sent, in order, on each new connection (T-51). The time to a resend begins with the socket, not with the
send, so that a slow line is no reason to resend. A row that cannot be read is set aside, and the next rows go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from ..._common.errors import TolliverError
from ..._common.histogram import Histogram
from ..._common.intervals import spans_of
from ..actions import Fetch, NoticeKind
from ..commits.commits import STORE_RETRY, Commits
from ..context import Context
from ..link import Link, Peer, Recipients, peer_of
from ..store import RemoveDeliveries, Row, StoredMessage
from .ledger import Ledger
from .outbox import Holds, Window
from .suspicion import ALONE_AFTER_UP, AckWatch

_LOOK_AGAIN = 1.0  # seconds


class Transmission:
    """Sends stored messages over the live connections, and removes the deliveries that peers acknowledge."""

    def __init__(self, context: Context, commits: Commits, ledger: Ledger) -> None:
        self._context = context
        self._limits = context.limits
        self._policy = context.policy
        self._timers = context.timers
        self._counts = context.counts
        self._actions = context.actions
        self._peers = context.peers
        self._hooks = context.hooks
        self._commits = commits
        self._ledger = ledger
        self._fetching: dict[UUID, tuple[Link, int]] = {}
        self._frames: dict[int, bytes] = {}  # by seq, shared by the peers of one round
        self._round_trips = Histogram()
        context.due.update(
            {
                "resend": self._on_resend_timeout,
                "fetch": self._on_fetch_timeout,
                "unacked": self._on_unacked_timeout,
                "deferred": self._on_deferred_timeout,
            }
        )

    def on_stored(self, runs: Iterable[tuple[Recipients, Sequence[StoredMessage]]]) -> None:
        """Hands stored messages, in runs with the same recipients, to the windows of these."""
        for recipients, messages in runs:
            for peer in recipients.peers:
                link, lists = peer.link, peer.lists
                if link is not None and link.sending.window is not None:
                    wanted = None
                    if lists.kept_back:
                        wanted = [one for one in messages if not lists.holds(one.channel, one.key)]
                    link.sending.window.committed(messages, wanted)
                    self._context.sendable[link] = None
                elif peer.outbox.reader is not None:
                    peer.outbox.reader.committed(messages)
                    for pattern in self._hooks.stored:
                        pattern.stored(peer, messages)
                else:
                    peer.outbox.stored(messages[0].seq, messages[-1].seq)
        self._ledger.stored_times.stored(messages[-1].seq, self._context.now)

    def up(self, link: Link, peer: Peer) -> None:
        """Opens the window of the peer's new live link, which sends all pending messages in order (T-51)."""
        sending = link.sending
        sending.ack_watch = AckWatch(self._policy.unacknowledged_after)
        sending.window = Window(peer.outbox, self._limits, self._context.retry_interval, self._context.rng.random)
        self._context.sendable[link] = None
        if peer.outbox.poison.alone:
            sending.window.deferred = True
            self._timers.set(("deferred", link.cid), self._context.now + ALONE_AFTER_UP)

    def down(self, link: Link) -> None:
        """Ends the window, as the link is no longer the peer's live link."""
        window, link.sending.window = link.sending.window, None
        if window is not None and link.peer is not None:
            link.peer.outbox.left(window)
            self._timers.cancel(("deferred", link.cid))

    def read_for(self, owner: Peer) -> Window:
        """Returns the new reader of the messages of an owner that is no peer."""
        window = Window(owner.outbox, self._limits, self._context.retry_interval, self._context.rng.random)
        owner.outbox.reader = window
        return window

    def _on_deferred_timeout(self, cid: int) -> None:
        """Sends the first message of the connection `cid`, at which its peer may have ended earlier ones, as the peer
        has been up for long enough (T-09).
        """
        link = self._context.links[cid]
        assert link.sending.window is not None
        link.sending.window.deferred = False
        self._context.sendable[link] = None

    def pump(self, link: Link) -> None:
        """Encodes the messages that the connection may send now, and asks the store for more rows.

        Frames that connections share are dropped with the last ready one.
        """
        window, connection, peer = link.sending.window, link.connection, link.peer
        if (
            window is None
            or connection is None
            or peer is None
            or not connection.live
            or not peer.outbox.takes_reliable
        ):
            return
        unsent, high_water = link.unsent, self._limits.high_water
        room = (self._limits.low_water if link.sending.above_high_water else high_water) - unsent
        link.sending.above_high_water = room <= 0
        if room > 0:
            room = high_water - unsent
        while room > 0:
            run = window.next_run(1 if peer.lists.kept_back else room)
            if not run:
                break
            if peer.lists.kept_back and peer.lists.holds(run[0].channel, run[0].key):
                window.acked(run[0].wire_id)  # sent as new when the hold ends
                continue
            data = self._encoded(run) if link not in self._context.foreign else connection.encoder.messages(run)
            connection.send_encoded(data)
            link.sending.gathered += [message.wire_id for message in run]
            room -= len(data)
            outbox = peer.outbox
            if run[0].seq > outbox.sent_to:  # the run ascends: all of it is new
                outbox.sent_to = run[-1].seq
                self._counts["sent"] += len(run)
                peer.counts.sent += len(run)
            else:
                self._count_resent(peer, run)
        else:
            link.sending.above_high_water = True
        self._context.writable[link] = None
        self._fetch(link, peer)
        due = window.next_due()
        if due is not None:
            self._timers.set(("resend", link.cid), due)
        if not self._context.sendable:
            self._frames.clear()

    def hand_over(self, link: Link) -> None:
        """Notes that the bytes of all gathered messages go to the socket now."""
        sending = link.sending
        sending.in_flight, sending.gathered = sending.gathered, []
        if sending.in_flight:
            sending.exposure.handed(sending.in_flight)
        sending.handed += link.in_transit

    def taken(self, link: Link) -> None:
        """Notes that the socket has taken the messages: the time to their resend begins (T-50)."""
        sending, window = link.sending, link.sending.window
        if window is None:
            sending.in_flight = []
        elif sending.in_flight or sending.above_high_water or not window.idle:
            control = link.lists.control
            window.transmitted(sending.in_flight, control.under_way if control is not None else (), self._context.now)
            if sending.in_flight and not window.is_in_flight(sending.timed_id):
                sending.timed_id, sending.timed_at = sending.in_flight[-1], self._context.now
            sending.exposure.taken(self._context.now)
            due = sending.ack_watch.sent(self._context.now) if window.in_flight else None
            if due is not None:
                self.look_at_acks(link, due)
            self._context.sendable[link] = None
            sending.in_flight = []

    def _encoded(self, run: Sequence[StoredMessage]) -> bytes:
        frames = self._frames
        if not (frames or self._context.sendable):
            one = run[0]
            if len(run) == 1:
                return self._context.encoder.message(one.channel, one.key, one.body, one.wire_id)
            return self._context.encoder.messages(run)
        for message in run:  # the next peers may get the same messages
            if message.seq not in frames:
                frames[message.seq] = self._context.encoder.messages((message,))
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
        if link.sending.window is None or (self._fetching and peer.uuid in self._fetching):
            return
        wanted = link.sending.window.next_fetch()
        if wanted is not None:
            self._fetching[peer.uuid] = (link, wanted[0])
            self._actions.append(Fetch(peer.uuid, *wanted))

    def _resend_control(self, link: Link, wire_ids: Iterable[int]) -> None:
        """Resends the control messages whose ack is overdue, unchanged."""
        assert link.connection is not None
        for wire_id in wire_ids:
            frame = link.lists.control.frame(wire_id) if link.lists.control else None
            if frame is not None and link.connection.live:
                link.connection.send(frame)
                link.sending.gathered.append(wire_id)
        self._context.writable[link] = None

    def settle(self, link: Link, acked: Mapping[int, tuple[int, int]]) -> None:
        """Ends the deliveries that a run of acks names; `acked` has (seq, size in bytes) by wire id."""
        peer = link.peer
        assert peer is not None
        ids, total = {}, 0
        for wire_id, (seq, size) in acked.items():
            ids[seq] = wire_id
            total += size
        peer.outbox.add(-len(ids), -total)
        spans = spans_of(ids)
        peer.outbox.leave(spans)
        peer.outbox.poison.acked()
        link.sending.exposure.acked(self._context.now)
        window = link.sending.window
        due = link.sending.ack_watch.acked(self._context.now, window is not None and window.in_flight)
        if due is not None:
            self.look_at_acks(link, due)
        link.bear_fruit()
        self._counts["acked"] += len(ids)
        peer.counts.acknowledged += len(ids)
        if link.sending.timed_id in acked:
            peer.outbox.round_trip = self._context.now - link.sending.timed_at
            self._round_trips.add(peer.outbox.round_trip)
        self._commits.batch.put_away.append(RemoveDeliveries(peer.uuid, spans))
        self._ledger.release(spans, ids)
        if window is not None and (window.waiting or link.sending.above_high_water):
            self._context.sendable[link] = None
        for pattern in self._hooks.left:
            pattern.left(peer, ids)

    def look_at_acks(self, link: Link, due: float | None) -> None:
        if due is not None:
            self._timers.set(("unacked", link.cid), due)

    def suspect(self, link: Link) -> None:
        """Counts an orderly end against the first unacknowledged message; the last such end allowed sets the message
        aside (T-09).
        """
        peer = peer_of(link)
        window = link.sending.window
        sizes = {} if window is None else window.sizes_of(link.sending.exposure.at(self._context.now))
        seq = peer.outbox.poison.ended([*sizes])
        if seq is None:
            return
        self._ledger.park(peer.outbox, peer.uuid, seq, sizes[seq])
        self._context.notice(
            NoticeKind.PARKED,
            peer.uuid,
            f"message {seq} was set aside, as the peer closes whenever it gets it; the next ones go. Is it larger "
            "than the peer's limit? `retry` sends it again, `drop_parked` gives it up (T-09)",
        )

    def fetched(self, peer: UUID, rows: Sequence[Row], now: float | None = None) -> None:
        """Takes the rows of a Fetch, in order."""
        self._context.tick(now)
        if any(pattern.rows(peer, rows, None) for pattern in self._hooks.rows):
            return
        link, after_seq = self._fetching.pop(peer, (None, 0))
        live = self._peers[peer].link if peer in self._peers else None
        if live is not None:
            self._context.sendable[live] = None
        if link is None or link is not live or link.sending.window is None:
            return
        self.take_rows(
            link.sending.window,
            peer,
            rows,
            after_seq,
            link.peer.lists.holds if link.peer and link.peer.lists.kept_back else None,
        )

    def take_rows(self, window: Window, peer: UUID, rows: Sequence[Row], after_seq: int, holds: Holds) -> None:
        for row in window.fetched(rows, after_seq, holds):
            self._ledger.park(window.outbox, peer, row.seq, row.size)
            self._context.notice(
                NoticeKind.CORRUPT_MESSAGE,
                peer,
                f"message {row.seq} (id {row.wire_id}) failed its checksum and was set aside; the rest goes on",
            )

    def fetch_failed(self, peer: UUID, error: TolliverError, now: float | None = None) -> None:
        """Reports that a Fetch for this peer failed with `error`, and repeats it after STORE_RETRY seconds."""
        self._context.tick(now)
        self._fetching.pop(peer, None)
        self._context.notice(NoticeKind.STORE_ERROR, peer, f"reading the outbox failed, it is tried again: {error}")
        for pattern in self._hooks.rows:
            pattern.rows(peer, (), error)
        link = self._peers[peer].link if peer in self._peers else None
        if link is not None:
            self._timers.set(("fetch", link.cid), self._context.now + STORE_RETRY)

    def _on_resend_timeout(self, cid: int) -> None:
        link = self._context.links[cid]
        if link.sending.window is None:
            return
        self._resend_control(link, link.sending.window.fall_due(self._context.now))
        if link.sending.window.full:
            self._context.notice(
                NoticeKind.BACKOFF_FULL,
                peer_of(link).uuid,
                f"{self._limits.backoff_messages} messages wait for a late ack: sends to this peer pause (T-52)",
            )
        self._context.sendable[link] = None

    def _on_fetch_timeout(self, cid: int) -> None:
        self._context.sendable[self._context.links[cid]] = None

    def _on_unacked_timeout(self, cid: int) -> None:
        """Reports that the peer of the connection `cid` owes acks and is silent. While we do not read, our own handlers
        being full, the acks may be unread.
        """
        link = self._context.links[cid]
        oldest = link.sending.window.oldest() if link.sending.window is not None else None
        if oldest is None or link.sending.window is None:
            return
        if link.holding or link.paused:
            self._timers.set(("unacked", cid), self._context.now + _LOOK_AGAIN)
            return
        seconds, due = link.sending.ack_watch.look(self._context.now)
        self.look_at_acks(link, due)
        if seconds is not None:
            self._notice_silence(
                link, link.sending.window.in_backoff + link.sending.window.in_window[0], seconds, *oldest
            )

    def _notice_silence(self, link: Link, count: int, seconds: float, message_id: int, name: tuple[str, str]) -> None:
        self._context.notice(
            NoticeKind.UNACKNOWLEDGED,
            link.peer.uuid if link.peer else None,
            f"it is connected, and has acknowledged none of {count} messages for {seconds:.0f} s; the oldest is "
            f"{message_id} on {name[0]!r:.100} {name[1]!r:.100}: do its handlers hang, or does it not read? "
            "(unacknowledged_after)",
        )

    @property
    def round_trips(self) -> Histogram:
        """Seconds from the socket's taking a message to its ack, of one message at a time for each connection."""
        return self._round_trips
