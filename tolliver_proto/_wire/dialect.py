"""Dialect: habits of one peer that differ from everybody else's.

Nothing of it can be told from the bytes, so it is configuration (C6): of a remote where we dial, and where it dials us
by the peer's UUID, which is among the first 25 bytes of a request in every layout.
"""

from __future__ import annotations

from dataclasses import fields

from .._common.records import options
from .events import Revision, Subscription
from .layouts import LAYOUTS

RESERVED_ID = 2**31 - 1
"""The drafts' unreliable id (T-42). Message ids end below it (T-40)."""

_MAX_ID = 2**32 - 1
_MAX_VERSION = 2**64 - 1


@options
class Dialect:
    """Habits of one peer; None is as with everybody else. Raises ValueError for a value that cannot be meant.

    - `version`: what we announce to it (T-02).
    - `unreliable_id`: the id that marks an unreliable message, in both directions: 0, or from 2^31-1 to 2^32-1 (T-42).
    - `announce_after_handshake`: it throws a handshake's list away, and is told again by messages (T-33).
    - `strict_uuid7`: its UUID must have version 7 (T-03).
    - `accept_either`: draft 1's control bodies are read too (T-22).
    - `revision`: the wire layout that it speaks (C6), with that layout's own unreliable id.
    - `subscriptions`: what it wants to get, where its layout's handshakes cannot say so.
    """

    version: int | None = None
    unreliable_id: int | None = None
    announce_after_handshake: bool | None = None
    strict_uuid7: bool | None = None
    accept_either: bool | None = None
    revision: Revision | None = None
    subscriptions: tuple[Subscription, ...] | None = None

    def __post_init__(self) -> None:
        if self.revision is not None and self.revision not in LAYOUTS:
            raise ValueError(f"Dialect.revision is {self.revision!r:.100}: give one of {', '.join(map(str, Revision))}")
        if self.version is not None and not 0 <= self.version <= _MAX_VERSION:
            raise ValueError(f"Dialect.version is {self.version}: it is a 64-bit number on the wire, not negative")
        if self.unreliable_id is not None:
            check_unreliable_id(self.unreliable_id, "Dialect")

    def over(self, other: Dialect) -> Dialect:
        """This one, and the other where this one leaves it open."""
        chosen = {}
        for one in fields(self):
            own = getattr(self, one.name)
            chosen[one.name] = getattr(other, one.name) if own is None else own
        if self.revision is not None:
            chosen["unreliable_id"] = self.unreliable_id
        return Dialect(**chosen)


def check_unreliable_id(message_id: int, owner: str) -> None:
    """Raises ValueError for one that is an ordinary message's, or none at all (T-40)."""
    if message_id != 0 and not RESERVED_ID <= message_id <= _MAX_ID:
        raise ValueError(
            f"{owner}.unreliable_id is {message_id}: ids from 1 to 2^31-2 are messages' own, give 0 or one from 2^31-1 "
            "to 2^32-1 (T-42)"
        )


AS_EVERYBODY = Dialect()


def as_everybody(_peer: object) -> Dialect:
    return AS_EVERYBODY
