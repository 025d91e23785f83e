"""Inbound half of the node: from frames to handlers and acknowledgements.

The fate of a message depends on its names alone, so the verdict is remembered by name: the handlers that match, or that
it is wanted and nobody is there yet (no ack: it is sent again, T-46), or that nobody wants it (ack and drop). In the
first moments both may still change (`opening`).
Deliveries leave in runs, one for as long as the handlers stay the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from uuid import UUID

from .._common.derived import is_derived
from .._common.errors import LocalProtocolError, OwnLimitExceeded, TolliverError
from .._common.link import LinkState
from .._wire.events import (
    PROBE_CHANNEL,
    RESERVED_CHANNEL,
    Ignored,
    Message,
    Refusal,
    Subscribe,
    SubscribeMany,
    Subscription,
    Unsubscribe,
    UnsubscribeMany,
)
from .actions import Deliver, Delivery, Handler, NoticeKind, Receipt, Stored
from .batch import Batch, GoOn
from .handling import Handling
from .inbox import Bound, Inbox, MessageKey, key_of
from .link import Hold, Link, Peer
from .message_set import Handled, Known, checksum_of
from .opening import EarlyMessages, Fate
from .pattern import Judgement
from .store import (
    AddDeadLetter,
    AddOwnSubscription,
    AddPeerSubscription,
    DeadLetter,
    Operation,
    RemoveDeadLetters,
    RemoveOwnSubscription,
    RemovePeerSubscription,
    ReplacePeerSubscriptions,
)
from .subscriptions import applied, matching, overlap, removed_by

_VERDICTS = 4096
_OBEYED_WITHIN = 10.0  # seconds in which a peer is obeyed once, and in which nothing is sent twice for that (T-50)
_IN_TIME = 1.0  # and so much later it is asked again: it counts from when it was heard
_CAUSE = 1000  # characters
_BY_ID, _YES = Known.BY_ID, Known.YES


class Receiving(Handling):
    """Messages from the peers to the application, and subscriptions in both directions."""

    # Handlers.

    def register(self, channel: str, key: str, handler: Handler, pending: int | None = None) -> None:
        """Deliver what matches to this handler; "" is a wildcard. Does not subscribe (T-57). Raises ReservedChannel.

        `pending` is how many messages it may have at once that are not settled; the credit of each sender is the bound
        in any case (D-9, P-24). Raises ValueError.
        """
        subscription, bound = self._checked(channel, key), None if pending is None else Bound(handler, pending)
        self._handlers.add(subscription, handler)
        if bound is not None:
            self._bounds[handler] = bound
        self._verdicts.clear()
        self._hand_out_kept()
        for peer in self._peers.values():
            if any(overlap(one, subscription) for one in peer.withheld):
                self._ask_soon(peer)

    def unregister(self, channel: str, key: str, handler: Handler) -> None:
        """No longer. Messages that it was given already must still be settled."""
        self._handlers.discard(self._checked(channel, key), handler)
        self._once.discard(handler)
        self._verdicts.clear()
        if handler in self._bounds:
            self._end_bound(self._bounds.pop(handler))

    def _judge(self, channel: str, key: str) -> Judgement:
        """The handlers, or whether we want it at all (T-46, T-21)."""
        if len(self._verdicts) >= _VERDICTS:
            self._verdicts.clear()
        verdict: Judgement
        if channel == PROBE_CHANNEL:  # one that was on its way when we began to want everything is no message either
            verdict = Fate.UNWANTED
        elif any(pair in self._own for pair in matching(channel, key)):
            handlers = self._handlers.match(channel, key)
            verdict = (handlers or Fate.WANTED) if self._stuck.isdisjoint(handlers) else Fate.STUCK
        elif self._opening.is_unwanted(channel, key, self._now):
            verdict = Fate.UNWANTED
        else:
            verdict = Fate.DOUBTFUL
        for pattern in self._hooks.judges:
            verdict = pattern.judges(channel, key, verdict)
        self._verdicts[channel, key] = verdict
        return verdict

    # Messages that are left to their sender, and asked for when somebody comes for them (T-50).

    def _withhold(self, peer: Peer, message: Message) -> None:
        if not peer.derived:
            peer.withheld |= {pair: self._now for pair in matching(message.channel, message.key) if pair in self._own}

    def _ask_soon(self, peer: Peer) -> None:
        """Not again before the peer would obey, and one entry at a time, as it obeys no second one."""
        due = peer.asked_at + max(self._resend_first, _OBEYED_WITHIN + _IN_TIME)
        self._timers.set_earlier(("withheld", peer.uuid), max(self._now, due))

    def _on_withheld_timeout(self, uuid: UUID) -> None:
        """Ask for the first of which somebody has come, and for the next one later; again for one of which something
        came a moment ago, as the peer does not send that twice so soon."""
        peer = self._peers.get(uuid)
        link = None if peer is None else peer.link
        if peer is None or link is None or link.control is None or not link.is_live:
            return
        handled = [one for one, _ in self._handlers]
        come = [one for one in peer.withheld if any(overlap(one, other) for other in handled)]
        for one in come:
            last = peer.withheld.pop(one)
            if self._now - last < _OBEYED_WITHIN + _IN_TIME:
                peer.withheld[one] = last  # behind the others
            wire_id = link.control.repeat(one)
            if wire_id is not None:
                self._say_control(link, wire_id)
                peer.asked_at = self._now
                self._ask_soon(peer)
                return

    # Messages.

    def _on_message(self, link: Link, message: Message) -> None:
        if link.window is None:
            return  # a connection that lost against another (T-70): reliable ones are sent again there
        verdict = self._verdicts.get((message.channel, message.key))
        if verdict is None:
            verdict = self._judge(message.channel, message.key)
        peer = link.peer
        assert peer is not None
        inbox = peer.inbox
        if message.message_id in inbox.held or inbox.aside:
            held = inbox.find(message)
            if held is not None:
                if not self._hands_out_again(peer, held, message):
                    self._wait(link, peer, message)
                    return
                verdict = self._handlers.match(message.channel, message.key) or verdict  # stuck or not
        if not isinstance(verdict, tuple):
            self._leave(link, message, verdict)
            return
        delivery = Delivery(link.cid, peer.uuid, message)
        if (peer.attempts or self._policy.dedupe) and not self._is_new(link, peer, delivery):
            return
        if inbox.exhausted and self._is_overrun(link):
            return
        inbox.add(delivery)
        run, limits = self._run, self.limits
        if run is None or (run.handlers is not verdict and run.handlers != verdict):  # each name has a tuple of its own
            self._run = run = Deliver([], verdict)
            self._actions.append(run)
        if inbox.count >= limits.inbox_messages or inbox.size >= limits.inbox_bytes:
            self._exhaust_credit(peer)
        run.deliveries.append(delivery)  # type: ignore[attr-defined]  # ours until it is handed out
        if self._bounds:
            self._count_in_bounds(verdict, delivery, peer)

    def _is_overrun(self, link: Link) -> bool:
        """True on a connection that is over and brought more than the credit takes: from there on all is left to its
        sender, in order, as no ack could be given (D-9, T-49)."""
        link.overrun = link.overrun or link.state is LinkState.DRAINING
        self._counts["withheld"] += link.overrun
        return link.overrun

    def _leave(self, link: Link, message: Message, fate: Fate) -> None:
        """It has no handler."""
        for pattern in self._hooks.leaves:
            if pattern.leaves(link, message, fate):
                return
        self._leave_to_sender(link, message, fate)

    def _leave_to_sender(self, link: Link, message: Message, fate: Fate) -> None:
        """Acknowledge what nobody wants; the rest comes again (T-46)."""
        message_id = message.message_id
        if fate is Fate.DOUBTFUL and self._now >= self._opening.subscriptions_due:
            self._on_subscriptions_timeout(None)
            fate = Fate.UNWANTED
        if fate is Fate.WANTED and message_id is not None and self._keep_early(link, message):
            return
        self._counts["unwanted" if fate is Fate.UNWANTED else "withheld"] += 1
        if message_id is None:
            return
        if fate is Fate.WANTED and link.peer is not None:
            self._withhold(link.peer, message)
        if fate is Fate.UNWANTED:
            self._ack(link, [message_id])
            if message.channel != PROBE_CHANNEL:
                self._drops.add(NoticeKind.UNWANTED, link.peer.uuid if link.peer else None, message.channel, self._now)
        elif fate is Fate.DOUBTFUL:
            link.early = link.early or EarlyMessages(self.limits)
            link.early.doubt(message_id, message.channel, message.key)
            self._timers.set_earlier("subscriptions", self._opening.subscriptions_due)

    def _keep_early(self, link: Link, message: Message) -> bool:
        """Keep it for its handler, which may come yet; False where it is left to its sender."""
        if self._now >= self._opening.handlers_due:
            return False
        link.early = link.early or EarlyMessages(self.limits)
        self._timers.set_earlier("handlers", self._opening.handlers_due)
        assert link.peer is not None
        return link.early.keep(message, link.peer.inbox.count, link.peer.inbox.size)

    def _hand_out_kept(self) -> None:
        """There is another handler: what has one now goes to it, in order, and the rest waits on."""
        for link in list(self._up.values()):
            self._run = None  # which is one peer's
            for message in link.early.take_kept() if link.early else ():
                self._on_message(link, message)

    def _on_handlers_timeout(self, _subject: None) -> None:
        """The rest comes again (T-50)."""
        self._hand_out_kept()

    def _on_subscriptions_timeout(self, _subject: None) -> None:
        """Nobody has come to want these."""
        self._verdicts.clear()
        self._drop_unwanted()

    def _drop_unwanted(self) -> None:
        """Acknowledge what was doubtful, where that is certain now."""
        for link in self._up.values():
            if link.early is not None and link.peer is not None:
                self._drop_doubtful(link, link.peer, link.early)

    def _drop_doubtful(self, link: Link, peer: Peer, early: EarlyMessages) -> None:
        dropped = early.take_doubtful(lambda *names: self._judge(*names) is Fate.UNWANTED)
        if dropped:
            self._counts["unwanted"] += len(dropped)
            self._ack(link, list(dropped))
        for channel, _ in dropped.values():
            self._drops.add(NoticeKind.UNWANTED, peer.uuid, channel, self._now)

    def _on_guarded_message(self, link: Link, message: Message) -> None:
        """As `_on_message`, where not everybody may publish everything (D-5)."""
        peer = link.peer
        if peer is None or not link.up or self._gate.acl.rights(peer.uuid).may_publish(message.channel, message.key):
            self._on_message(link, message)
            return
        self._counts["refused_messages"] += 1
        peer.counts.refused += 1
        if message.message_id is not None:  # else it would be sent again
            self._ack(link, [message.message_id])
            self._drops.add(NoticeKind.REFUSED, peer.uuid, message.channel, self._now)

    def _is_new(self, link: Link, peer: Peer, delivery: Delivery) -> bool:
        """True if it is to be delivered: not a dead letter (T-47) nor a copy; both of those are acknowledged (T-48)."""
        message_id = delivery.message.message_id
        if message_id is None:
            return True
        checksum = checksum_of(delivery.message)
        if peer.attempts:
            delivery.attempt += peer.attempts.get((message_id, checksum), 0)
        if delivery.attempt > self.limits.max_attempts or self._dedupe.find(peer.uuid, message_id, checksum) is _YES:
            self._counts["duplicates"] += 1
            peer.counts.duplicates += 1
            self._ack(link, [message_id])
            return False
        if not self._policy.dedupe:
            return True
        if self._dedupe.is_storing(peer.uuid, message_id, checksum):
            self._counts["withheld"] += 1
            return False
        self._dedupe.begin(delivery, message_id, checksum)
        return True

    def acknowledge(self, deliveries: Iterable[Delivery], now: float | None = None) -> None:
        """All matching handlers succeeded (T-45). A message that is settled is passed over; where its connection is
        gone, the copies that came on others are acknowledged (T-49)."""
        self._tick(now)
        for pattern in self._hooks.acknowledges:
            deliveries = pattern.acknowledges(deliveries)
        is_durable, dedupe, handled = self._policy.dedupe_durable, self._policy.dedupe, 0
        counted = self._counted
        acks: dict[Link, list[int]] = self._batch.acks if is_durable else {}  # or they wait for their commit
        link: Link | None = None
        whose: tuple[Inbox, UUID] | None = None
        for delivery in deliveries:
            if self._replayed and delivery in self._replayed:
                self._remove_letters([self._replayed.pop(delivery)])
                continue
            if link is None or link.cid != delivery.cid:  # mostly it is a run of one connection
                if whose is not None:
                    self._give_back_credit(*whose)
                link = self._links.get(delivery.cid)
                peer = link.peer if link is not None else self._peers.get(delivery.peer_id)
                inbox = peer.inbox if peer is not None else self._inbox_of(delivery)
                whose = inbox, delivery.peer_id
            if not inbox.remove(delivery):
                continue
            if counted:
                self._uncount(delivery)
            handled += 1
            message_id = delivery.message.message_id
            if message_id is None:
                continue
            if dedupe:
                self._remember(delivery)
            if peer is not None and peer.attempts:
                peer.attempts.pop(key_of(delivery.message), None)
            if link is not None and link.window is not None:
                link.fruitful = True
                acks.setdefault(link, []).append(message_id)
            for waiting, count in self._take_copies(delivery, inbox) if inbox.waiting else ():
                acks.setdefault(waiting, []).extend([message_id] * count)
        self._counts["handled"] += handled
        if whose is not None:
            self._give_back_credit(*whose)
        for acked, message_ids in acks.items() if not is_durable else ():
            self._ack(acked, message_ids)

    def _remember(self, delivery: Delivery) -> None:
        """A copy of it will not be delivered (T-48). If that must be on disk, the ack waits for it."""
        handled = self._dedupe.succeeded(delivery)
        if handled is None:
            return
        if is_derived(delivery.peer_id):
            self._use_derived(delivery.peer_id)
        if not self._policy.dedupe_durable:
            self._learn(handled)
            return
        self._batch.handled.append(handled)
        self._timers.set_earlier("removals", self._now + self.limits.removal_delay)

    def _learn(self, handled: Handled) -> None:
        """It was handled, and that is on disk where it must be."""
        peer, message_id, _ = handled
        if self._dedupe.add(*handled) is _BY_ID:
            self._on_id_reused(peer, message_id)

    def _use_derived(self, uuid: UUID) -> None:
        """A derived identity's state ends a day after this (T-72a)."""
        self._dedupe.use(uuid, self._now)
        if self._dedupe.crowded:
            self._on_handled_timeout(None)
        self._set_handled_timer()

    def _set_handled_timer(self) -> None:
        due = self._dedupe.next_expiry
        if due is not None:
            self._timers.set_earlier("handled", due)

    def _on_handled_timeout(self, _subject: None) -> None:
        stale = self._dedupe.expire(self._now)
        if stale:
            self._batch.stale += stale
            self._timers.set_earlier("removals", self._now + self.limits.removal_delay)
        self._set_handled_timer()

    def fail(self, deliveries: Iterable[Delivery], now: float | None = None) -> None:
        """A handler failed: no ack, so the peer sends it again (T-45); after too many times it is a dead letter."""
        self._tick(now)
        deliveries = [*deliveries]
        for delivery in deliveries:
            inbox = self._take_unhandled(delivery)
            if inbox is None:
                continue
            self._counts["failed"] += 1
            message_id, peer = delivery.message.message_id, self._peers.get(delivery.peer_id)
            if message_id is not None and peer is not None:
                is_last = delivery.attempt >= self.limits.max_attempts
                key = key_of(delivery.message)
                # Until the dead letter is stored a copy is still a message: it may be tried once more.
                self._count_attempt(peer, key, delivery.attempt - is_last)
                if is_last and self._now >= self._no_letters_until:  # else there is no room for it, and it comes again
                    why = f"failed {delivery.attempt} times"
                    self._keep_as_letter(delivery, inbox, message_id, key, why, why)
            self._drop_copies(delivery, inbox)
        for pattern in self._hooks.unhandled:
            pattern.unhandled(deliveries)

    def let_go(self, deliveries: Iterable[Delivery], now: float | None = None) -> None:
        """No handler has begun them, and none will: they come again, and that is no attempt (D-9)."""
        self._tick(now)
        deliveries = [*deliveries]
        for delivery in deliveries:
            inbox = self._take_unhandled(delivery)
            if inbox is not None:
                self._counts["withheld"] += 1
                self._drop_copies(delivery, inbox)
        for pattern in self._hooks.unhandled:
            pattern.unhandled(deliveries)

    def _take_unhandled(self, delivery: Delivery) -> Inbox | None:
        """The inbox that it was in; None if it was settled before."""
        self._replayed.pop(delivery, None)
        self._dedupe.failed(delivery)
        inbox = self._inbox_of(delivery)
        if not self._take_settled(delivery, inbox):
            return None
        peer = self._peers.get(delivery.peer_id)
        is_left = delivery.message.message_id is not None and not self._handlers.match(delivery.channel, delivery.key)
        if peer is not None and is_left:
            self._withhold(peer, delivery.message)
        return inbox

    def _count_attempt(self, peer: Peer, key: MessageKey, attempts: int) -> None:
        if len(peer.attempts) >= self.limits.attempts_remembered and key not in peer.attempts:
            peer.attempts.pop(next(iter(peer.attempts)))
        peer.attempts[key] = attempts

    def _keep_as_letter(
        self, delivery: Delivery, inbox: Inbox, message_id: int, key: MessageKey, cause: str, said: str
    ) -> None:
        """Keep it as a dead letter, and acknowledge it when that is stored (T-47)."""
        message = delivery.message
        letter = DeadLetter(
            delivery.peer_id,
            message.channel,
            message.key,
            message.body,
            message_id,
            delivery.attempt,
            cause=cause[:_CAUSE].encode("utf-8", "backslashreplace").decode(),  # no lone surrogate goes to the store
        )
        inbox.letters += 1
        self._keep_letter(letter)
        if delivery.cid in self._up:
            self._batch.acks[self._up[delivery.cid]].append(message_id)
        for link, count in self._take_copies(delivery, inbox):
            self._batch.acks[link].extend([message_id] * count)
        self._batch.then.append(partial(self._on_given_up, delivery.peer_id, key))
        self._notice(
            NoticeKind.DEAD_LETTER,
            delivery.peer_id,
            f"message {message_id} of {message.channel!r:.100} {message.key!r:.100}, from peer {delivery.peer_id}, "
            f"{said}: kept as a dead letter, see dead_letters() and replay(), or `tolliver letters` (T-47)",
        )

    def _keep_letter(self, letter: DeadLetter) -> None:
        """Store it, and in the same commit let the oldest go that there is no room for (T-47)."""
        number = self._letters.add(letter.size)
        self._batch.operations.append(AddDeadLetter(replace(letter, number=number)))
        self._batch.letters_added.append(number)
        gone = self._letters.beyond(self.limits.max_dead_letters, self.limits.max_dead_letter_bytes)
        if self._remove_letters(gone):
            self._batch.then.append(partial(self._on_letters_dropped, len(gone)))

    def _on_letters_dropped(self, count: int, error: TolliverError | None) -> None:
        if error is not None:
            return
        self._counts["dropped_letters"] += count
        self._tally.add(
            NoticeKind.LETTERS_DROPPED,
            None,
            count,
            f"dead letters, the oldest, were dropped: {self.limits.max_dead_letters} or "
            f"{self.limits.max_dead_letter_bytes} bytes are kept (T-47). Mend the handler and replay() them, drop them "
            "with drop_dead_letters(), or raise Limits.max_dead_letters or max_dead_letter_bytes",
            self._now,
        )

    def _remove_letters(self, numbers: Iterable[int]) -> int:
        """Take those of them that are there out with the next commit; returns how many."""
        gone = self._letters.take_out(numbers)
        if gone:
            self._batch.operations.append(RemoveDeadLetters([*gone]))
            self._batch.letters_gone |= gone
        return len(gone)

    def drop_dead_letters(self, letters: Iterable[DeadLetter | int], now: float | None = None) -> Receipt:
        """Give up these dead letters, named by themselves or by their numbers. `receipt.counts` has how many were
        there, once `Stored`."""
        self._tick(now)
        count = self._remove_letters(one if isinstance(one, int) else one.number for one in letters)
        receipt = Receipt(0, -1, [count])
        if count:
            self._batch.tokens.append(receipt)
        else:
            self._actions.append(Stored([receipt]))
        return receipt

    def _on_given_up(self, peer: UUID, key: MessageKey, error: TolliverError | None) -> None:
        if error is None and peer in self._peers:  # a derived identity goes with its last connection
            self._count_attempt(self._peers[peer], key, self.limits.max_attempts)

    def replay(self, letters: Iterable[DeadLetter]) -> int:
        """Give dead letters to the handlers that match now; returns how many. One that is handled well is removed."""
        count = 0
        under_way = set(self._replayed.values())
        for letter in letters:
            handlers = self._handlers.match(letter.channel, letter.key)
            if not handlers or letter.number in under_way:
                continue
            message = Message(letter.channel, letter.key, letter.body, letter.message_id)
            delivery = Delivery(0, letter.peer, message, letter.attempts + 1)
            self._replayed[delivery] = letter.number
            self._actions.append(Deliver([delivery], handlers))
            count += 1
        return count

    def _pace(self, link: Link) -> None:
        """Read no more while it waits and holds more than a waiting connection should (D-9).

        That it no longer waits is not enough: each bit of credit would let in more than it hands out.
        """
        full = bool(link.holding or _is_paced(link)) and _buffered(link) > self.limits.low_water
        if link.state is not LinkState.DRAINING:
            self._set_paused(link, full)

    # Control messages and what is like them.

    def _on_ignored(self, link: Link, frame: Ignored) -> None:
        self._counts[f"ignored_{frame.reason}"] += 1
        if frame.message_id is not None:
            self._ack(link, [frame.message_id])
            self._drops.add(NoticeKind.IGNORED, link.peer.uuid if link.peer else None, frame.reason.value, self._now)

    def _on_control(self, link: Link, frame: Subscribe | Unsubscribe) -> None:
        """The peer changed its mind: routes change now, the ack goes out when that is stored (T-28)."""
        self._on_entries(
            link, (Subscription(frame.channel, frame.key),), isinstance(frame, Subscribe), frame.message_id
        )

    def _on_controls(self, link: Link, frame: SubscribeMany | UnsubscribeMany) -> None:
        """The same with several entries, and one ack for all."""
        self._on_entries(link, frame.subscriptions, isinstance(frame, SubscribeMany), frame.message_id)

    def _on_entries(self, link: Link, entries: Sequence[Subscription], wanted: bool, message_id: int | None) -> None:
        peer = link.peer
        if peer is None or not link.up:
            return
        if not link.control_bucket.spend(self._now):
            link.holding |= Hold.RATE  # the next frames wait a second (D-12)
            self._counts["hurried"] += 1
            self._timers.set(("rate", link.cid), self._now + 1.0)
        allowed: list[Subscription] = []
        size = 0
        for one in entries:
            is_refused = peer.derived or one.channel == RESERVED_CHANNEL
            if is_refused or (wanted and not self._may_have(link, peer, one, len(allowed), size)):
                self._counts["refused_subscriptions"] += 1  # T-27, T-72a, D-4, D-6: acknowledged, or it is sent again
            else:
                allowed.append(one)
                size += self._entry_size(one)
        if wanted and peer.takes_reliable:
            known = [one for one in allowed if one in link.told]
            if known:
                self._obey(link, peer, known)
                if not self._is_list_changing(peer):  # else it is stored with what is
                    allowed = [one for one in allowed if one not in link.told]
        if allowed:
            self._change_list(link, peer, allowed, wanted, message_id)
        elif message_id is not None:
            self._ack(link, [message_id])

    def _obey(self, link: Link, peer: Peer, entries: Sequence[Subscription]) -> None:
        """The peer says again what we know: it asks for what it withheld (T-50), requests that wait, too (P-13)."""
        self._on_move(peer)
        if link.window is None or self._now - peer.obeyed_at < _OBEYED_WITHIN:
            return
        peer.obeyed_at = self._now
        asked = frozenset(entries)
        link.window.hurry(
            lambda channel, key: not asked.isdisjoint(matching(channel, key)), self._now - _OBEYED_WITHIN, self._now
        )
        due = link.window.next_due()
        if due is not None:
            self._timers.set(("resend", link.cid), due)

    def _is_list_changing(self, peer: Peer) -> bool:
        """True if its list is on its way to the store, or not there yet."""
        return not peer.stored or any(peer in one.lists or peer in one.peer_lists for one in self._batches())

    def _batches(self) -> Sequence[Batch]:
        """The one that gathers, and the one that the store has."""
        return (self._batch,) if self._running is None else (self._batch, self._running[1])

    def _change_list(
        self, link: Link, peer: Peer, entries: Sequence[Subscription], wanted: bool, message_id: int | None
    ) -> None:
        """Patterns may have something to do before, and to store with it."""
        later = partial(self._change_list_later, link, peer, entries, wanted, message_id)
        new = frozenset(entries if wanted and peer.takes_reliable else ())
        if self._waits_for_patterns(link, peer.uuid, new, later):
            return
        for subscription in entries:
            self._hear(link, (AddPeerSubscription if wanted else RemovePeerSubscription)(peer.uuid, subscription))
            change = AddPeerSubscription if subscription in peer.subscriptions else RemovePeerSubscription
            self._batch.operations.append(change(peer.uuid, subscription))
        if message_id is not None:
            self._batch.acks[link].append(message_id)
        if self._store_with_list(peer):
            link.holding |= Hold.LIST
            self._batch.then.append(partial(self._go_on_reading, link))

    def _waits_for_patterns(self, link: Link, uuid: UUID, wanted: frozenset[Subscription], later: GoOn) -> bool:
        """True where a pattern has this list wait: `later` is called, and nothing else is read meanwhile."""
        waits = any(pattern.before_list(link, uuid, wanted, later) for pattern in self._hooks.before_list)
        if waits:
            link.holding |= Hold.LIST
        return waits

    def _store_with_list(self, peer: Peer) -> bool:
        """True if a pattern has messages for the peer that the same commit stores."""
        stores = [pattern.with_list(peer) for pattern in self._hooks.with_list]
        return any(stores)

    def _change_list_later(
        self,
        link: Link,
        peer: Peer,
        entries: Sequence[Subscription],
        wanted: bool,
        message_id: int | None,
        error: TolliverError | None,
    ) -> None:
        """One that could not be looked at comes again: it is not acknowledged."""
        self._go_on_reading(link)
        if link.up and error is None:
            self._change_list(link, peer, entries, wanted, message_id)

    def _go_on_reading(self, link: Link, _error: TolliverError | None = None) -> None:
        if link.state is not LinkState.FORGOTTEN:
            self._release_hold(link, Hold.LIST)

    def _may_have(self, link: Link, peer: Peer, subscription: Subscription, others: int, others_size: int) -> bool:
        """True if it may, besides so many others of the same message."""
        if subscription not in link.told:  # a peer cannot want more than it can announce (T-08, T-19)
            size = link.told_bytes + others_size + self._entry_size(subscription)
            if len(link.told) + others >= self.limits.max_subscriptions or size > self.limits.max_handshake:
                return False
        return self._gate.acl.rights(peer.uuid).may_subscribe(subscription)

    def _hear(self, link: Link, said: Operation) -> None:
        """The peer said on this connection what it wants: routes change now."""
        self._batch.told.setdefault(link, link.told)
        self._batch.heard.append((link, said))
        self._set_told(link, applied(link.told, [said]), said)
        assert link.peer is not None
        self._route_to(link.peer, self._removed_by(link, said))
        self._look_for_wildcard(link)

    def _removed_by(self, link: Link, said: Operation) -> frozenset[Subscription]:
        """Subscriptions that end for good: as the peer says or, if it cannot say so, those that its list lacks."""
        connection, peer, control = link.connection, link.peer, link.control
        assert connection is not None
        assert peer is not None
        assert control is not None
        cannot_say = control.mute or not connection.can_send(Unsubscribe)
        if isinstance(said, ReplacePeerSubscriptions) and said.subscriptions and cannot_say:
            return peer.subscriptions.union(peer.held)
        return removed_by([said])

    def _look_for_wildcard(self, link: Link) -> None:
        assert link.peer is not None
        if not link.peer.wide and not self._gate.acl.is_open and any(not one.channel for one in link.told):
            link.peer.wide = True
            self._notice(
                NoticeKind.WILDCARD_SUBSCRIPTION,
                link.peer.uuid,
                f"{link.identity.address or 'a peer'} subscribes to every channel, as the access rules allow (D-4)",
            )

    def _set_told(self, link: Link, told: frozenset[Subscription], said: Operation | None = None) -> None:
        """Set what the peer wants now, where `said` is all that has changed."""
        if isinstance(said, AddPeerSubscription | RemovePeerSubscription):
            link.told_bytes += self._entry_size(said.subscription) * (len(told) - len(link.told))
        else:
            link.told_bytes = sum(map(self._entry_size, told))
        link.told = told

    def _route_to(self, peer: Peer, removed: frozenset[Subscription] = frozenset()) -> None:
        self._batch.peer_lists.setdefault(peer, (peer.subscriptions, peer.held))
        self._set_peer_list(peer, self._wanted_by(peer), removed)

    def _wanted_by(self, peer: Peer) -> frozenset[Subscription]:
        """Subscriptions that the peer has said on its connection (T-30).

        While a second connection is being made it is what it said on either, because which of the two lists is the
        later one only shows when one connection is given up (T-70). Too much is harmless, too little is loss.
        """
        return frozenset().union(*(link.told for link in peer.voices))

    def _on_acks(self, link: Link, wire_ids: Sequence[int], acked: dict[int, tuple[int, int]]) -> None:
        others = link.window.take_acked(wire_ids, acked) if link.window is not None else wire_ids
        for wire_id in others:
            self._on_other_ack(link, wire_id)

    def _on_refusal(self, link: Link, frame: Refusal) -> None:
        """The peer has it and did not handle it: it is kept, blocks nobody, and goes out again when that is due."""
        wire_id = frame.message_id
        is_message = link.window is not None and link.window.refused(wire_id)
        is_control = link.control is not None and link.control.frame(wire_id) is not None
        if not (is_message or is_control):
            self._on_other_ack(link, wire_id)
            return
        link.exposure.acked(self._now)
        self._look_at_acks(link, link.ack_watch.acked(self._now, waits=True))
        self._sendable[link] = None
        self._tally.add(
            NoticeKind.REFUSED_THERE,
            link.peer.uuid if link.peer else None,
            1,
            "messages were refused by this peer: they are kept, and sent again with growing pauses. Does its handler "
            "fail?",
            self._now,
        )

    def _on_other_ack(self, link: Link, wire_id: int) -> None:
        """Of no message of the outbox that is in flight here."""
        subscription = link.control.acked(wire_id) if link.control is not None else None
        if subscription is not None:
            assert link.control is not None
            assert link.peer is not None
            if link.control.has_said(subscription) is False:
                self._forget_unsubscribe(subscription, [link.peer])
            self._sync_control(link, subscription)
        elif link.control is not None and link.control.answered(wire_id):
            self._keepalive.answered(link)
            self._on_alive(link)
        else:
            assert link.connection is not None
            if wire_id != link.connection.unreliable_id:
                self._counts["stray_acks"] += 1  # T-44

    def _on_alive(self, link: Link) -> None:
        """It has answered a probe: if another one waits for that (T-70), this is known now."""
        assert link.peer is not None
        duel = link.peer.duel
        if duel.waiting is not None and link.peer.link is link:
            duel.answered = True
            self._timers.set(("duel", link.peer.uuid), self._now)

    # Own subscriptions.

    def subscribe(self, channel: str, key: str, now: float | None = None) -> Receipt:
        """Want this from every peer, now and after a restart; "" is a wildcard (T-24). `Stored` names the receipt.

        Raises ReservedChannel (T-27), OwnLimitExceeded where no peer would take so long a list (T-19), or
        LocalProtocolError where this instance is a derived identity, which only writes (T-72a).
        """
        self._tick(now)
        subscription = self._checked(channel, key)
        if is_derived(self.instance_id):
            raise LocalProtocolError(
                "write_only",
                f"{self.instance_id} is a derived identity, which peers let write and nothing else (T-72a): subscribe "
                "in an instance with a UUID of its own",
            )
        if subscription not in self._own:
            self._check_list((subscription,))
        self._forget_unsubscribe(subscription, list(self._peers.values()))
        receipt = self._store_own(AddOwnSubscription(subscription), True)
        for pattern in self._hooks.own_changed:
            pattern.own_changed(subscription)
        return receipt

    def _check_list(self, new: Sequence[Subscription]) -> None:
        """Raises OwnLimitExceeded where our list would be too long with these (T-19)."""
        count, size = len(self._own) + len(new), self._own_bytes + sum(map(self._entry_size, new))
        size += self._more_for_head + self._more_for_entry * count
        if count > self.limits.max_subscriptions or size > self.limits.max_handshake:
            raise OwnLimitExceeded(
                "too_many",
                f"{count} subscriptions of {size} bytes: peers refuse a list over {self.limits.max_subscriptions} or "
                f"{self.limits.max_handshake} bytes (T-19). Use wildcards",
            )

    def unsubscribe(self, channel: str, key: str, now: float | None = None) -> Receipt:
        """No longer. Removes exactly this entry (T-26); one that is not there is no error."""
        self._tick(now)
        subscription = self._checked(channel, key)
        if subscription in self._own:
            self._keep_unsubscribe(subscription)
        receipt = self._store_own(RemoveOwnSubscription(subscription), False)
        self._opening.unsubscribed(subscription, self._now)
        self._verdicts.clear()
        self._drop_unwanted()
        return receipt

    def _store_own(self, operation: AddOwnSubscription | RemoveOwnSubscription, wanted: bool) -> Receipt:
        subscription = operation.subscription
        undo = partial(self._set_own, subscription, subscription in self._own)
        self._batch.undo.setdefault(("own", subscription), undo)
        self._set_own(subscription, wanted)
        receipt = Receipt(0, -1, [])
        self._batch.operations.append(operation)
        self._batch.tokens.append(receipt)
        self._batch.then.append(partial(self._sync_own, subscription))
        return receipt

    def _set_own(self, subscription: Subscription, wanted: bool) -> None:
        if (subscription in self._own) is wanted:
            return
        if wanted:
            self._own[subscription] = None
        else:
            del self._own[subscription]
            for peer in self._peers.values():
                peer.withheld.pop(subscription, None)
        self._own_bytes += self._entry_size(subscription) * (1 if wanted else -1)
        self._verdicts.clear()

    def _sync_own(self, subscription: Subscription, _error: TolliverError | None) -> None:
        for link in self._up.values():
            self._sync_control(link, subscription)

    def _sync_control(self, link: Link, subscription: Subscription) -> None:
        if link.control is None or link.connection is None or not link.connection.live:
            return
        wire_id = link.control.sync(subscription, subscription in self._own)
        if wire_id is not None:
            self._say_control(link, wire_id)

    def _say_control(self, link: Link, wire_id: int) -> None:
        link.gathered.append(wire_id)
        self._writable[link] = None


def _is_paced(link: Link) -> bool:
    return link.connection is not None and link.connection.paced


def _buffered(link: Link) -> int:
    return link.connection.buffered_bytes if link.connection is not None else 0
