"""Test tools for the Reactive Streams protocol, in memory and repeatable.

`ConnectionPair` joins two connections by two pipes, which cut the bytes as a network may; a `WireMonitor` judges the
bytes, so that each test over a pair tests the rules on the wire too. `StreamNet` is a network of hubs with every fault,
driven by one random generator: one seed is one trace. `shrink` makes a failure short.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from random import Random
from typing import Any

from .._common.errors import TolliverError
from .._common.transport import Role
from .._testing.invariants import SimFailure
from .._testing.pair import Cut
from .._testing.shrink import Shrunk, shrink_seed
from .._testing.virtual_clock import Report
from .._wire.events import Closed
from ._connection import Connection
from ._layout import DRAFT, Layout
from ._testing.monitor import RuleBroken, WireMonitor
from ._testing.streamnet import Simulation
from ._testing.world import Weather


class Side:
    """One end of a pair: its connection, the events that it handed out, the bytes on their way to the other end."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.events: list[Any] = []
        self.pipe: bytearray = bytearray()
        self.received = 0
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
    """A client and a server, by default plain ones, under a monitor.

    `react(side, event)` is the application of both sides: it is called for each event and may call the side's
    connection. `checked` has the roles that the monitor judges: leave out a role that breaks rules on purpose.
    """

    def __init__(
        self,
        client: Connection | None = None,
        server: Connection | None = None,
        *,
        cut: Cut = "whole",
        react: Callable[[Side, Any], None] | None = None,
        layout: Layout = DRAFT,
        checked: Collection[Role] = tuple(Role),
    ) -> None:
        self.client: Side = Side(client or Connection(Role.CLIENT))
        self.server: Side = Side(server or Connection(Role.SERVER))
        self.monitor: WireMonitor = WireMonitor(layout, checked)
        self._cut = cut
        self._react = react

    def run(self, max_rounds: int = 10_000) -> ConnectionPair:
        """Moves bytes until none are left; returns itself. Raises RuntimeError if that takes more than `max_rounds`
        rounds, RuleBroken from the monitor.
        """
        for _ in range(max_rounds):
            moved = [self.deliver(side) for side in (self.client, self.server)]
            if not any(moved):
                return self
        raise RuntimeError(f"bytes still move after {max_rounds} rounds: are the two answering each other for ever?")

    def other(self, side: Side) -> Side:
        return self.server if side is self.client else self.client

    def flush(self, side: Side) -> None:
        """Puts the bytes that the side has to send into its pipe."""
        for unit in side.connection.data_to_send():
            self.monitor.emitted(side.connection.role, unit)
            side.pipe += unit

    def deliver(self, side: Side, size: int | None = None) -> bool:
        """Delivers the next `size` bytes of this side (by default all) to the other. Returns True if bytes moved or
        events came."""
        target = self.other(side)
        before = len(side.events), len(target.events)
        self.take(side)
        self.flush(target)
        data = bytes(side.pipe[:size])
        del side.pipe[:size]
        at = 0
        while at < len(data):
            piece = data[at : at + self._piece(len(data) - at)]
            at += len(piece)
            target.connection.receive_data(piece)
            target.received += len(piece)
            self.take(target)
        if side.connection.wants_write_shutdown and not side.pipe and not side.shut:
            side.shut = True
            target.connection.receive_eof()
        self.take(target)
        return bool(data) or before != (len(side.events), len(target.events))

    def take(self, side: Side) -> None:
        """Takes the events of a side, and sends the frames that each of them leads to."""
        connection = side.connection
        for event in connection.events():
            self.monitor.processed(connection.role, side.received - connection.buffered_bytes)
            side.events.append(event)
            if self._react is not None:
                self._react(side, event)
            self.flush(side)
        self.monitor.processed(connection.role, side.received - connection.buffered_bytes)
        self.flush(side)

    def _piece(self, most: int) -> int:
        if not isinstance(self._cut, str):
            return self._cut.randint(1, most)
        return most if self._cut == "whole" else 1


class StreamNet(Simulation):
    """`StreamNet(seed).run()`: a whole life of two to five hubs. Raises SimFailure for a broken promise.

    One seed is one trace. Further arguments are those of `Simulation`: the faults last for `seconds`, in which the
    applications do `operations` operations; `nodes` is the number of hubs; `trace=True` keeps all lines.
    """

    def __init__(self, seed: int, **scenario: Any) -> None:
        super().__init__(seed, Random(seed), **scenario)


FAULTS = sorted(name.removeprefix("_op_") for name in dir(Simulation) if name.startswith("_op_"))
FAULTS += [name for name in Weather.__slots__ if not name.endswith(("_patience", "_for"))]
"""Names that `never` may have."""


def shrink(seed: int, lives: int = 400) -> Shrunk | None:
    """Returns a short life that fails as `StreamNet(seed)` does, or None if that does not fail. The search runs at
    most `lives` simulations."""
    return shrink_seed(StreamNet, seed, 20.0, lives, FAULTS)


__all__ = [
    "ConnectionPair",
    "Report",
    "RuleBroken",
    "Shrunk",
    "Side",
    "SimFailure",
    "StreamNet",
    "Weather",
    "WireMonitor",
    "shrink",
]
