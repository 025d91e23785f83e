"""Connected peers of a program's streams.

Each adapter's `Peer` adds `subscribe`, which returns the adapter's own kind of subscription.
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
    """Base of the public object of a connected peer: its identity, its extensions, and the calls that never wait."""

    def __init__(self, core: _Core, cid: int, identity: PeerIdentity, remote: Remote | None) -> None:
        self._core = core
        self.cid = cid
        """Number of the connection."""
        self.identity = identity
        """Identity proved by the peer's certificate, and its address."""
        self.remote = remote
        """The remote that we dialled; None if the peer dialled us."""
        self.connected = True
        self.extensions: frozenset[int] = frozenset()
        """Extensions that both sides announced (R-27)."""

    def send(self, frame: object) -> None:
        """Send a frame of an extension that both sides announced (R-27).

        Raises LocalProtocolError for any other frame, and ConnectionClosing if the connection has ended.
        """
        with self._core.lock:
            self._core.send(self, frame)

    def goodbye(self, reason: str = "") -> None:
        """Close the connection in order, with every stream on it. The peer receives the reason (R-28, R-29)."""
        with self._core.lock:
            self._core.goodbye(self, reason)

    def __repr__(self) -> str:
        return f"<Peer at {self.identity.address}, {'connected' if self.connected else 'gone'}>"
