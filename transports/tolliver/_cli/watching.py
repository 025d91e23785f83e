"""Streams of the command line, which report peers that connect and disconnect."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio

from tolliver_proto import TolliverError
from tolliver_proto.reactive import DEFAULT_PORT

from .._options.instance import Remote
from .._options.streams import StreamsOptions
from ..anyio import Peer
from ..events import StreamsPeerDown, StreamsPeerUp
from . import words
from .connecting import Meeting

PATIENCE = 30.0  # seconds for a dialled peer to connect


def options_of(meeting: Meeting, default_listen: str | None = None, *, record: Path | None = None) -> StreamsOptions:
    """Options of the streams. Raises ValueError if something is missing or given twice, and OSError.

    `default_listen`: address to listen on if no other is given.
    """
    usual = {"listen": default_listen} if not (meeting.listen or meeting.connect) else {}
    options = StreamsOptions(**meeting.common() | usual, record=record)
    for remote in remotes_of(meeting):
        options.remote(remote)
    return options


def remotes_of(meeting: Meeting) -> list[Remote]:
    return meeting.remotes(DEFAULT_PORT)


class Watch:
    """Passes a line to `say` when a peer connects or disconnects, and allows waiting for that."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._changed = anyio.Event()
        self._peers: list[Peer] = []
        self._last_words: TolliverError | None = None

    def __call__(self, event: object) -> None:
        if isinstance(event, StreamsPeerUp):
            self._peers.append(event.peer)
            self._say(f"{_who(event.peer)} is connected")
        elif isinstance(event, StreamsPeerDown):
            self._peers.remove(event.peer)
            self._last_words = event.error
            self._say(f"{_who(event.peer)} is gone: {words.line(str(event.error))}")
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def somebody(self) -> Peer:
        """Wait until any peer is connected; returns it."""
        while not self._peers:
            await self._changed.wait()
        return self._peers[0]

    async def last_words(self) -> TolliverError:
        """Wait until no peer is connected any more; returns the error of the last peer's connection."""
        while self._peers or self._last_words is None:
            await self._changed.wait()
        return self._last_words


def _who(peer: Peer) -> str:
    """Text for a peer: its address, and the names in its certificate."""
    where = words.line(peer.identity.address)
    return f"{where} ({peer.identity.names})" if peer.identity.uuids or peer.identity.prefixes else where
