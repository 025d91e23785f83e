"""Causes for which a connection to a peer ends."""

from __future__ import annotations

from enum import StrEnum

from .._common.errors import ConnectionLost, RemoteProtocolError, TolliverError


class EndCause(StrEnum):
    """Cause for which a connection that stood is over."""

    IN_ORDER = "in_order"  # one of the two closed it
    LOST = "lost"  # the transport broke, or the peer was silent
    PROTOCOL = "protocol"  # the peer broke the rules, or stopped inside a frame
    HERE = "here"  # access rules, a store that fails: this side would not go on

    @staticmethod
    def of(error: TolliverError | None) -> EndCause:
        """By the error that PeerDown has."""
        if error is None:
            return EndCause.IN_ORDER
        if isinstance(error, RemoteProtocolError):
            return EndCause.PROTOCOL
        return EndCause.LOST if isinstance(error, ConnectionLost) else EndCause.HERE
