"""Calls of a program's streams that never wait.

An adapter's `Streams` inherits them and adds the calls that wait, as coroutines, Deferreds or blocking calls.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from tolliver_proto import PeerIdentity
from tolliver_proto.node import check_type

from .._driver.facade import BaseFacade
from .._options.instance import Remote
from .peers import BasePeer
from .stats import StreamsStats
from .streams import BaseStreamsCore

P = TypeVar("P", bound=BasePeer)


class BaseStreams(BaseFacade[BaseStreamsCore[P]], Generic[P]):
    """Base of the public object of running streams: its calls that never wait."""

    _peer: Callable[[BaseStreamsCore[P], int, PeerIdentity, Remote | None], P]

    def __init__(self, core: BaseStreamsCore[P]) -> None:
        super().__init__(core)
        core.make_peer = partial(type(self)._peer, core)

    def goodbye(self, peer: P, reason: str = "") -> None:
        """Close a connection in order, with every stream on it. The peer receives the reason (R-28, R-29)."""
        check_type("peer", peer, BasePeer, "a Peer, as `connect` returns it")
        peer.goodbye(reason)

    def peers(self) -> list[P]:
        """Connected peers that have said hello."""
        with self._core.lock:
            return self._core.peers()

    def stats(self) -> StreamsStats:
        """Counters since the start, and current sizes, as a frozen snapshot. All names are there from the start."""
        with self._core.lock:
            return self._core.stats()
