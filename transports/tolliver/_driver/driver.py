"""Driver: runs a machine of either protocol and its actions.

The driver never waits. An adapter implements `LoopAdapter` and calls `run_actions()` after each input; the driver then
takes actions from the machine until there are none. A call that waits for an answer is a `PendingCall`, kept here until
an action settles it. A subclass for each protocol handles the actions that do not concern connections.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Protocol

from tolliver_proto import Abort, Dial, PauseReading, PeerIdentity, ResumeReading, Role, ShutdownWrite, Transmit
from tolliver_proto._common.compiling import mypyc_attr

from .adapter import LoopAdapter, Transport
from .pending import PendingCalls

Apply = Callable[[Any], None]


class Machine(Protocol):
    """Protocol state for many connections, without I/O: a Node, or a Hub of the Reactive Streams protocol."""

    def next_action(self) -> Any: ...

    def next_timeout(self) -> float | None: ...

    def handle_timeout(self, now: float | None = None) -> None: ...

    def new_cid(self, now: float | None = None, address: str = "") -> int | None: ...

    def shaking(self, cid: int, greeted: bool, now: float | None = None) -> None: ...

    def opened(self, cid: int, role: Role, identity: PeerIdentity, now: float | None = None) -> None: ...

    def receive_data(self, cid: int, data: bytes, now: float | None = None) -> None: ...

    def receive_eof(self, cid: int, now: float | None = None) -> None: ...

    def sent(self, cid: int, now: float | None = None) -> None: ...

    def lost(self, cid: int, error: Any, now: float | None = None) -> None: ...

    def close(self, now: float | None = None) -> None: ...

    def watch_certificate(
        self, seconds_left: float, what: str, now: float | None = None, *, has_uuid: bool = True
    ) -> None: ...

    @property
    def idle(self) -> bool: ...

    @property
    def timers(self) -> Any:
        """The machine's deadlines. No deadline is earlier than its `first`."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Driver:
    """Runs the machine of one endpoint: takes its actions and carries them out, and tells the adapter when its timer is
    due. A subclass handles the other actions of its protocol, through `register_handlers`.
    """

    def __init__(self, machine: Machine, world: LoopAdapter) -> None:
        self.machine = machine
        self.calls: PendingCalls = PendingCalls()
        self._world = world
        self._turning = False
        self._timers = machine.timers
        self._armed = inf  # the deadline that the adapter's timer waits for
        self._apply: dict[type, Apply] = {
            Transmit: self._on_wire(lambda wire, action: wire.transmit(action.units)),
            Dial: lambda action: world.dial(action.cid, action.remote),
            PauseReading: self._on_wire(lambda wire, _: wire.pause()),
            ResumeReading: self._on_wire(lambda wire, _: wire.resume()),
            ShutdownWrite: self._on_wire(lambda wire, _: wire.shutdown_write()),
            Abort: self._on_wire(lambda wire, _: wire.abort()),
        }

    @property
    def has_company(self) -> bool:
        """True if there is more than one connection."""
        return len(self._world.wires) > 1

    def register_handlers(self, apply: Mapping[type, Apply]) -> None:
        self._apply.update(apply)

    def give_up(self, waits_for_commit: bool = False) -> None:
        """Fail every pending call, because the endpoint is closed; `waits_for_commit`: but those that a running commit
        answers."""
        self.calls.give_up()

    def run_actions(self) -> None:
        """Carry out every action that the machine has now. A nested call returns at once: the outer one takes its
        actions."""
        if self._turning:
            return
        self._turning = True
        try:
            next_action, apply = self.machine.next_action, self._apply
            while (action := next_action()) is not None:
                apply[type(action)](action)
        finally:
            self._turning = False
        if self._timers.first < self._armed:
            due = self.machine.next_timeout()
            if due is not None and due < self._armed:
                self._armed = due
                self._world.rearm(due)

    def arm(self) -> float | None:
        """Seconds until `handle_timeout` is due, or None if nothing is. The adapter waits for this with its one
        timer.
        """
        due = self.machine.next_timeout()
        self._armed = inf if due is None else due
        return None if due is None else max(0.0, due - time.monotonic())

    def received(self, cid: int, plaintext: bytes) -> None:
        self.machine.receive_data(cid, plaintext, time.monotonic())

    def _on_wire(self, act: Callable[[Transport, Any], None]) -> Apply:
        def apply(action: Any) -> None:
            wire = self._world.wires.get(action.cid)
            if wire is not None:
                act(wire, action)

        return apply
