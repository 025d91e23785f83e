"""Derived identities: every try of a job is the same sender (T-72a).

The tasks of a job share one certificate, which has a prefix of 48 bits. Each task has a UUIDv8 of its own: the prefix
and a hash of the task's name. A retried task is the same sender, so receivers with `dedupe` handle its messages only
once. Such an instance can only send.
"""

from __future__ import annotations

import hashlib
import secrets
from uuid import UUID

from tolliver_proto.node import is_derive_prefix, is_derived

URN = "urn:tolliver:derive:"
"""Beginning of the URI SAN with a certificate's prefix."""

_TAIL_BITS = 62
_MIDDLE_BITS = 12


def derived_identity(prefix: str, label: str) -> UUID:
    """UUIDv8 that starts with the prefix; the rest, except version and variant, is from the SHA-256 of the label.

    `prefix` is as `tolliver certs --derive` shows it: 12 hex digits, at least f00000000000. Equal arguments give equal
    UUIDs. An identity that is used again within 24 h must send the same messages in the same order, from an empty
    database: receivers take them for copies. Raises ValueError.
    """
    digest = int.from_bytes(hashlib.sha256(label.encode()).digest())
    middle, tail = digest >> (256 - _MIDDLE_BITS), digest & ((1 << _TAIL_BITS) - 1)
    return UUID(int=int(check_prefix(prefix), 16) << 80 | 8 << 76 | middle << 64 | 2 << 62 | tail)


def new_prefix() -> str:
    """A random prefix for a certificate."""
    return f"f{secrets.randbits(44):011x}"


def check_prefix(prefix: str) -> str:
    """The prefix in lower case. Raises ValueError, also below f00000000000, where other UUIDs begin."""
    if not is_derive_prefix(prefix.lower()):
        raise ValueError(f"{prefix!r} is no derive prefix: give 12 hex digits from f00000000000 on (T-72a)")
    return prefix.lower()


__all__ = ["derived_identity", "is_derived", "new_prefix"]
