"""Derived identities: every try of a job is the same sender (T-72a).

The tasks of a job share one certificate, which carries a prefix of 48 bits, and each is a UUIDv8 of its own: that
prefix and a hash of what the task is called. A task that is tried again is the same sender, so receivers with `dedupe`
see its messages once. Such an instance only writes.
"""

from __future__ import annotations

import hashlib
import secrets
from uuid import UUID

from tolliver_proto.node import is_derive_prefix, is_derived

URN = "urn:tolliver:derive:"
"""A certificate carries a prefix as a URI SAN that begins like this."""

_TAIL_BITS = 62
_MIDDLE_BITS = 12


def derived_identity(prefix: str, label: str) -> UUID:
    """The UUIDv8 that begins with this prefix; the rest, but for version and variant, is the SHA-256 of the label.

    `prefix` is what `tolliver certs --derive` shows, 12 hex digits from f00000000000 on. Equal arguments, equal UUID.
    An identity that is used again within 24 h must send the same messages in the same order from an empty database: a
    receiver takes them for copies. Raises ValueError.
    """
    digest = int.from_bytes(hashlib.sha256(label.encode()).digest())
    middle, tail = digest >> (256 - _MIDDLE_BITS), digest & ((1 << _TAIL_BITS) - 1)
    return UUID(int=int(check_prefix(prefix), 16) << 80 | 8 << 76 | middle << 64 | 2 << 62 | tail)


def new_prefix() -> str:
    """A random derive prefix, for a certificate."""
    return f"f{secrets.randbits(44):011x}"


def check_prefix(prefix: str) -> str:
    """The prefix in lower case, or ValueError: lower ones are the beginnings of other UUIDs."""
    if not is_derive_prefix(prefix.lower()):
        raise ValueError(f"{prefix!r} is no derive prefix: give 12 hex digits from f00000000000 on (T-72a)")
    return prefix.lower()


__all__ = ["derived_identity", "is_derived", "new_prefix"]
