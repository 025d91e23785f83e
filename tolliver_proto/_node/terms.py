"""Terms of a send.

They say who of the subscribers is to have it, how many there must be, and for how long it is kept.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple
from uuid import UUID

To = UUID | Collection[UUID] | None
"""A peer, or some, to whom a message is narrowed; None is every peer that subscribes (P-25)."""


class Terms(NamedTuple):
    """Conditions of one send, which it keeps while it waits inside."""

    required: int = 0
    to: frozenset[UUID] | None = None
    expire_after: float | None = None


def terms_of(required: int, to: To, expire_after: float | None) -> Terms:
    """As an application gives them. Raises TypeError and ValueError."""
    if expire_after is not None and not expire_after > 0:
        raise ValueError(f"expire_after={expire_after!r:.100}: give seconds above zero, or None")
    return Terms(required, None if to is None else uuids_of(to), expire_after)


def uuids_of(to: object) -> frozenset[UUID]:
    """Peers of a `to`. Raises TypeError, as a text would be a collection that nobody is in."""
    if isinstance(to, UUID):
        return frozenset((to,))
    if isinstance(to, (str, bytes)) or not isinstance(to, Collection) or not all(isinstance(one, UUID) for one in to):
        raise TypeError(f"to={to!r:.100} names no peer: give its UUID, or a collection of UUIDs")
    return frozenset(to)
