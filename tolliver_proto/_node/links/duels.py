"""Two live instances of one identity, such as a cloned machine's (T-70).

The newest connection wins, as a peer that returned must not wait for the end of its dead connection. By that rule alone
two clones would replace each other for ever. So after two replacements within a minute the third connection waits until
the live one was asked whether it is alive; a live one that answers stays.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from ..._wire.events import HandshakeRequest, HandshakeResponse

L = TypeVar("L")
ANSWER_WITHIN = 5.0
BRIEF = 2.0  # seconds within which a connection ends "right after" it was established
BRIEF_ENDS = 3  # brief connections in a row that are reported
_REPLACED, _WITHIN = 2, 60.0
_SHUT_FOR = 60.0
_STALE = 1.0  # seconds after the question; a later frame was not in flight before it


class Duel(Generic[L]):
    """State of two connections of one peer, of which the newer replaces the older. `waiting` is the newer one, while
    the older one is asked whether it is alive.
    """

    __slots__ = ("_asked_at", "_replaced", "_shut_until", "answered", "brief_ends", "waiting")

    def __init__(self) -> None:
        self.waiting: tuple[L, HandshakeRequest | HandshakeResponse] | None = None  # with the frame it sent
        self.answered: bool = False
        self.brief_ends: int = 0  # connections in a row that the peer ended right after they were established
        self._asked_at = 0.0
        self._shut_until = 0.0
        self._replaced: tuple[float, ...] = ()  # times of the last replacements

    def replaced(self, now: float) -> None:
        """Records that a connection gave way to a newer one."""
        self._replaced = (*self._replaced, now)[-_REPLACED:]

    def is_due(self, now: float) -> bool:
        """True if the next connection must wait for a check of the older one, as connections were replaced twice within
        a minute.
        """
        return len(self._replaced) == _REPLACED and now - self._replaced[0] < _WITHIN

    def is_shut(self, now: float) -> bool:
        """True if a newer connection is refused: another one waits, or the older one has just shown that it is
        alive.
        """
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
        """True if the older connection has answered or, if it cannot be asked (`mute`), something came on it."""
        return self.answered or (mute and last_received > self._asked_at + _STALE)

    def shut(self, now: float) -> None:
        self._shut_until = now + _SHUT_FOR

    def older_ended(self) -> None:
        self._shut_until = 0.0
