"""Verdicts of handlers besides good and bad (P-22, P-23).

They are: again in a while, and never. A message that waits for its next try stays where it is: it keeps its place and
its credit (D-9), so a copy that comes meanwhile shares its answer (T-48). It goes with its connection, as no ack could
be given then (T-49).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .actions import Deliver, Delivery
from .inbox import key_of
from .link import Link
from .receiving import Receiving


class HandlingAgain(Receiving):
    """Messages that wait for their next try here, and those that handlers give up."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._again: dict[Delivery, None] = {}

    def handle_again(self, deliveries: Iterable[Delivery], seconds: float, now: float | None = None) -> None:
        """A handler failed, and all that match are to have the message again after so many seconds (P-22).

        Each try counts (T-47). It is as `fail` where this was the last one, and where the connection is gone.
        """
        self._tick(now)
        for delivery in deliveries:
            link = self._up.get(delivery.cid)
            peer = link.peer if link is not None and not self.closing else None
            may_wait = peer is not None and peer.inbox.has(delivery) and delivery not in self._again
            if peer is None or not may_wait or delivery.attempt >= self.limits.max_attempts:
                self.fail((delivery,))
                continue
            self._counts["failed"] += 1
            if delivery.message.message_id is not None:
                self._count_attempt(peer, key_of(delivery.message), delivery.attempt)
            self._again[delivery] = None
            self._timers.set(("again", delivery), self._now + seconds)

    def _on_again_timeout(self, delivery: Delivery) -> None:
        del self._again[delivery]
        peer = self._links[delivery.cid].peer
        if peer is None or not peer.inbox.has(delivery):
            return  # it was settled after all
        message = delivery.message
        handlers = self._verdicts.get((message.channel, message.key)) or self._judge(message.channel, message.key)
        if not isinstance(handlers, tuple):
            self.let_go((delivery,))
            return
        again = Delivery(delivery.cid, delivery.peer_id, message, delivery.attempt + 1)
        peer.inbox.remove(delivery)
        peer.inbox.add(again)
        self._dedupe.moved(delivery, again)
        if delivery in self._counted:
            self._counted[again] = self._counted.pop(delivery)
        self._actions.append(Deliver([again], handlers))

    def _end_waiting(self, deliveries: Iterable[Delivery]) -> None:
        """These come again from their senders."""
        for delivery in deliveries:
            del self._again[delivery]
            self._timers.cancel(("again", delivery))
            self.let_go((delivery,))

    def _end_waiting_on(self, link: Link) -> None:
        if self._again:
            self._end_waiting([one for one in self._again if one.cid == link.cid])

    def give_up(self, deliveries: Iterable[Delivery], reason: str, now: float | None = None) -> None:
        """Trying again is no use: each is a dead letter, and acknowledged when that is stored (T-47, P-23).

        An unreliable one is gone. Where the disk has no room for letters it is as `fail`.
        """
        self._tick(now)
        for delivery in deliveries:
            message_id, peer = delivery.message.message_id, self._peers.get(delivery.peer_id)
            if message_id is None or peer is None or self._now < self._no_letters_until:
                self.fail((delivery,))
                continue
            inbox = self._take_unhandled(delivery)
            if inbox is None:
                continue
            self._counts["failed"] += 1
            key = key_of(delivery.message)
            self._count_attempt(peer, key, delivery.attempt - 1)  # until it is stored a copy is still a message
            said = f"was given up by its handler: {reason!r:.300}"
            self._keep_as_letter(delivery, inbox, message_id, key, str(reason), said)
            self._drop_copies(delivery, inbox)
