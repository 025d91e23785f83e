"""Credit, waiting copies and stuck calls of the messages that handlers hold.

Credit: a peer may have a number of messages and bytes handed out and unsettled, over all its connections (D-9). At the
limit, reading from the peer stops; reading goes on when half of the credit is free again. A handler may have a bound of
its own, counted over all senders (P-24).

Stuck calls: a handler whose oldest call lasts longer than `Policy.stuck_after` is stuck. Its deliveries then take no
credit, and new messages for it are neither handed out nor acknowledged, so that reading goes on for the other handlers.
So is an iterator that has nothing in hand and leaves what waits for it for so long; what waits goes back.

Copies: a copy of a message that a handler holds waits and shares the answer, until the call has lasted for
`Policy.handling_timeout` (T-48).
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from ..._common.base_link import LinkState
from ..actions import Delivery, Handler, NoticeKind, TakeBack
from ..context import Context
from ..link import Hold, Link, Peer
from .inbox import Bound, Inbox, key_of


class Calls:
    """Running calls of one handler by start time, oldest first."""

    __slots__ = ("armed", "begun", "left", "stuck")

    def __init__(self) -> None:
        self.begun: dict[Delivery, float] = {}
        self.left: tuple[Delivery, float] | None = None  # the first that waits and is not taken, and since when
        self.stuck = False  # the oldest call has lasted too long
        self.armed = False  # a timer is set to check the calls

    def oldest(self) -> tuple[Delivery, float] | None:
        """The delivery of the oldest call, or the one that is not taken, and its start in seconds of the node's clock;
        None without either.
        """
        return self.left or next(iter(self.begun.items()), None)


class Credit:
    """Flow control of received messages: what each peer has used of its credit (the messages and bytes that it may have
    unsettled here), the bounds of single handlers, and the calls in progress.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._limits = context.limits
        self._policy = context.policy
        self._timers = context.timers
        self._actions = context.actions
        self._peers = context.peers
        self._calls: dict[Handler, Calls] = {}
        self.bounds: dict[Handler, Bound] = {}
        self.counted: dict[Delivery, list[Bound]] = {}  # bounds that count the delivery
        self.stuck: set[Handler] = set()
        self.left_inboxes: dict[UUID, Inbox] = {}  # of disconnected derived identities
        context.due["calls"] = self._on_calls_timeout

    def begin(self, handler: Handler, deliveries: Iterable[Delivery], now: float | None = None) -> bool:
        """Records that the handler works on these deliveries from now on. Returns True if `next_timeout` may have
        changed."""
        self._context.tick(now)
        calls = self._calls_of(handler)
        for delivery in deliveries:
            calls.begun[delivery] = self._context.now
            if calls.stuck:
                self.inbox_of(delivery).set_exempt(delivery, True)
        goes_on = False
        if calls.left is not None:
            calls.left = None
            goes_on = self._look_again(handler, calls)
        return self._arm(handler, calls) or goes_on

    def leave(self, handler: Handler, delivery: Delivery, now: float | None = None) -> bool:
        """Records that this delivery waits for the handler, which has nothing in hand and takes nothing. Returns True
        if `next_timeout` may have changed."""
        self._context.tick(now)
        calls = self._calls_of(handler)
        calls.left = (delivery, self._context.now)
        return self._arm(handler, calls)

    def take_up(self, handler: Handler, now: float | None = None) -> bool:
        """Records that the handler takes what waits for it again. Returns True if `next_timeout` may have changed."""
        self._context.tick(now)
        calls = self._calls.get(handler)
        if calls is None:
            return False
        calls.left = None
        return self._look_again(handler, calls)

    def _calls_of(self, handler: Handler) -> Calls:
        calls = self._calls.get(handler)
        if calls is None:
            calls = self._calls[handler] = Calls()
        return calls

    def _arm(self, handler: Handler, calls: Calls) -> bool:
        """Sets a timer to check the calls; returns True if there was none."""
        if calls.armed or self._policy.stuck_after is None:
            return False
        calls.armed = True
        self._look_at_calls(handler, calls, self._policy.stuck_after)
        return True

    def end(
        self, handler: Handler, deliveries: Iterable[Delivery], left: Delivery | None = None, now: float | None = None
    ) -> bool:
        """Records that the handler has finished with these deliveries, settled or not, and that `left` waits for it, as
        `leave` does. Returns True if `next_timeout` may have changed."""
        self._context.tick(now)
        calls = self._calls.get(handler)
        if calls is None:
            return left is not None and self.leave(handler, left)
        if left is not None:
            calls.left = (left, self._context.now)
        for delivery in deliveries:
            calls.begun.pop(delivery, None)
            if calls.stuck:
                self.inbox_of(delivery).set_exempt(delivery, self._is_with_stuck(delivery))
        return self._look_again(handler, calls)

    def _look_again(self, handler: Handler, calls: Calls) -> bool:
        """Looks whether a stuck handler goes on, and forgets one without calls; returns True if it was stuck, and is
        not any more.
        """
        if calls.stuck:
            assert self._policy.stuck_after is not None
            self._look_at_calls(handler, calls, self._policy.stuck_after)
            self._exhaust_all()
            return not calls.stuck
        if calls.oldest() is None and not calls.armed:
            del self._calls[handler]
        return False

    def _on_calls_timeout(self, handler: Handler) -> None:
        calls = self._calls[handler]
        if calls.oldest() is not None:
            assert self._policy.stuck_after is not None
            self._look_at_calls(handler, calls, self._policy.stuck_after)
        else:
            del self._calls[handler]

    def _look_at_calls(self, handler: Handler, calls: Calls, stuck_after: float) -> None:
        """Marks the handler as stuck if its oldest call runs for `stuck_after` seconds, else as not stuck; a handler
        that is not stuck is checked again later.
        """
        oldest = calls.oldest()
        due = stuck_after + (self._context.now if oldest is None else oldest[1])
        is_stuck = due <= self._context.now
        if is_stuck is not calls.stuck:
            self._set_stuck(handler, calls, is_stuck)
        if not is_stuck:
            self._timers.set(("calls", handler), due)

    def _set_stuck(self, handler: Handler, calls: Calls, stuck: bool) -> None:
        calls.stuck = stuck
        (self.stuck.add if stuck else self.stuck.discard)(handler)
        self._context.judgements.clear()
        for delivery in calls.begun:
            self.inbox_of(delivery).set_exempt(delivery, self._is_with_stuck(delivery))
        if not stuck:
            return
        oldest = calls.oldest()
        assert oldest is not None
        delivery, _ = oldest
        what, end = ("has been at", "it ends") if calls.left is None else ("has not taken", "it goes on")
        self._context.notice(
            NoticeKind.HANDLER_STUCK,
            delivery.peer_id,
            f"{handler!s:.200} {what} message {delivery.message_id} of {delivery.channel!r:.100} "
            f"{delivery.key!r:.100} for {self._policy.stuck_after:g} s. Until {end}, what comes for it is not "
            "acknowledged and comes again, and what comes for others goes on (D-9)",
        )
        for peer in self._peers.values():
            if peer.inbox.exhausted:
                self._release_credit(peer.inbox, peer)
                if peer.inbox.exhausted:
                    self._actions.append(TakeBack(handler, peer.uuid))

    def _is_with_stuck(self, delivery: Delivery) -> bool:
        return any(delivery in self._calls[handler].begun for handler in self.stuck)

    def inbox_of(self, delivery: Delivery) -> Inbox:
        """The inbox of the delivery's sender; an empty one for an unknown sender."""
        link = self._context.links.get(delivery.cid)
        peer = link.peer if link is not None else self._peers.get(delivery.peer_id)
        if peer is not None:
            return peer.inbox
        return self.left_inboxes.get(delivery.peer_id) or Inbox()

    def exhaust_credit(self, peer: Peer) -> None:
        """Stops reading from this peer until half of its credit is free; asks stuck handlers to return unbegun
        messages."""
        peer.inbox.exhausted = True
        for link in [one for one in peer.lists.voices if one.up and one.state is not LinkState.DRAINING]:
            link.hold(Hold.CREDIT)
        for handler in self.stuck:
            self._actions.append(TakeBack(handler, peer.uuid))

    def _exhaust_all(self) -> None:
        """Stops reading from the peers whose credit is used up now, as the deliveries of a handler that is no longer
        stuck count again.
        """
        for peer in self._peers.values():
            if not peer.inbox.exhausted and self._is_exhausted(peer.inbox):
                self.exhaust_credit(peer)

    def _release_credit(self, inbox: Inbox, peer: Peer | None) -> None:
        """Resumes reading from the peer if half of its credit is free."""
        if self._is_exhausted(inbox, 2):
            return
        inbox.exhausted = False
        for link in [one for one in peer.lists.voices if one.holding & Hold.CREDIT] if peer is not None else ():
            self._context.go_on_reading(link, Hold.CREDIT)

    def _is_exhausted(self, inbox: Inbox, share: int = 1) -> bool:
        """True if the peer's unsettled messages or bytes reach the limits or the bound of a handler, divided by `share`
        (D-9).
        """
        if any(bound.is_full(share) and bound.handler not in self.stuck for bound in inbox.bounds):
            return True
        return inbox.count * share >= self._limits.inbox_messages or inbox.size * share >= self._limits.inbox_bytes

    def count_in_bounds(self, handlers: Iterable[Handler], delivery: Delivery, peer: Peer) -> None:
        """Counts the delivery in the bounds of its handlers; a full bound makes the sender wait (P-24)."""
        bounds = [self.bounds[handler] for handler in handlers if handler in self.bounds]
        if bounds:
            self.counted[delivery] = bounds
        for bound in bounds:
            bound.count += 1
            if bound.is_full(1):
                bound.waiting[peer.uuid] = peer.inbox
                peer.inbox.bounds[bound] = None
        if bounds and self._is_exhausted(peer.inbox):
            self.exhaust_credit(peer)

    def uncount(self, delivery: Delivery) -> None:
        """Takes a settled delivery out of the bounds; peers that wait go on once a bound is at most half full."""
        for bound in self.counted.pop(delivery, ()):
            bound.count -= 1
            if bound.waiting and not bound.is_full(2):
                self.end_bound(bound)

    def end_bound(self, bound: Bound) -> None:
        """Resumes reading from the peers that wait for this handler's bound."""
        waiting, bound.waiting = bound.waiting, {}
        for uuid, inbox in waiting.items():
            inbox.bounds.pop(bound, None)
            self.give_back_credit(inbox, uuid)

    def take_settled(self, delivery: Delivery, inbox: Inbox) -> bool:
        """Marks the delivery as settled and frees its credit; returns False if it was settled before. The inbox is that
        of the sender.
        """
        if not inbox.remove(delivery):
            return False
        self.uncount(delivery)
        self.give_back_credit(inbox, delivery.peer_id)
        return True

    def give_back_credit(self, inbox: Inbox, uuid: UUID) -> None:
        """Resumes reading from the peer `uuid` if enough was settled; forgets a derived identity's empty inbox."""
        if inbox.exhausted and not self._is_exhausted(inbox, 2):
            self._release_credit(inbox, self._peers.get(uuid))
        if self.left_inboxes and not inbox.held:
            self.left_inboxes.pop(uuid, None)

    def up(self, link: Link, peer: Peer) -> None:
        """Called when a link is established: reading pauses if the peer's credit is already used up; the list of
        withheld messages begins again, as the peer resends them.
        """
        peer.inbox.withheld.clear()
        if peer.inbox.exhausted:
            link.hold(Hold.CREDIT)

    def down(self, link: Link) -> None:
        """Forgets the copies of messages that came on a lost connection and wait for the verdict on the first: an ack
        belongs to its message's connection (T-49).
        """
        link.inbox.early = None
        link.release(Hold.CREDIT)
        if link.peer is not None:
            link.peer.inbox.lose(link.cid)

    def take_copies(self, delivery: Delivery, inbox: Inbox) -> list[tuple[Link, int]]:
        """Removes the copies of this message that wait for the same verdict. Returns the open connections that they
        came on, each with the number of copies, so that each copy gets its ack.
        """
        if not inbox.waiting:
            return []
        waited = inbox.waiting.pop(key_of(delivery.message), {})
        return [(self._context.up[cid], count) for cid, count in waited.items() if cid in self._context.up]

    def drop_copies(self, delivery: Delivery, inbox: Inbox) -> None:
        """Forgets the waiting copies of a failed message, so that the sender resends them; not while it waits for a
        retry."""
        if not inbox.waiting or delivery.message.message_id is None:
            return
        if inbox.find(delivery.message) is None:
            self.take_copies(delivery, inbox)

    def is_overdue(self, delivery: Delivery) -> bool:
        timeout = self._policy.handling_timeout
        if timeout is None:
            return False
        began = (calls.begun.get(delivery, self._context.now) for calls in self._calls.values())
        return any(one + timeout <= self._context.now for one in began)
