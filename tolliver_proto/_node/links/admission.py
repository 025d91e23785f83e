"""Admission of peers: certificates (D-3, T-72), access rules (D-4), blocked remotes (T-77).

The module only decides: each question is answered with None or with the reason, in words for an operator. The caller
refuses the connection.
"""

from __future__ import annotations

from uuid import UUID

from ..._common.transport import PeerIdentity, Remote, Role
from ..context import Context


class HandshakeGate:
    """Decides which peer may connect: by its certificate, the pinned keys and the access rules."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._peers = context.peers
        self._peers_per_key = context.limits.peers_per_key
        self._blocked: dict[Remote, UUID] = {}  # the peers of remotes that were removed with block=True (T-77)

    def block(self, remote: Remote, peer: UUID) -> None:
        self._blocked[remote] = peer

    def unblock(self, remote: Remote) -> None:
        self._blocked.pop(remote, None)

    def conflict(self, proved: PeerIdentity, claimed: UUID) -> str | None:
        """Returns the reason for which the certificate `proved` contradicts a peer's claim to the UUID `claimed`, None
        without one (D-3, T-72, T-72a).
        """
        known = self._peers.get(claimed)
        if not proved.may_be(claimed):
            return (
                f"its certificate names {proved.names}: `tolliver certs DIR NAME --uuid {claimed}` makes the right one"
            )
        if known is None:
            return self._excess(proved)
        if not proved.uuids and known.links.spki_sha256 not in (None, proved.spki_sha256):
            return "its key is not the one that this UUID was first seen with (repin it if that was on purpose)"
        return None

    def _excess(self, proved: PeerIdentity) -> str | None:
        """Returns the reason for which the key of `proved` may not be pinned to one more peer, or None. A key whose
        certificate names UUIDs has no limit.
        """
        key = proved.spki_sha256
        if key is None or proved.uuids or proved.prefixes:
            return None
        if sum(peer.links.spki_sha256 == key for peer in self._peers.values()) < self._peers_per_key:
            return None
        return (
            f"its key has been {self._peers_per_key} others already: forget some, raise Limits.peers_per_key, or put "
            "UUIDs into certificates"
        )

    def denial(self, role: Role, peer: UUID) -> str | None:
        """Returns the reason for which this peer may not connect, or None if it may (D-4, T-77). `role` is ours."""
        if not self._context.acl.rights(peer).connect:
            return "the access rules keep it out: set other ones if it is to connect (D-4)"
        if role is Role.SERVER and peer in self._blocked.values():
            return "its remote was removed with block=True: connect to that again to let it in (T-77)"
        return None

    def denied(self, proved: PeerIdentity) -> tuple[UUID, str] | None:
        """Returns the UUID of a dialled peer and the reason for which it may not connect, if its certificate names that
        UUID alone; None if it may, or is not known yet.

        The peer then does not get to see our request.
        """
        if len(proved.uuids) != 1 or proved.prefixes:
            return None
        (peer,) = proved.uuids
        denial = self.denial(Role.CLIENT, peer)
        return None if denial is None else (peer, denial)
