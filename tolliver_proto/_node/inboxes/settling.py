"""Verdicts of handlers: success, failure, retry after a pause, give up (T-45, P-22, P-23).

A message that waits for its next try keeps its place and its credit (D-9), so that a copy that comes meanwhile shares
its answer (T-48). The wait ends with the connection, as no ack could be given afterwards (T-49).
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from ..._common.derived_ids import is_derived
from ..actions import Deliver, Delivery, NoticeKind
from ..commits.commits import Commits
from ..context import Context
from ..link import Link
from ..message_set import Handled, Known
from .credit import Credit
from .dead_letters import DeadLetters
from .delivering import Delivering
from .inbox import Inbox, key_of

_BY_ID, _YES = Known.BY_ID, Known.YES


class Settling:
    """Takes the verdicts of handlers and sends acks."""

    def __init__(
        self, context: Context, commits: Commits, credit: Credit, delivering: Delivering, letters: DeadLetters
    ) -> None:
        self._context = context
        self._limits = context.limits
        self._policy = context.policy
        self._timers = context.timers
        self._counts = context.counts
        self._actions = context.actions
        self._peers = context.peers
        self._hooks = context.hooks
        self._commits = commits
        self._credit = credit
        self._delivering = delivering
        self._letters = letters
        self.again: dict[Delivery, None] = {}
        context.due.update({"handled": self._on_handled_timeout, "again": self._on_again_timeout})

    def _on_id_reused(self, peer: UUID, message_id: int) -> None:
        """Reports that a peer used a message id for another message, rate limited: a copied database may reuse any
        number of ids.
        """
        self._counts["ids_reused"] += 1
        why = (
            "Rows of a batch came again in another shape, so some may have come twice: write the batch with "
            "tolliver.spark.stable, or with idColumn (T-72a)"
            if is_derived(peer)
            else "The peer's database was restored from a copy, or a copy of it is used beside it: see to it that only "
            "one is used (T-48)"
        )
        self._context.tally.add(
            NoticeKind.ID_REUSED,
            peer,
            1,
            f"messages came under ids that it had given to others, the last one under {message_id}. Each was "
            f"delivered. {why}",
            self._context.now,
        )

    def judge(self, is_well: bool) -> None:
        """Counts a message that was acknowledged on receipt, now that its handler has ended (T-45)."""
        self._counts["handled" if is_well else "failed"] += 1

    def acknowledge(self, deliveries: Iterable[Delivery], now: float | None = None, is_judged: bool = True) -> None:
        """Acknowledges messages that all matching handlers handled (T-45); those that are not judged yet are counted
        by `judge`."""
        self._context.tick(now)
        for pattern in self._hooks.acknowledges:
            deliveries = pattern.acknowledges(deliveries)
        is_durable, dedupe, handled = self._policy.dedupe_durable, self._policy.dedupe, 0
        counted = self._credit.counted
        acks: dict[Link, list[int]] = (
            self._commits.batch.acks if is_durable else {}
        )  # else acks go out with their commit
        link: Link | None = None
        whose: tuple[Inbox, UUID] | None = None
        for delivery in deliveries:
            if self._letters.replayed and delivery in self._letters.replayed:
                self._letters.remove_letters([self._letters.replayed.pop(delivery)])
                continue
            if link is None or link.cid != delivery.cid:  # looked up once per run of one connection
                if whose is not None:
                    self._credit.give_back_credit(*whose)
                link = self._context.links.get(delivery.cid)
                peer = link.peer if link is not None else self._peers.get(delivery.peer_id)
                inbox = peer.inbox if peer is not None else self._credit.inbox_of(delivery)
                whose = inbox, delivery.peer_id
            if not inbox.remove(delivery):
                continue
            if counted:
                self._credit.uncount(delivery)
            handled += 1
            message_id = delivery.message.message_id
            if message_id is None:
                continue
            if dedupe:
                self._remember(delivery)
            if peer is not None and peer.inbox.attempts:
                peer.inbox.attempts.pop(key_of(delivery.message), None)
            if link is not None and link.sending.window is not None:
                link.bear_fruit()
                acks.setdefault(link, []).append(message_id)
            for waiting, count in self._credit.take_copies(delivery, inbox) if inbox.waiting else ():
                acks.setdefault(waiting, []).extend([message_id] * count)
        if is_judged:
            self._counts["handled"] += handled
        if whose is not None and (whose[0].exhausted or self._credit.left_inboxes):
            self._credit.give_back_credit(*whose)
        for acked, message_ids in acks.items() if not is_durable else ():
            self._commits.ack(acked, message_ids)

    def _remember(self, delivery: Delivery) -> None:
        """Remembers the message, whose copies are duplicates from then on (T-48), now or with the next commit."""
        handled = self._delivering.dedupe.succeeded(delivery)
        if handled is None:
            return
        if is_derived(delivery.peer_id):
            self._use_derived(delivery.peer_id)
        if not self._policy.dedupe_durable:
            self.learn((handled,))
            return
        self._commits.batch.handled.append(handled)
        self._timers.set_earlier("removals", self._context.now + self._limits.removal_delay)

    def learn(self, messages: Iterable[Handled]) -> None:
        """Adds handled messages to those whose copies are duplicates, after the commit where one is needed."""
        for peer, message_id, checksum in messages:
            if self._delivering.dedupe.add(peer, message_id, checksum) is _BY_ID:
                self._on_id_reused(peer, message_id)

    def _use_derived(self, uuid: UUID) -> None:
        """Restarts the day after which a derived identity's state expires (T-72a)."""
        self._delivering.dedupe.use(uuid, self._context.now)
        if self._delivering.dedupe.crowded:
            self._on_handled_timeout(None)
        self._set_handled_timer()

    def _set_handled_timer(self) -> None:
        due = self._delivering.dedupe.next_expiry
        if due is not None:
            self._timers.set_earlier("handled", due)

    def _on_handled_timeout(self, _subject: None) -> None:
        stale = self._delivering.dedupe.expire(self._context.now)
        if stale:
            self._commits.batch.stale.extend(stale)
            self._timers.set_earlier("removals", self._context.now + self._limits.removal_delay)
        self._set_handled_timer()

    def fail(self, deliveries: Iterable[Delivery], now: float | None = None) -> None:
        """Records that handlers failed with these messages; the last allowed try makes a dead letter (T-47)."""
        self._context.tick(now)
        deliveries = [*deliveries]
        for delivery in deliveries:
            inbox = self._take_unhandled(delivery)
            if inbox is None:
                continue
            self._counts["failed"] += 1
            message_id, peer = delivery.message.message_id, self._peers.get(delivery.peer_id)
            if message_id is not None and peer is not None:
                is_last = delivery.attempt >= self._limits.max_attempts
                key = key_of(delivery.message)
                # Until the commit of the dead letter a copy may be tried once more.
                self._letters.count_attempt(peer, key, delivery.attempt - is_last)
                if (
                    is_last and self._context.now >= self._commits.full_until
                ):  # without room for the letter its sender resends it
                    said = f"failed {delivery.attempt} times"
                    self._letters.keep_as_letter(delivery, inbox, message_id, key, delivery.cause or said, said)
            self._credit.drop_copies(delivery, inbox)
        for pattern in self._hooks.unhandled:
            pattern.unhandled(deliveries)

    def let_go(self, deliveries: Iterable[Delivery], now: float | None = None) -> None:
        """Returns messages that no handler has begun: their senders resend them, and no try is counted (D-9)."""
        self._context.tick(now)
        deliveries = [*deliveries]
        for delivery in deliveries:
            inbox = self._take_unhandled(delivery)
            if inbox is not None:
                self._counts["withheld"] += 1
                self._credit.drop_copies(delivery, inbox)
        for pattern in self._hooks.unhandled:
            pattern.unhandled(deliveries)

    def _take_unhandled(self, delivery: Delivery) -> Inbox | None:
        """Takes out a delivery that was not handled, without an ack. Returns the inbox that had it; None if the
        delivery was settled before.
        """
        self._letters.replayed.pop(delivery, None)
        self._delivering.dedupe.failed(delivery)
        inbox = self._credit.inbox_of(delivery)
        if not self._credit.take_settled(delivery, inbox):
            return None
        peer = self._peers.get(delivery.peer_id)
        is_left = delivery.message.message_id is not None and not self._delivering.handlers.match(
            delivery.channel, delivery.key
        )
        if peer is not None and is_left:
            self._delivering.withhold(peer, delivery.message)
        return inbox

    def handle_again(self, deliveries: Iterable[Delivery], seconds: float, now: float | None = None) -> None:
        """Delivers failed messages to all matching handlers again after a pause of `seconds` (P-22)."""
        self._context.tick(now)
        for delivery in deliveries:
            link = self._context.up.get(delivery.cid)
            peer = link.peer if link is not None and not self._context.closing else None
            may_wait = peer is not None and peer.inbox.has(delivery) and delivery not in self.again
            if peer is None or not may_wait or delivery.attempt >= self._limits.max_attempts:
                self.fail((delivery,))
                continue
            self._counts["failed"] += 1
            if delivery.message.message_id is not None:
                self._letters.count_attempt(peer, key_of(delivery.message), delivery.attempt)
            self.again[delivery] = None
            self._timers.set(("again", delivery), self._context.now + seconds)

    def _on_again_timeout(self, delivery: Delivery) -> None:
        del self.again[delivery]
        peer = self._context.links[delivery.cid].peer
        if peer is None or not peer.inbox.has(delivery):
            return  # settled during the pause
        message = delivery.message
        handlers = self._context.judgements.get((message.channel, message.key)) or self._delivering.judge(
            message.channel, message.key
        )
        if not isinstance(handlers, tuple):
            self.let_go((delivery,))
            return
        again = Delivery(delivery.cid, delivery.peer_id, message, delivery.attempt + 1)
        peer.inbox.remove(delivery)
        peer.inbox.add(again)
        self._delivering.dedupe.moved(delivery, again)
        if delivery in self._credit.counted:
            self._credit.counted[again] = self._credit.counted.pop(delivery)
        self._actions.append(Deliver([again], handlers))

    def end_waiting(self, deliveries: Iterable[Delivery]) -> None:
        """Ends the wait for the next try: the senders resend these messages."""
        for delivery in deliveries:
            del self.again[delivery]
            self._timers.cancel(("again", delivery))
            self.let_go((delivery,))

    def down(self, link: Link) -> None:
        if self.again:
            self.end_waiting([one for one in self.again if one.cid == link.cid])

    def give_up(self, deliveries: Iterable[Delivery], reason: str, now: float | None = None) -> None:
        """Makes each message a dead letter with this reason, and acknowledges it once that is stored (T-47, P-23)."""
        self._context.tick(now)
        for delivery in deliveries:
            message_id, peer = delivery.message.message_id, self._peers.get(delivery.peer_id)
            if message_id is None or peer is None or self._context.now < self._commits.full_until:
                self.fail((delivery,))
                continue
            inbox = self._take_unhandled(delivery)
            if inbox is None:
                continue
            self._counts["failed"] += 1
            key = key_of(delivery.message)
            self._letters.count_attempt(peer, key, delivery.attempt - 1)  # a copy may be tried until the commit
            said = f"was given up by its handler: {reason!r:.300}"
            self._letters.keep_as_letter(delivery, inbox, message_id, key, str(reason), said)
            self._credit.drop_copies(delivery, inbox)
