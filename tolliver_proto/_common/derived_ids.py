"""Derived identities: many short-lived writers that share one certificate (T-72a).

A certificate may carry a prefix of 48 bits, and whoever holds it may be any UUIDv8 that begins with it. The form alone
tells such a UUID from all others: no UUIDv7 of this age begins so high. Such a UUID only writes: nobody keeps anything
for it, and nothing is left of it a day after its last message.
"""

from __future__ import annotations

from uuid import UUID

FIRST_PREFIX = 0xF00000000000
REMEMBERED = 24 * 3600.0
"""Seconds after its last handled message for which copies of a derived identity's messages are known."""


def is_derived(uuid: UUID) -> bool:
    """True if this UUID has the form of a derived, write-only identity: version 8, at or above f00000000000."""
    return uuid.int >> 80 >= FIRST_PREFIX and uuid.version == 8


def prefix_of(uuid: UUID) -> str:
    """Its first 48 bits, as certificates and rules write them: 12 lower-case hex digits."""
    return uuid.hex[:12]


def is_derive_prefix(text: object) -> bool:
    """True if this is a derive prefix in its one written form."""
    return (
        isinstance(text, str)
        and len(text) == 12
        and text.startswith("f")
        and all(digit in "0123456789abcdef" for digit in text)
    )
