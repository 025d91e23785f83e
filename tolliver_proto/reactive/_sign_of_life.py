"""Sign of life: whether a peer that is waited for is there (R-40).

A peer that vanished without a word ends no TCP connection, and a subscriber would wait for elements for ever. So the
side that waits sends a ping after `quiet` seconds without a byte, and the connection is lost when no byte comes within
half of that. Only a side that waits asks: one that wants nothing costs no traffic.

State: when a byte was last heard, the time of the question that has no answer yet, and the time of the next look.
Invariants: any byte is an answer. A look stands until its time has come, although bytes come meanwhile: a deadline that
moved with each byte would cost a timer for each. Silence counts anew where the peer cannot be heard (reading is paused)
or cannot have heard us (our bytes have not left): `excuse`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto

from .._common.records import record
from ._layout import Extension, Form, Kind


@record
class Ping:
    """Asks the peer for a sign of life."""

    number: int


@record
class Pong:
    """Answers the ping of this number."""

    number: int


SIGN_OF_LIFE = Extension(1, (Form(64, Ping, {"number": Kind.NUMBER}), Form(65, Pong, {"number": Kind.NUMBER})))


def announced(extensions: Iterable[Extension], quiet: float | None) -> tuple[Extension, ...]:
    """Extensions of a hub: the sign of life, unless it is switched off, and these."""
    return (*extensions,) if quiet is None else (SIGN_OF_LIFE, *extensions)


class Sign(Enum):
    """Outcome of a look."""

    NONE_NEEDED = auto()
    ASK = auto()
    LOST = auto()


class SignOfLife:
    """Clock of one side: the times of its questions, and the end of its patience, in monotonic seconds."""

    __slots__ = ("_asked", "_heard", "due", "number", "patience", "quiet")

    def __init__(self, quiet: float, now: float) -> None:
        self.quiet, self.patience = quiet, quiet / 2
        self.number = 0
        """Of the last ping."""
        self.due: float | None = None
        """Time of the next look; None while no stream is open."""
        self._heard = now
        self._asked: float | None = None

    def heard(self, now: float) -> None:
        """Notes that bytes came."""
        self._heard, self._asked = now, None

    def begin(self) -> None:
        """Begins to look, if nobody looks yet."""
        if self.due is None:
            self.due = self._heard + self.quiet

    def excuse(self, now: float) -> None:
        """Counts the silence anew: the peer could not be heard, or could not hear us."""
        self._heard = now
        if self._asked is not None:
            self._asked, self.due = now, now + self.patience

    def look(self, now: float, *, waiting: bool | None) -> Sign:
        """Returns the meaning of a silence until `now`; sets the next look. None for `waiting`: no stream is open."""
        if self._asked is not None:
            return Sign.LOST  # the look after a ping is that of its patience
        if waiting and now >= self._heard + self.quiet:
            self._asked = now
            self.number += 1
            self.due = now + self.patience
            return Sign.ASK
        if waiting is None:
            self.due = None
        else:
            self.due = (self._heard if waiting else now) + self.quiet
        return Sign.NONE_NEEDED
