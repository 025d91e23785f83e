"""Derived identities: many short-lived writers that share one certificate (T-72a).

A certificate may carry a prefix of 48 bits; its holder may then use any UUIDv8 that begins with the prefix. The form of
such a UUID tells it from all others: the times of today's UUIDv7 are far below the prefixes. A derived identity only
writes: its peers keep no messages for it, and forget it a day after its last message.
"""

from __future__ import annotations

from uuid import UUID

FIRST_PREFIX = 0xF00000000000
REMEMBERED = 24 * 3600.0
"""Seconds for which copies of a derived identity's messages are recognised after its last handled message."""


def is_derived(uuid: UUID) -> bool:
    """True if the UUID has the form of a derived, write-only identity: version 8, at or above f00000000000."""
    return uuid.int >> 80 >= FIRST_PREFIX and uuid.version == 8


def prefix_of(uuid: UUID) -> str:
    """Returns the UUID's first 48 bits as certificates and rules write them: 12 lower-case hex digits."""
    return uuid.hex[:12]


def is_derive_prefix(text: object) -> bool:
    """True if the text is a derive prefix: 12 lower-case hex digits, the first of them f."""
    return (
        isinstance(text, str)
        and len(text) == 12
        and text.startswith("f")
        and all(digit in "0123456789abcdef" for digit in text)
    )
