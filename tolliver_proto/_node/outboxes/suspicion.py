"""Suspicions about a peer: poison that it closes for, missing acks.

The protocol has no way to refuse a message. The symptom is a peer that ends the connection in order, again and again,
while a message comes in or shortly after. So a message is exposed from its first byte to a moment after its last one,
or until any ack. After two such ends the head of the queue is sent alone, and not at once, so that a program that only
restarts again and again does not seem to refuse the message. If the peer still closes, the head is the cause: after
five strikes the head is set aside, and the next message goes.

A peer that takes all bytes and never answers looks connected. So a clock runs while messages are unacknowledged, and
begins again with each ack.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ..._common.empty_queue import EMPTY

_AFTERWARDS = 2.0  # seconds, on top of the round trip, that a peer may take to close


class Exposure:
    """Exposed messages of one connection, by id: the socket has them, or has taken them so shortly before that an end
    of the connection may be due to one of them.

    `round_trip` is in seconds: that of the handshake, until an ack is quicker.
    """

    __slots__ = ("_handed", "_taken", "round_trip")

    def __init__(self) -> None:
        self.round_trip: float = 0.0
        self._handed: Sequence[int] = ()  # ids of which the socket has not taken all
        self._taken: deque[tuple[float, Sequence[int]]] = EMPTY

    def handed(self, message_ids: Sequence[int]) -> None:
        """Notes the messages handed to the socket, which has taken all earlier ones."""
        self._handed = message_ids

    def taken(self, now: float) -> None:
        """Notes that the socket has taken all handed messages."""
        self._forget_old(now)
        if self._handed:
            if self._taken is EMPTY:
                self._taken = deque()
            self._taken.append((now, self._handed))
            self._handed = ()

    def acked(self, now: float) -> None:
        """Ends the exposure of all messages, as the peer has acknowledged one."""
        if self._taken:
            self.round_trip = min(self.round_trip, now - self._taken[0][0])
            self._taken.clear()
        self._handed = ()

    def at(self, now: float) -> list[int]:
        """Returns the ids that are exposed at `now`."""
        self._forget_old(now)
        return [*self._handed, *(one for _, ids in self._taken for one in ids)]

    def _forget_old(self, now: float) -> None:
        while self._taken and self._taken[0][0] + _AFTERWARDS + self.round_trip < now:
            self._taken.popleft()


ALONE_AFTER = 2  # orderly ends without an ack
ALONE_AFTER_UP = 5.0  # seconds that a connection is up before the head is sent alone
STRIKES = 5


class PoisonDetector:
    """Finds a message at which a peer closes the connection again and again, from what was unacknowledged at each
    end.
    """

    __slots__ = ("_ends", "_seq", "_strikes", "alone")

    def __init__(self) -> None:
        self._ends = 0
        self._seq = 0
        self._strikes = 0
        self.alone: bool = False  # only the head is to be sent, until it is acknowledged

    def acked(self) -> None:
        """Drops all suspicion, as the peer has taken a message."""
        self._ends = self._strikes = 0
        self.alone = False

    def ended(self, exposed: list[int]) -> int | None:
        """Counts an orderly end of the connection while these seqs were exposed; returns the seq of the message to set
        aside, or None if none is suspect enough.
        """
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
    """Clock for the silence of one peer that owes acks, which needs at most one timer, however many messages go. Times
    are in seconds.
    """

    __slots__ = ("_after", "_since", "_told")

    def __init__(self, after: float | None) -> None:
        self._after = after
        self._since: float | None = None  # since when messages wait without any ack
        self._told = False

    def sent(self, now: float) -> float | None:
        """Starts the clock, as a message waits for an ack; returns the time at which to call `look`, None if no new
        timer is needed.
        """
        if self._since is not None or self._after is None:
            return None
        self._since, self._told = now, False
        return now + self._after

    def acked(self, now: float, waits: bool) -> float | None:
        """Starts the clock again after an ack, if `waits`: messages still wait for theirs. Returns the time at which to
        call `look`, None if no new timer is needed.
        """
        was_told, self._told = self._told, False
        self._since = now if waits and self._after is not None else None
        return now + self._after if was_told and waits and self._after is not None else None

    def look(self, now: float) -> tuple[float | None, float | None]:
        """Called at the time that was returned. Returns the seconds of silence if they are to be reported now, else
        None; and when to call this again, None for not.
        """
        if self._since is None or self._after is None:
            return None, None
        due = self._since + self._after
        if now < due:
            return None, due
        self._told = True
        return now - self._since, None
