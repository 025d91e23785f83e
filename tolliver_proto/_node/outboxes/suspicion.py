"""Suspicions about a peer: poison that it closes for, missing acks.

The protocol has no way to refuse a message. The symptom is that the peer ends the connection in order, again and again,
while a message comes in or shortly after. So a message is exposed from its first byte to a moment after its last one,
and no longer once anything was acknowledged. After two such ends the head of the queue is sent alone, and not at once,
so that a program that only starts again and again is not taken for one that refuses it; if the peer still closes, it is
the head that it means. Five strikes set it aside, and the next one goes.

A peer that takes what is written to it and never answers looks connected. So what is sent and unacknowledged has a
clock, which begins again with each acknowledgement.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ..._common.waiting import EMPTY

_AFTERWARDS = 2.0  # seconds, besides the round trip, that a peer may take to close


class Exposure:
    """Exposed messages of one connection, by their ids. `round_trip` is that of its handshake, until an ack is
    quicker."""

    __slots__ = ("_handed", "_taken", "round_trip")

    def __init__(self) -> None:
        self.round_trip = 0.0
        self._handed: Sequence[int] = ()  # the socket has not got all of these
        self._taken: deque[tuple[float, Sequence[int]]] = EMPTY

    def handed(self, message_ids: Sequence[int]) -> None:
        """The socket was given these, and no earlier ones are left."""
        self._handed = message_ids

    def taken(self, now: float) -> None:
        """It has all of them."""
        self._forget_old(now)
        if self._handed:
            if self._taken is EMPTY:
                self._taken = deque()
            self._taken.append((now, self._handed))
            self._handed = ()

    def acked(self, now: float) -> None:
        """The peer has taken a message, and goes on."""
        if self._taken:
            self.round_trip = min(self.round_trip, now - self._taken[0][0])
            self._taken.clear()
        self._handed = ()

    @property
    def empty(self) -> bool:
        """True if nothing was exposed lately."""
        return not (self._handed or self._taken)

    def at(self, now: float) -> list[int]:
        """The ids that are exposed now."""
        self._forget_old(now)
        return [*self._handed, *(one for _, ids in self._taken for one in ids)]

    def _forget_old(self, now: float) -> None:
        while self._taken and self._taken[0][0] + _AFTERWARDS + self.round_trip < now:
            self._taken.popleft()


ALONE_AFTER = 2  # orderly ends without an ack
ALONE_AFTER_UP = 5.0  # seconds from when a connection came up to when the head is sent alone
STRIKES = 5


class PoisonDetector:
    """Suspicion of the head of a peer's queue, drawn from how its connections end."""

    __slots__ = ("_ends", "_seq", "_strikes", "alone")

    def __init__(self) -> None:
        self._ends = 0
        self._seq = 0
        self._strikes = 0
        self.alone = False  # only the head is to be sent, until it is acknowledged

    def acked(self) -> None:
        """The peer takes messages: nothing is wrong with it or with them."""
        self._ends = self._strikes = 0
        self.alone = False

    def ended(self, exposed: list[int]) -> int | None:
        """The peer ended a connection in order while it got these. Returns the one to set aside, if any."""
        if not exposed:
            return None
        self._ends += 1
        self.alone = self._ends >= ALONE_AFTER
        if len(exposed) > 1:
            return None
        [seq] = exposed
        self._strikes = self._strikes + 1 if seq == self._seq else 1
        self._seq = seq
        if self._strikes < STRIKES:
            return None
        self.acked()
        return seq


class AckWatch:
    """Clock of one connection. It needs a timer at `due` at most, however many messages go."""

    __slots__ = ("_after", "_since", "_told")

    def __init__(self, after: float | None) -> None:
        self._after = after
        self._since: float | None = None  # from when on something has waited, without any acknowledgement
        self._told = False

    def sent(self, now: float) -> float | None:
        """Something waits for an acknowledgement. When to `look`, if nobody is going to."""
        if self._since is not None or self._after is None:
            return None
        self._since, self._told = now, False
        return now + self._after

    def acked(self, now: float, waits: bool) -> float | None:
        """One came; `waits`: for others. When to `look`, if nobody is going to."""
        was_told, self._told = self._told, False
        self._since = now if waits and self._after is not None else None
        return now + self._after if was_told and waits and self._after is not None else None

    def look(self, now: float) -> tuple[float | None, float | None]:
        """The seconds of silence, if they are to be told now, and when to look again."""
        if self._since is None or self._after is None or self._told:
            return None, None
        due = self._since + self._after
        if now < due:
            return None, due
        self._told = True
        return now - self._since, None
