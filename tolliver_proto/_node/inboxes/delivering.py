"""Delivery of received messages to the handlers.

State: the handlers by subscription, and a cache of judgements by name (`Context.judgements`), as the fate of a message
depends on its channel and key alone. A judgement is the tuple of matching handlers, or a `Fate`: wanted without a
handler yet (no ack, so that the sender resends it, T-46), unwanted (acknowledged and dropped), doubtful (in the first
moments of an instance, while its subscriptions may still come), stuck, or owned by a pattern.

Invariants: each change of handlers, subscriptions or stuck handlers clears the cache. A message counts in its peer's
inbox before handlers see it. Deliveries leave in runs (`Deliver`) of one peer and one tuple of handlers, because one
action per message costs more.

Rejected: an immediate resend request for each withheld message. The peer obeys one at a time and needs a moment, so
entries that gained a handler are asked for one after another (`withheld`, T-50).
"""

from __future__ import annotations

from uuid import UUID

from ..._common.arguments import Unchecked
from ..._common.base_link import LinkState
from ..._wire.events import PROBE_CHANNEL, Ignored, Message, Subscription
from ..actions import Deliver, Delivery, Handler, NoticeKind
from ..commits.commits import Commits
from ..context import Context
from ..link import Link, Peer
from ..lists.own import OwnList
from ..lists.peers import OBEYED_WITHIN
from ..message_set import Known, checksum_of
from ..pattern import Judgement
from ..sizes import Sizes
from ..store import Loaded
from ..subscriptions import Routes, matching, overlap
from .credit import Credit
from .dedupe import DedupeCache
from .inbox import Bound, EarlyMessages, Fate, Opening, key_of

_JUDGEMENTS = 4096
_BY_ID, _YES = Known.BY_ID, Known.YES
_IN_TIME = 1.0  # seconds added, as the peer counts from when it received the last request


class Delivering:
    """Finds the handlers of each received message, and hands the message out, withholds it, or acknowledges it."""

    def __init__(
        self,
        context: Context,
        sizes: Sizes,
        commits: Commits,
        own: OwnList,
        credit: Credit,
        loaded: Loaded,
        given: bool,
    ) -> None:
        self._context = context
        self._limits = context.limits
        self._policy = context.policy
        self._timers = context.timers
        self._counts = context.counts
        self._actions = context.actions
        self._peers = context.peers
        self._hooks = context.hooks
        self._sizes = sizes
        self._commits = commits
        self._own = own
        self._credit = credit
        self.handlers: Routes[Handler, tuple[Handler, ...]] = Routes(_all)
        self._once: set[Handler] = set()  # handlers that get no copies, whatever the policy says (T-48)
        self._opening = Opening(context.limits, given, context.now)
        dedupe = context.policy.dedupe
        self.dedupe: DedupeCache = DedupeCache(dedupe, loaded.handled if dedupe else ())
        context.due.update(
            {
                "handlers": self._on_handlers_timeout,
                "subscriptions": self._on_subscriptions_timeout,
                "withheld": self._on_withheld_timeout,
            }
        )

    def hand_out_once(self, handler: Handler) -> None:
        """Gives this handler no copy of a message it holds, even where `handling_timeout` is 0."""
        self._once.add(handler)

    def _wait(self, link: Link, peer: Peer, message: Message) -> None:
        """Counts a copy of a message that is being handled: the copy is not delivered, and gets the ack of that message
        on its own connection.
        """
        waits = peer.inbox.wait(key_of(message), link.cid)
        self._counts["waited" if waits else "withheld"] += 1

    def _hands_out_again(self, peer: Peer, held: Delivery, copy: Message) -> bool:
        """True if `copy` is delivered although handlers hold the same message as `held`: their call is overdue (T-48),
        or the application wants each copy.

        The bound counts the exempt messages of stuck handlers too, so that copies cannot grow without limit.
        """
        inbox, limits = peer.inbox, self._limits
        is_each = self._policy.handling_timeout == 0
        if not (self._may_have_each(copy) if is_each else self._credit.is_overdue(held)):
            return False
        size = sum(len(one.message.body) for one in inbox.held.values())
        if len(inbox.held) >= limits.inbox_messages or size >= limits.inbox_bytes:
            return False
        inbox.set_overdue(held)
        if is_each:
            return True
        self._context.tally.add(
            NoticeKind.HANDED_OUT_AGAIN,
            peer.uuid,
            1,
            f"messages were handed out again, as their handlers have not ended within "
            f"{self._policy.handling_timeout:g} s, the last one message {held.message_id} of {held.channel!r:.100} "
            f"{held.key!r:.100} (T-48)",
            self._context.now,
        )
        return True

    def _may_have_each(self, copy: Message) -> bool:
        return self._once.isdisjoint(self.handlers.match(copy.channel, copy.key))

    def register(self, channel: Unchecked, key: Unchecked, handler: Handler, pending: Unchecked = None) -> None:
        """Delivers matching messages to this handler, at most `pending` unsettled ones (None: the credit alone is the
        bound).
        """
        subscription, bound = self._sizes.checked(channel, key), None if pending is None else Bound(handler, pending)
        self.handlers.add(subscription, handler)
        if bound is not None:
            self._credit.bounds[handler] = bound
        self._context.judgements.clear()
        self._hand_out_kept()
        for peer in self._peers.values():
            if any(overlap(one, subscription) for one in peer.inbox.withheld):
                self._ask_soon(peer)

    def unregister(self, channel: Unchecked, key: Unchecked, handler: Handler) -> None:
        """Removes the handler. Messages that it holds must still be settled."""
        self.handlers.discard(self._sizes.checked(channel, key), handler)
        self._once.discard(handler)
        self._context.judgements.clear()
        if handler in self._credit.bounds:
            self._credit.end_bound(self._credit.bounds.pop(handler))

    def unsubscribed(self, channel: str, key: str) -> None:
        """Drops the messages that waited for a subscription to this channel and key, which the application has
        ended.
        """
        self._opening.unsubscribed(Subscription(channel, key), self._context.now)
        self._context.judgements.clear()
        self._drop_unwanted()

    def judge(self, channel: str, key: str) -> Judgement:
        """Returns the handlers that get messages with these names or, without any, their fate (T-46, T-21), and keeps
        this judgement in the cache."""
        if len(self._context.judgements) >= _JUDGEMENTS:
            self._context.judgements.clear()
        judgement: Judgement
        if channel == PROBE_CHANNEL:  # a probe sent before the peer knew of our wildcard is no message either
            judgement = Fate.UNWANTED
        elif any(pair in self._own.entries for pair in matching(channel, key)):
            handlers = self.handlers.match(channel, key)
            judgement = (handlers or Fate.WANTED) if self._credit.stuck.isdisjoint(handlers) else Fate.STUCK
        elif self._opening.is_unwanted(channel, key, self._context.now):
            judgement = Fate.UNWANTED
        else:
            judgement = Fate.DOUBTFUL
        for pattern in self._hooks.judges:
            judgement = pattern.judges(channel, key, judgement)
        self._context.judgements[channel, key] = judgement
        return judgement

    def withhold(self, peer: Peer, message: Message) -> None:
        if not peer.derived:
            peer.inbox.withheld |= {
                pair: self._context.now for pair in matching(message.channel, message.key) if pair in self._own.entries
            }

    def _ask_soon(self, peer: Peer) -> None:
        """Schedules the next request to the peer to send withheld messages again: for one subscription at a time, and
        not before the peer has obeyed the last one.
        """
        due = peer.inbox.asked_at + max(self._context.retry_interval, OBEYED_WITHIN + _IN_TIME)
        self._timers.set_earlier(("withheld", peer.uuid), max(self._context.now, due))

    def _on_withheld_timeout(self, uuid: UUID) -> None:
        """Asks the peer to resend the withheld messages of the first subscription that has a handler now.

        Subscriptions of which the peer has just sent a message are postponed, as it would not send that again so soon.
        """
        peer = self._peers.get(uuid)
        link = None if peer is None else peer.link
        if peer is None or link is None or link.lists.control is None or not link.is_live:
            return
        handled = [one for one, _ in self.handlers]
        come = [one for one in peer.inbox.withheld if any(overlap(one, other) for other in handled)]
        for one in come:
            last = peer.inbox.withheld.pop(one)
            if self._context.now - last < OBEYED_WITHIN + _IN_TIME:
                peer.inbox.withheld[one] = last  # behind the others
            wire_id = link.lists.control.repeat(one)
            if wire_id is not None:
                self._own.say_control(link, wire_id)
                peer.inbox.asked_at = self._context.now
                self._ask_soon(peer)
                return

    def on_message(self, link: Link, message: Message) -> None:
        if link.sending.window is None:
            return  # a connection that lost against another (T-70): reliable ones are sent again there
        judgement = self._context.judgements.get((message.channel, message.key))
        if judgement is None:
            judgement = self.judge(message.channel, message.key)
        peer = link.peer
        assert peer is not None
        inbox = peer.inbox
        if message.message_id in inbox.held or inbox.aside:
            held = inbox.find(message)
            if held is not None:
                if not self._hands_out_again(peer, held, message):
                    self._wait(link, peer, message)
                    return
                judgement = self.handlers.match(message.channel, message.key) or judgement  # stuck or not
        if not isinstance(judgement, tuple):
            self._leave(link, message, judgement)
            return
        for pattern in self._hooks.comes:
            if pattern.comes(link, message):
                return
        delivery = Delivery(link.cid, peer.uuid, message)
        if (peer.inbox.attempts or self._policy.dedupe) and not self._is_new(link, peer, delivery):
            return
        if (inbox.exhausted or link.inbox.overrun) and self._is_overrun(link):
            return
        inbox.add(delivery)
        run, limits = self._context.run, self._limits
        if run is None or (
            run.handlers is not judgement and run.handlers != judgement
        ):  # each name has a tuple of its own
            run = Deliver([], judgement)
            self._context.gather(run)
        if inbox.count >= limits.inbox_messages or inbox.size >= limits.inbox_bytes:
            self._credit.exhaust_credit(peer)
        run.deliveries.append(delivery)  # type: ignore[attr-defined]  # ours until it is handed out
        if self._credit.bounds:
            self._credit.count_in_bounds(judgement, delivery, peer)

    def _is_overrun(self, link: Link) -> bool:
        """True on an ended connection that brought more than the credit takes: the sender keeps all from there on, in
        order, as no ack could be given (D-9, T-49)."""
        link.inbox.overrun = link.inbox.overrun or link.state is LinkState.DRAINING
        self._counts["withheld"] += link.inbox.overrun
        return link.inbox.overrun

    def _leave(self, link: Link, message: Message, fate: Fate) -> None:
        """Ends the way of a message that no handler gets: a pattern takes it, or `leave_to_sender` decides by
        `fate`.
        """
        for pattern in self._hooks.leaves:
            if pattern.leaves(link, message, fate):
                return
        self.leave_to_sender(link, message, fate)

    def leave_to_sender(self, link: Link, message: Message, fate: Fate) -> None:
        """Acknowledges the message if its `fate` is to be unwanted, so that its sender forgets it. Any other gets no
        ack: it waits here for a handler, or its sender resends it (T-46).
        """
        message_id = message.message_id
        if fate is Fate.DOUBTFUL and self._context.now >= self._opening.subscriptions_due:
            self._on_subscriptions_timeout(None)
            fate = Fate.UNWANTED
        if fate is Fate.WANTED and message_id is not None and self.keep_early(link, message):
            return
        if fate is Fate.UNWANTED and self._is_left(link, message_id):
            return
        self._counts["unwanted" if fate is Fate.UNWANTED else "withheld"] += 1
        if message_id is None:
            return
        if fate is Fate.WANTED and link.peer is not None:
            self.withhold(link.peer, message)
        if fate is Fate.UNWANTED:
            self._commits.ack(link, [message_id])
            if message.channel != PROBE_CHANNEL:
                self._context.drops.add(
                    NoticeKind.UNWANTED, link.peer.uuid if link.peer else None, message.channel, self._context.now
                )
        elif fate is Fate.DOUBTFUL:
            link.inbox.early = link.inbox.early or EarlyMessages(self._limits)
            link.inbox.early.doubt(message_id, message.channel, message.key)
            self._timers.set_earlier("subscriptions", self._opening.subscriptions_due)

    def keep_early(self, link: Link, message: Message) -> bool:
        """Keeps a message that came before its handler; returns False if there is no room, so that its sender must
        resend it.
        """
        if self._context.now >= self._opening.handlers_due:
            return False
        link.inbox.early = link.inbox.early or EarlyMessages(self._limits)
        self._timers.set_earlier("handlers", self._opening.handlers_due)
        assert link.peer is not None
        return link.inbox.early.keep(message, link.peer.inbox.count, link.peer.inbox.size)

    def _hand_out_kept(self) -> None:
        """Delivers kept messages that have a handler now, in order; keeps the others."""
        for link in list(self._context.up.values()):
            self._context.end_run()  # a run is one peer's
            for message in link.inbox.early.take_kept() if link.inbox.early else ():
                self.on_message(link, message)

    def _on_handlers_timeout(self, _subject: None) -> None:
        """Ends the wait for handlers after the opening: messages that were kept for one which has not come are left to
        their senders (T-50).
        """
        self._hand_out_kept()

    def _on_subscriptions_timeout(self, _subject: None) -> None:
        """Ends the wait for subscriptions after the opening: messages that match none until now are unwanted."""
        self._context.judgements.clear()
        self._drop_unwanted()

    def _drop_unwanted(self) -> None:
        """Acknowledges those messages that were kept for a later subscription, and that no subscription will match."""
        for link in self._context.up.values():
            if link.inbox.early is not None and link.peer is not None and link.is_live:
                self._drop_doubtful(link, link.peer, link.inbox.early)

    def _drop_doubtful(self, link: Link, peer: Peer, early: EarlyMessages) -> None:
        dropped = early.take_doubtful(lambda *names: self.judge(*names) is Fate.UNWANTED)
        if dropped:
            self._counts["unwanted"] += len(dropped)
            self._commits.ack(link, list(dropped))
        for channel, _ in dropped.values():
            self._context.drops.add(NoticeKind.UNWANTED, peer.uuid, channel, self._context.now)

    def on_guarded_message(self, link: Link, message: Message) -> None:
        """Handles a message like `on_message`, under access rules that restrict publishing (D-5). On a connection that
        is ending a refused message gets no ack: the peer sends it again, and all from there on.
        """
        peer = link.peer
        if peer is None or not link.up or self._context.acl.rights(peer.uuid).may_publish(message.channel, message.key):
            self.on_message(link, message)
            return
        if self._is_left(link, message.message_id):
            link.inbox.overrun = True
            return
        self._counts["refused_messages"] += 1
        peer.counts.refused += 1
        if message.message_id is not None:  # else it would be sent again
            self._commits.ack(link, [message.message_id])
            self._context.drops.add(NoticeKind.REFUSED, peer.uuid, message.channel, self._context.now)

    def _is_new(self, link: Link, peer: Peer, delivery: Delivery) -> bool:
        """True if the message is to be delivered. Else it was handled before, and is acknowledged: as a dead letter
        (T-47) or as a copy (T-48).
        """
        message_id = delivery.message.message_id
        if message_id is None:
            return True
        checksum = checksum_of(delivery.message)
        if peer.inbox.attempts:
            delivery.attempt += peer.inbox.attempts.get((message_id, checksum), 0)
        if delivery.attempt > self._limits.max_attempts or self.dedupe.find(peer.uuid, message_id, checksum) is _YES:
            self._counts["duplicates"] += 1
            peer.counts.duplicates += 1
            self._commits.ack(link, [message_id])
            return False
        if not self._policy.dedupe:
            return True
        if self.dedupe.is_storing(peer.uuid, message_id, checksum):
            self._counts["withheld"] += 1
            return False
        self.dedupe.begin(delivery, message_id, checksum)
        return True

    def _is_left(self, link: Link, message_id: int | None) -> bool:
        """True for a message to be acknowledged and dropped whose connection is ending: the ack could not be sent, so
        the peer keeps the message."""
        is_left = message_id is not None and not link.is_live
        self._counts["withheld"] += is_left
        return is_left

    def on_ignored(self, link: Link, frame: Ignored) -> None:
        if self._is_left(link, frame.message_id):
            return
        self._counts[f"ignored_{frame.reason}"] += 1
        if frame.message_id is not None:
            self._commits.ack(link, [frame.message_id])
            self._context.drops.add(
                NoticeKind.IGNORED, link.peer.uuid if link.peer else None, frame.reason.value, self._context.now
            )


def _all(handlers: tuple[Handler, ...]) -> tuple[Handler, ...]:
    return handlers
