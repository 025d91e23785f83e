"""Detector of poison messages, which a peer closes for (T-09).

The idea: the protocol has no way to refuse a message. The symptom is that the peer ends the connection in order, again
and again, while a message comes in (`exposure`). After two such ends the head of the queue is sent alone, and not at
once, so that a program that only starts again and again is not taken for one that refuses it; if the peer still closes,
it is the head that it means. Five strikes set it aside, and the next one goes.
"""

from __future__ import annotations

ALONE_AFTER = 2  # orderly ends without an ack
ALONE_AFTER_UP = 5.0  # seconds from when a connection came up to when the head is sent alone
STRIKES = 5


class PoisonDetector:
    """Suspicion of the head of a peer's queue, drawn from how its connections end."""

    __slots__ = ("_ends", "_seq", "_strikes")

    def __init__(self) -> None:
        self._ends = 0
        self._seq = 0
        self._strikes = 0

    @property
    def alone(self) -> bool:
        """True if only the head is to be sent, until it is acknowledged."""
        return self._ends >= ALONE_AFTER

    def acked(self) -> None:
        """The peer takes messages: nothing is wrong with it or with them."""
        self._ends = self._strikes = 0

    def ended(self, exposed: list[int]) -> int | None:
        """The peer ended a connection in order while it got these. Returns the one to set aside, if any."""
        if not exposed:
            return None
        self._ends += 1
        if len(exposed) > 1:
            return None
        [seq] = exposed
        self._strikes = self._strikes + 1 if seq == self._seq else 1
        self._seq = seq
        if self._strikes < STRIKES:
            return None
        self._ends = self._strikes = 0
        return seq
