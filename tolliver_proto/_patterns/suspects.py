"""Messages that were in the hands of handlers when the process died (T-45, T-47).

A message whose handler ends the process comes again after each start, and nothing behind it is ever handled. The store
knows which messages handlers had begun when the last run died: these are suspects. Which of them was it? A suspect that
comes begins alone, so that the next death has one message in hand, and tells.

State: for each suspect the deaths that it is guilty of, the messages that came and wait, in order, each with its
connection, from which nothing is read meanwhile, and the suspect that handlers have now.

Invariants: one suspect is in hand at a time. It begins when no handler has another message, or after 5 s; others wait
for it for 10 s at most. Nothing waits for a suspect that has not come. A suspect that was settled, well or not, is none
any more; one that is guilty of the last allowed death is never handed out, but becomes a dead letter. Without suspects
the pattern leaves the node, and costs nothing.

Rejected: counting each death for all messages in hand, as a kill from outside would condemn those that only were there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from math import inf
from uuid import UUID

from .._common.errors import TolliverError
from .._node.actions import Delivery
from .._node.inboxes.inbox import key_of
from .._node.link import Hold, Link, Peer, peer_of
from .._node.node import Node
from .._node.pattern import Pattern
from .._node.services import Services
from .._node.store import KILLED_ITS_PROCESS
from .._wire.events import Message

WAIT = 5.0
"""Seconds that a suspect waits for other messages to be settled."""
ALONE = 10.0
"""Seconds that other messages wait for a suspect to be settled."""

_Whose = tuple[UUID, int]


class Suspects(Pattern):
    """Pattern that hands out suspects one at a time, and condemns those that kill the process too often."""

    def __init__(self, node: Node, services: Services) -> None:
        self._kernel = services
        self._deaths: dict[_Whose, int | None] = dict(services.suspects)  # None: its dead letter is stored
        self._come: deque[tuple[Link, Message]] = deque()
        self._condemned: set[_Whose] = set()  # dead letters that are not stored yet
        self._in_hand: tuple[Peer, Delivery] | None = None
        self._due: float = inf  # end of the wait of the first that has come, or of the others for the one in hand
        self._passing = False
        services.on_timer("suspect", lambda _subject: services.ask_turn(self))

    @staticmethod
    def is_stored(services: Services) -> bool:
        """True if there are suspects, and a limit of deaths."""
        return bool(services.suspects) and services.max_deaths is not None

    def comes(self, link: Link, message: Message) -> bool:
        """Implements `Pattern.comes`: keeps suspects, and whatever comes behind one."""
        is_free = not self._come and self._in_hand is None
        if self._passing or (is_free and _whose(link, message) not in self._deaths):
            return False
        self._come.append((link, message))
        link.hold(Hold.SUSPECT)
        self._kernel.ask_turn(self)
        return True

    def turn(self) -> None:
        """Implements `Pattern.turn`: hands out what may begin now."""
        if self._in_hand is not None and self._is_alone(*self._in_hand):
            return
        if self._in_hand is not None:
            self._in_hand, self._due = None, inf
        while self._in_hand is None and self._come and self._may_begin(*self._come[0]):
            self._due = inf
            self._pass(*self._come.popleft())
        if not (self._deaths or self._come):
            self._kernel.retire(self)

    def _is_alone(self, peer: Peer, delivery: Delivery) -> bool:
        return peer.inbox.has(delivery) and self._kernel.now < self._due

    def _wait(self, seconds: float) -> None:
        self._due = self._kernel.now + seconds
        self._kernel.timers.set("suspect", self._due)

    def _may_begin(self, link: Link, message: Message) -> bool:
        deaths = self._deaths.get(_whose(link, message))
        if deaths is None or deaths >= self._most or self._is_idle():
            return True
        if self._due == inf:
            self._wait(WAIT)
        return self._kernel.now >= self._due

    def _is_idle(self) -> bool:
        return not any(peer.inbox.held for peer in self._kernel.peers.values())

    def _pass(self, link: Link, message: Message) -> None:
        """Hands the message out, or condemns it."""
        self._kernel.go_on_reading(link, Hold.SUSPECT)
        whose = _whose(link, message)
        deaths = self._deaths.get(whose, 0)
        if deaths is None:
            del self._deaths[whose]
            deaths = self._kernel.limits.max_attempts  # it is acknowledged as a dead letter
        elif deaths >= self._most:
            self._condemn(link, message, deaths)
            return
        peer, key = peer_of(link), key_of(message)
        if deaths > peer.inbox.attempts.get(key, 0):
            self._kernel.count_attempt(peer, key, deaths)
        self._passing = True
        self._kernel.on_message(link, message)
        self._passing = False
        delivery = peer.inbox.find(message) if whose in self._deaths else None
        if delivery is not None:
            self._in_hand = peer, delivery
            self._wait(ALONE)

    @property
    def _most(self) -> int:
        most = self._kernel.max_deaths
        assert most is not None
        return min(most, self._kernel.limits.max_attempts)

    def _condemn(self, link: Link, message: Message, deaths: int) -> None:
        """Makes the message a dead letter. Without room on the disk for that, its sender resends it."""
        whose = _whose(link, message)
        if whose in self._condemned or self._kernel.apart:
            return
        peer, message_id = peer_of(link), message.message_id
        assert message_id is not None
        self._condemned.add(whose)
        said = f"killed its process {deaths} times"
        delivery = Delivery(link.cid, peer.uuid, message, deaths)
        self._kernel.keep_as_letter(delivery, peer.inbox, message_id, key_of(message), KILLED_ITS_PROCESS, said)
        self._kernel.after_commit(partial(self._on_condemned, whose))

    def _on_condemned(self, whose: _Whose, error: TolliverError | None) -> None:
        self._condemned.discard(whose)
        if error is None:
            self._deaths.pop(whose, None)
            self._kernel.ask_turn(self)

    # Ends.

    def acknowledges(self, deliveries: Iterable[Delivery]) -> Iterable[Delivery]:
        """Implements `Pattern.acknowledges`: the process has lived through these."""
        deliveries = [*deliveries]
        self.unhandled(deliveries)
        return deliveries

    def unhandled(self, deliveries: Sequence[Delivery]) -> None:
        """Implements `Pattern.unhandled`: the process has lived through these, though they failed."""
        for delivery in deliveries:
            self._deaths.pop((delivery.peer_id, delivery.message_id or 0), None)
        self._kernel.ask_turn(self)

    def peer_down(self, link: Link, was_up: bool) -> None:
        """Implements `Pattern.peer_down`: what came on this connection comes again on the next."""
        self._come = deque(one for one in self._come if one[0] is not link)
        self._kernel.ask_turn(self)

    def closing(self) -> None:
        """Implements `Pattern.closing`: what waits is left to its senders."""
        for link, _ in self._come:
            self._kernel.go_on_reading(link, Hold.SUSPECT)
        self._come.clear()
        self._deaths.clear()
        self._kernel.retire(self)


def _whose(link: Link, message: Message) -> _Whose:
    return peer_of(link).uuid, message.message_id or 0
