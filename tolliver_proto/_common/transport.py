"""Roles, proved identities, and the actions that move bytes.

The machines of both protocols ask for the same actions, so that one driver serves both.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import field
from enum import StrEnum
from uuid import UUID

from .derived_ids import is_derived, prefix_of
from .records import frozen, record


class Role(StrEnum):
    """Side of a connection: the client dialled, the server accepted."""

    CLIENT = "client"
    SERVER = "server"


Remote = Hashable
"""A place to dial; only the adapter knows its meaning. Equal remotes are one remote."""


@frozen
class PeerIdentity:
    """Identity of the peer that the transport proved: the UUIDs in its certificate, the SHA-256 of its public key.

    `prefixes` are the derive prefixes in the certificate, 12 lower-case hex digits each (derived identities, T-72a).
    """

    uuids: frozenset[UUID] = frozenset()
    spki_sha256: bytes | None = None
    address: str = ""
    prefixes: frozenset[str] = frozenset()
    name: str = field(default="", compare=False)
    """The certificate's common name, for people."""
    not_before: float | None = field(default=None, compare=False)
    not_after: float | None = field(default=None, compare=False)
    """Beginning and end of the certificate, in seconds since 1970."""

    def may_be(self, claimed: UUID) -> bool:
        """True if the certificate allows this UUID (D-3, T-72a).

        A certificate without UUIDs and prefixes allows every UUID that is not derived: the pinned key decides then.
        Without a certificate every UUID is allowed (plaintext, D-15).
        """
        if not self.uuids and not self.prefixes:
            return self.spki_sha256 is None or not is_derived(claimed)
        return prefix_of(claimed) in self.prefixes if is_derived(claimed) else claimed in self.uuids

    @property
    def names(self) -> str:
        """The certificate's UUIDs and prefixes, in words for people."""
        words = [*map(str, sorted(self.uuids)), *(f"the derive prefix {prefix}" for prefix in sorted(self.prefixes))]
        return ", ".join(words) or "no UUID and no derive prefix"


@record
class Transmit:
    """Write the units in order, each by itself (T-69), then answer `sent(cid)`. A cid has at most one outstanding."""

    cid: int
    units: Sequence[bytes]


@record
class Dial:
    """Connect to the remote, then answer `opened(cid, ...)` or `dial_failed(cid, error)`."""

    cid: int
    remote: Remote


@record
class PauseReading:
    """Read no more from the socket until `ResumeReading`."""

    cid: int


@record
class ResumeReading:
    """Read from the socket again."""

    cid: int


@record
class ShutdownWrite:
    """End our half of the connection, read until the peer ends its half, then close and answer `lost(cid, None)`."""

    cid: int


@record
class Abort:
    """Close the transport now. The machine has forgotten the cid already."""

    cid: int


TransportAction = Transmit | Dial | PauseReading | ResumeReading | ShutdownWrite | Abort
"""Actions that the machines of both protocols ask of transports."""
