"""Identities of owners that are no peers, such as queues.

The outbox knows owners by their UUIDs, so that each queue has a UUID, made of its channel, as has each channel that
keeps, and the last values have one. The form tells these UUIDs from all others: the first 64 bits, of version 8, begin
no UUID of a clock and no derived identity. A peer that claims such a UUID is refused.

The messages of a queue wait for a worker, those of a channel that keeps for its first subscriber. Those of a keeper,
such as the last values, wait for no peer: they are not pending, and they do not expire. Each keeper has a number: 0
keeps the last values, 1 to 8 keep message keys, 32 keeps answers to calls, and 64 keeps what is sent later.
"""

from __future__ import annotations

from uuid import UUID

_QUEUES = 0xEFFFFFFFFFFF8000  # below the derived identities, above the times of UUIDv7
_KEEPERS = _QUEUES + 1
_KEPT = _QUEUES + 2
_VARIANT = 0x8000000000000000
_HASHED = 2**62 - 1
_OFFSET, _PRIME = 0xCBF29CE484222325, 0x100000001B3  # FNV-1a, 64 bits


def keeper_id(number: int) -> UUID:
    """Returns the UUID of the keeper with this number, the same in every instance: a store has it on disk."""
    return UUID(int=_KEEPERS << 64 | _VARIANT | number)


VALUES = keeper_id(0)
"""Owner of the last values."""
ANSWERED = keeper_id(32)
"""Owner of the answers to calls."""
LATER = keeper_id(64)
"""Owner of the messages whose time has not come."""


def is_queue(uuid: UUID) -> bool:
    """True if the UUID has the form of a queue's."""
    return uuid.int >> 64 == _QUEUES


def is_kept(uuid: UUID) -> bool:
    """True if the UUID has the form of a channel's that keeps messages for its first subscriber."""
    return uuid.int >> 64 == _KEPT


def is_keeper(uuid: UUID) -> bool:
    """True for the UUID that stands for an owner in place of a peer: of messages kept by a pattern, which wait for no
    peer.
    """
    return uuid.int >> 64 == _KEEPERS


def is_owner(uuid: UUID) -> bool:
    """True if the UUID stands for an owner of messages that is no peer, and no peer may have it."""
    return is_queue(uuid) or is_keeper(uuid) or is_kept(uuid)


def queue_id(channel: str) -> UUID:
    """Returns the UUID of the channel's queue, the same in every instance."""
    return _id_of(_QUEUES, channel)


def kept_id(channel: str) -> UUID:
    """Returns the UUID of the owner of what the channel keeps, the same in every instance."""
    return _id_of(_KEPT, channel)


def _id_of(form: int, channel: str) -> UUID:
    number = hashed(channel)
    return UUID(int=form << 64 | _VARIANT | (number ^ number >> 62) & _HASHED)


def hashed(text: str) -> int:
    """Returns 64 bits that stand for the text, the same in every instance (FNV-1a)."""
    number = _OFFSET
    for byte in text.encode():
        number = (number ^ byte) * _PRIME % 2**64
    return number
