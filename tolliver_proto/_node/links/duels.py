"""Two live instances of one identity, such as a cloned machine's (T-70).

The idea: newest wins, as a peer that came back must not wait for the end of a connection that nobody serves any more.
Two clones would take the place of each other for ever by that rule. So where one has been replaced twice within a
minute, the third has to wait until the one that stands was asked whether it is alive; if it is, it stays.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from ..._wire.events import HandshakeRequest, HandshakeResponse

L = TypeVar("L")
ANSWER_WITHIN = 5.0
BRIEF = 2.0  # seconds within which a connection ends "right after" it was established
BRIEF_ENDS = 3  # running: told
_REPLACED, _WITHIN = 2, 60.0
_SHUT_FOR = 60.0
_STALE = 1.0  # a frame that comes later than this after the question is no rest of earlier ones


class Duel(Generic[L]):
    """Connections of one peer that replace each other. `waiting` is the one that has to wait."""

    __slots__ = ("_asked_at", "_replaced", "_shut_until", "answered", "brief_ends", "waiting")

    def __init__(self) -> None:
        self.waiting: tuple[L, HandshakeRequest | HandshakeResponse] | None = None  # and what it has said
        self.answered = False
        self.brief_ends = 0  # connections to this peer that it ended right after they were established, running
        self._asked_at = 0.0
        self._shut_until = 0.0
        self._replaced: tuple[float, ...] = ()  # the last of them

    def replaced(self, now: float) -> None:
        """A connection gave way to a newer one."""
        self._replaced = (*self._replaced, now)[-_REPLACED:]

    def is_due(self, now: float) -> bool:
        """True if the next one must wait."""
        return len(self._replaced) == _REPLACED and now - self._replaced[0] < _WITHIN

    def is_shut(self, now: float) -> bool:
        """True if a newer one has no chance: one is waiting, or the older one has shown that it is alive."""
        return self.waiting is not None or now < self._shut_until

    def begin(self, newer: L, said: HandshakeRequest | HandshakeResponse, now: float) -> None:
        self.waiting = newer, said
        self.answered = False
        self._asked_at = now
        self._replaced = ()

    def end(self) -> tuple[L, HandshakeRequest | HandshakeResponse] | None:
        waiting, self.waiting = self.waiting, None
        return waiting

    def is_alive(self, last_received: float, mute: bool) -> bool:
        """True if the older one has answered or, if it cannot be asked (`mute`), was heard."""
        return self.answered or (mute and last_received > self._asked_at + _STALE)

    def shut(self, now: float) -> None:
        self._shut_until = now + _SHUT_FOR

    def older_ended(self) -> None:
        self._shut_until = 0.0
