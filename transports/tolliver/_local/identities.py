"""Derived identities of local programs: the prefix is that of their user (D-18, T-72a)."""

from __future__ import annotations

import os
import secrets
from uuid import UUID

from ..derived import derived_identity


def local_prefix(uid: int) -> str:
    """The derive prefix of the programs of a user, by the user's number, for access rules."""
    return f"f100{uid & 0xFFFFFFFF:08x}"


def new_identity() -> UUID:
    """An identity for one connection of this process."""
    return derived_identity(local_prefix(os.getuid()), f"{os.getpid()} {secrets.token_hex(8)}")
