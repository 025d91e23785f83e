"""Peers of a program's streams.

Each adapter has a `Peer` of its own, whose `subscribe` returns the subscription that its users know.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from tolliver_proto import PeerIdentity

from .._options.instance import Remote


class _Core(Protocol):
    @property
    def lock(self) -> AbstractContextManager[object]: ...

    def goodbye(self, peer: BasePeer, reason: str) -> None: ...

    def send(self, peer: BasePeer, frame: object) -> None: ...


class BasePeer:
    """The other end of a connection, until it is over."""

    def __init__(self, core: _Core, cid: int, identity: PeerIdentity, remote: Remote | None) -> None:
        self._core = core
        self.cid = cid
        """The connection's number."""
        self.identity = identity
        """Proved by its certificate, with its address."""
        self.remote = remote
        """The remote that was dialled; None where the peer dialled us."""
        self.connected = True
        self.extensions: frozenset[int] = frozenset()
        """Extensions that both sides announced (R-27)."""

    def send(self, frame: object) -> None:
        """Send a frame of an extension that both sides announced (R-27).

        Raises LocalProtocolError for any other, and ConnectionClosing where the connection is over.
        """
        with self._core.lock:
            self._core.send(self, frame)

    def goodbye(self, reason: str = "") -> None:
        """End the connection in order, and every stream on it; the peer sees the reason (R-28, R-29)."""
        with self._core.lock:
            self._core.goodbye(self, reason)

    def __repr__(self) -> str:
        return f"<Peer at {self.identity.address}, {'connected' if self.connected else 'gone'}>"
