"""Notes of messages that simulated handlers have begun (T-45, T-47).

State: the messages in hand, in this life, and the suspects that earlier lives have left. Both survive a crash, as an
adapter keeps them beside its database. Invariant: of a death, only a message that was alone in hand is guilty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from uuid import UUID

from .._node.actions import Delivery
from .._node.store import KILLED_ITS_PROCESS
from .memory_store import MemoryStore

_EVERY = 2**63 - 1


class Hands:
    """Messages in the hands of an instance's handlers, and the suspects of its deaths, as (peer, wire id)."""

    def __init__(self) -> None:
        self._in_hand: Counter[tuple[UUID, int]] = Counter()
        self._suspects: dict[tuple[UUID, int], int] = {}

    def begin(self, delivery: Delivery) -> None:
        """Notes that a handler begins a message; an unreliable one, or a replayed one, has no note."""
        if delivery.cid and delivery.message_id is not None:
            self._in_hand[delivery.peer_id, delivery.message_id] += 1

    def end(self, delivery: Delivery) -> None:
        """Takes the note of one handler back: the process has lived through this message."""
        if delivery.cid and delivery.message_id is not None:
            whose = delivery.peer_id, delivery.message_id
            self._in_hand -= Counter((whose,))
            self._suspects.pop(whose, None)

    def die(self) -> None:
        """Called when the process is killed: what was in hand is suspected."""
        was_alone = len(self._in_hand) == 1
        for whose in self._in_hand:
            self._suspects[whose] = self._suspects.pop(whose, 0) + was_alone
        self._in_hand.clear()

    def end_in_order(self) -> None:
        """Called when the process has closed its instance: what is in hand is let go, and not suspected."""
        self._in_hand.clear()

    def suspects(self, store: MemoryStore) -> Mapping[tuple[UUID, int], int | None]:
        """The suspects with their deaths, or None for one whose dead letter is stored."""
        letters = store.dead_letters(0, _EVERY)
        condemned = {(one.peer, one.message_id) for one in letters if one.cause == KILLED_ITS_PROCESS}
        return {whose: None if whose in condemned else deaths for whose, deaths in self._suspects.items()}
