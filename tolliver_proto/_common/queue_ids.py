"""Identity of a work queue, which owns jobs without a worker.

The outbox knows owners by their UUIDs, so a queue has one too, made of its channel. Its form tells it from all others:
64 fixed bits, of version 8, that no clock and no derived identity begins with. No peer is taken under such a UUID.
"""

from __future__ import annotations

from uuid import UUID

_HEAD = 0xEFFFFFFFFFFF8000  # below the derived identities, above all times of version 7
_VARIANT = 0x8000000000000000
_HASHED = 2**62 - 1
_OFFSET, _PRIME = 0xCBF29CE484222325, 0x100000001B3  # FNV-1a, 64 bits


def is_queue(uuid: UUID) -> bool:
    """True if this UUID has the form of a queue's."""
    return uuid.int >> 64 == _HEAD


def queue_id(channel: str) -> UUID:
    """UUID of the queue of this channel, the same in every instance."""
    number = _OFFSET
    for byte in channel.encode():
        number = (number ^ byte) * _PRIME % 2**64
    return UUID(int=_HEAD << 64 | _VARIANT | (number ^ number >> 62) & _HASHED)
