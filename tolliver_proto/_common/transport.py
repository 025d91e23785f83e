"""Roles, proved identities, and the actions that move bytes.

A machine of either protocol asks for these actions, so that one driver carries out both.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import field
from enum import StrEnum
from uuid import UUID

from .derived_ids import is_derived, prefix_of
from .records import frozen, record


class Role(StrEnum):
    """The side of a connection: it dialled (client) or accepted (server)."""

    CLIENT = "client"
    SERVER = "server"


Remote = Hashable
"""A place to dial: the adapter's business. Equal remotes are one remote."""


@frozen
class PeerIdentity:
    """Proof of the other side by the transport: the UUIDs in its certificate, the SHA-256 of its public key.

    `prefixes` are the derive prefixes in its certificate, 12 lower-case hex digits each (T-72a).
    """

    uuids: frozenset[UUID] = frozenset()
    spki_sha256: bytes | None = None
    address: str = ""
    prefixes: frozenset[str] = frozenset()
    name: str = field(default="", compare=False)
    """The certificate's common name: for people."""
    not_after: float | None = field(default=None, compare=False)
    """End of the certificate, in seconds since 1970."""

    def may_be(self, claimed: UUID) -> bool:
        """True if the certificate allows this UUID (D-3, T-72a). One that names nobody leaves it to a pin, but for a
        derived identity; without any certificate there is nothing to contradict (D-15)."""
        if not self.uuids and not self.prefixes:
            return self.spki_sha256 is None or not is_derived(claimed)
        return prefix_of(claimed) in self.prefixes if is_derived(claimed) else claimed in self.uuids

    @property
    def names(self) -> str:
        """The UUIDs and prefixes that the certificate names, in words."""
        words = [*map(str, sorted(self.uuids)), *(f"the derive prefix {prefix}" for prefix in sorted(self.prefixes))]
        return ", ".join(words) or "no UUID and no derive prefix"


@record
class Transmit:
    """Write these units, each by itself (T-69), in order; answer `sent(cid)`. At most one is outstanding per cid."""

    cid: int
    units: Sequence[bytes]


@record
class Dial:
    """Connect; answer `opened(cid, ...)` or `dial_failed(cid, error)`."""

    cid: int
    remote: Remote


@record
class PauseReading:
    cid: int


@record
class ResumeReading:
    cid: int


@record
class ShutdownWrite:
    """All is written: end our half, read until the peer ends its own, then close and answer `lost(cid, None)`."""

    cid: int


@record
class Abort:
    """Close now. The node has forgotten the cid already."""

    cid: int


TransportAction = Transmit | Dial | PauseReading | ResumeReading | ShutdownWrite | Abort
"""Actions that either protocol's machine asks of transports."""
