"""Identity of a work queue, which owns jobs without a worker.

The outbox knows owners by their UUIDs, so that a queue has a UUID too, made of its channel. The form tells a queue's
UUID from all others: its 64 fixed bits, of version 8, begin no UUID of a clock and no derived identity. A peer that
claims such a UUID is refused.
"""

from __future__ import annotations

from uuid import UUID

_HEAD = 0xEFFFFFFFFFFF8000  # below the derived identities, above the times of UUIDv7
_VARIANT = 0x8000000000000000
_HASHED = 2**62 - 1
_OFFSET, _PRIME = 0xCBF29CE484222325, 0x100000001B3  # FNV-1a, 64 bits


def is_queue(uuid: UUID) -> bool:
    """True if the UUID has the form of a queue's."""
    return uuid.int >> 64 == _HEAD


def queue_id(channel: str) -> UUID:
    """Returns the UUID of the channel's queue, the same in every instance."""
    number = _OFFSET
    for byte in channel.encode():
        number = (number ^ byte) * _PRIME % 2**64
    return UUID(int=_HEAD << 64 | _VARIANT | (number ^ number >> 62) & _HASHED)
