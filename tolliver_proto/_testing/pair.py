"""Pair of connections joined in memory.

The output of each connection is the input of the other, cut as a network may cut bytes. `run` goes on until no bytes
move; the transcript has all events of both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal
from uuid import UUID

from .._common.errors import TolliverError
from .._common.transport import Role
from .._wire.connection import Connection
from .._wire.events import Closed, Event
from .._wire.state import HOLDING
from .randomness import Dice

Cut = Literal["whole", "bytes"] | Dice
"""Cut of arriving bytes: whole writes, single bytes, or random pieces."""


_CLIENT = UUID("01890000-0000-7000-8000-000000000001")
_SERVER = UUID("01890000-0000-7000-8000-000000000002")


class Side:
    """One end of a pair: its connection, the events that it handed out, and the pieces of bytes that it wrote."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.events: list[Event] = []
        self.units: list[bytes] = []
        self.shut = False

    @property
    def closed(self) -> bool:
        return bool(self.events) and isinstance(self.events[-1], Closed)

    @property
    def error(self) -> TolliverError | None:
        """The error that ended the connection, None before its end and after an orderly one."""
        last = self.events[-1] if self.events else None
        return last.error if isinstance(last, Closed) else None


class ConnectionPair:
    """A client and a server, by default plain ones.

    With `accept` (the default) each handshake that waits for a decision is accepted. `decide(side)` is called instead,
    if it is given.
    """

    def __init__(
        self,
        client: Connection | None = None,
        server: Connection | None = None,
        *,
        cut: Cut = "whole",
        accept: bool = True,
        decide: Callable[[Side], None] | None = None,
    ) -> None:
        self.client: Side = Side(client or Connection(Role.CLIENT, instance_id=_CLIENT))
        self.server: Side = Side(server or Connection(Role.SERVER, instance_id=_SERVER))
        self._cut = cut
        self._decide = decide or (_accept if accept else None)

    def run(self, max_rounds: int = 1000) -> ConnectionPair:
        """Moves bytes until none are left; returns itself. Raises RuntimeError if that takes more than `max_rounds`
        rounds.
        """
        for _ in range(max_rounds):
            if not (self._move(self.client, self.server) | self._move(self.server, self.client)):
                return self
        raise RuntimeError(f"bytes still move after {max_rounds} rounds: are the two answering each other for ever?")

    @property
    def transcript(self) -> list[str]:
        """All events of both sides, in a line each."""
        return [f"{name}: {event}" for name, side in self._sides() for event in side.events]

    def _sides(self) -> tuple[tuple[str, Side], tuple[str, Side]]:
        return ("client", self.client), ("server", self.server)

    def _move(self, source: Side, target: Side) -> bool:
        moved = self._take(source)
        for unit in source.connection.data_to_send():
            source.units.append(unit)
            moved = True
            for piece in self._pieces(unit):
                target.connection.receive_data(piece)
                self._take(target)
        if source.connection.wants_write_shutdown and not source.shut:
            source.shut = moved = True
            target.connection.receive_eof()
            self._take(target)
        return moved

    def _pieces(self, unit: bytes) -> Iterator[bytes]:
        at = 0
        while at < len(unit):
            if not isinstance(self._cut, str):
                size = self._cut.randint(1, len(unit) - at)
            else:
                size = len(unit) if self._cut == "whole" else 1
            yield unit[at : at + size]
            at += size

    def _take(self, side: Side) -> bool:
        before = len(side.events)
        for event in side.connection.events():
            side.events.append(event)
            if self._decide is not None and side.connection.state in HOLDING:
                self._decide(side)
        return len(side.events) > before


def _accept(side: Side) -> None:
    side.connection.accept()
