"""Dialect: habits of peers where drafts leave a choice or programs differ.

The bytes do not tell a dialect, so that a dialect is configuration (never negotiated, C6). A program gives a dialect to
a remote that it dials, to a peer by its UUID (which every layout has in the first 25 bytes of a request), and to all
peers. The first of these three that sets a habit decides it (`Dialect.over`).
"""

from __future__ import annotations

from dataclasses import fields

from .._common.records import options
from .events import Revision, Subscription
from .layouts import LAYOUTS

RESERVED_ID = 2**31 - 1
"""The drafts' unreliable id (T-42). Message ids end below it (T-40)."""

_A = {int: "a whole number", bool: "True or False"}
_TYPES = {
    "version": int,
    "unreliable_id": int,
    "announce_after_handshake": bool,
    "control_messages": bool,
    "strict_uuid7": bool,
    "accept_either": bool,
}
_MAX_ID = 2**32 - 1
_MAX_VERSION = 2**64 - 1


@options
class Dialect:
    """Habits of a peer; None leaves a habit open. Raises TypeError or ValueError for a value out of range.

    - `version`: the protocol version that we announce to the peer (T-02).
    - `unreliable_id`: the id that marks an unreliable message, in both directions: 0, or from 2^31-1 to 2^32-1 (T-42).
    - `announce_after_handshake`: the peer ignores the list of a handshake, and gets the list again by messages (T-33).
    - `control_messages`: False for a peer that dies of subscribe and unsubscribe messages: we send none, and changes
      of our list wait for the next handshake (T-29).
    - `strict_uuid7`: the peer's UUID must have version 7, unless its certificate binds a derived identity (T-03).
    - `accept_either`: control bodies of draft 1 are read too (T-22).
    - `revision`: the wire layout that the peer speaks (C6), with that layout's own unreliable id.
    - `subscriptions`: (channel, key) pairs that the peer wants, for layouts whose handshakes have no list.
    """

    version: int | None = None
    unreliable_id: int | None = None
    announce_after_handshake: bool | None = None
    control_messages: bool | None = None
    strict_uuid7: bool | None = None
    accept_either: bool | None = None
    revision: Revision | None = None
    subscriptions: tuple[Subscription, ...] | None = None

    def __post_init__(self) -> None:
        for name, kind in _TYPES.items():
            value = getattr(self, name)
            if value is not None and type(value) is not kind:
                raise TypeError(f"Dialect.{name} is {value!r:.100}: give {_A[kind]}, or None")
        if self.revision is not None and self.revision not in LAYOUTS:
            raise ValueError(f"Dialect.revision is {self.revision!r:.100}: give one of {', '.join(map(str, Revision))}")
        if self.version is not None and not 0 <= self.version <= _MAX_VERSION:
            raise ValueError(f"Dialect.version is {self.version}: it is a 64-bit number on the wire, not negative")
        if self.unreliable_id not in (None, 0) and not RESERVED_ID <= self.unreliable_id <= _MAX_ID:
            raise ValueError(
                f"Dialect.unreliable_id is {self.unreliable_id}: ids from 1 to 2^31-2 are messages' own, give 0 or one "
                "from 2^31-1 to 2^32-1 (T-42)"
            )
        if self.subscriptions is not None:
            object.__setattr__(self, "subscriptions", tuple(map(_subscription, self.subscriptions)))

    def of_everybody(self) -> Dialect:
        """Returns this dialect, as that of all peers. Raises ValueError if it has a revision or a version: those of all
        peers are arguments of the node."""
        for name in ("revision", "version"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f"the dialect of everybody has a {name}, {getattr(self, name)}: that of everybody is the option "
                    f"`{name}`, give that one"
                )
        return self

    def over(self, other: Dialect) -> Dialect:
        """Returns this dialect, with the other's habits where this one leaves them open."""
        chosen = {}
        for one in fields(self):
            own = getattr(self, one.name)
            chosen[one.name] = getattr(other, one.name) if own is None else own
        if self.revision is not None:
            chosen["unreliable_id"] = self.unreliable_id
        return Dialect(**chosen)


def _subscription(pair: object) -> Subscription:
    if not isinstance(pair, tuple) or [type(one) for one in pair] != [str, str]:
        raise TypeError(f"Dialect.subscriptions has {pair!r:.100}: give (channel, key) pairs")
    return Subscription(*pair)


AS_EVERYBODY = Dialect()


def as_everybody(_peer: object) -> Dialect:
    return AS_EVERYBODY
