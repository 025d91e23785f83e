"""Streams of the command line, which say who comes and goes."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from tolliver_proto import TolliverError
from tolliver_proto.reactive import DEFAULT_PORT, ConnectionClosed, PeerDown, PeerUp

from .._options.instance import Remote
from .._options.streams import StreamsOptions
from ..anyio import Peer, Streams
from ..anyio.streams import StreamsCore
from . import words
from .connecting import Meeting

PATIENCE = 30.0  # seconds for a peer that is dialled


def options_of(meeting: Meeting, default_listen: str | None = None) -> StreamsOptions:
    """Raises ValueError where something is missing or said twice, and OSError. It listens by default where given."""
    options = StreamsOptions(
        listen=meeting.listen or (default_listen if not meeting.connect else None),
        tls=meeting.tls(),
        plaintext=meeting.plaintext,
        acl=meeting.rules(),
    )
    for remote in remotes_of(meeting):
        options.remote(remote)
    return options


def remotes_of(meeting: Meeting) -> list[Remote]:
    return meeting.remotes(DEFAULT_PORT)


class Watched(Streams):
    """Streams that tell `say` who comes and goes, and let one wait for that."""

    _core: _WatchedCore

    def __init__(self, options: StreamsOptions, say: Callable[[str], None]) -> None:
        self._say = say
        super().__init__(options)

    def _make_core(self, options: StreamsOptions) -> _WatchedCore:
        return _WatchedCore(options, self._say)

    async def somebody(self) -> Peer:
        """The first peer that is there."""
        while not self.peers():
            await self._core.changed.wait()
        return self.peers()[0]

    async def last_words(self) -> TolliverError:
        """The error that ended the connection of the last peer, as soon as none is there any more."""
        while self.peers() or self._core.last_words is None:
            await self._core.changed.wait()
        return self._core.last_words


class _WatchedCore(StreamsCore):
    """Its connections."""

    def __init__(self, options: StreamsOptions, say: Callable[[str], None]) -> None:
        super().__init__(options)
        self._say = say
        self.changed = anyio.Event()
        self.last_words: TolliverError | None = None

    def _on_peer_up(self, action: PeerUp) -> None:
        super()._on_peer_up(action)
        peer = self._peers.get(action.cid)
        if peer is not None:
            self._say(f"{_who(peer)} is connected")
            self._change()

    def _on_peer_down(self, action: PeerDown) -> None:
        peer = self._peers.get(action.cid)
        super()._on_peer_down(action)
        if peer is not None:
            self.last_words = action.error or ConnectionClosed(action.reason)
            self._say(f"{_who(peer)} is gone: {words.line(str(self.last_words))}")
            self._change()

    def _change(self) -> None:
        changed, self.changed = self.changed, anyio.Event()
        changed.set()


def _who(peer: Peer) -> str:
    """Address of a peer, and the names in its certificate."""
    where = words.line(peer.identity.address)
    return f"{where} ({peer.identity.names})" if peer.identity.uuids or peer.identity.prefixes else where
