"""Endpoint life cycle (open, listen, dial, close), common to both protocols.

An instance of Tolliver and the streams of the other protocol differ in what their machine knows. They open, make
connections, turn, keep time and close in the same way. That code stands here and, for each loop, in the adapter's own
`Endpoint`, which brings the `LoopAdapter` that the driver needs.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from time import monotonic, time
from typing import Any, NamedTuple, NoReturn, Protocol

from tolliver_proto import LocalProtocolError, TolliverError
from tolliver_proto.errors import AlreadyClosed, ForkedProcess, NotOpenYet

from .._options.instance import TLS, Remote
from .._tls.policy import Pumps
from .driver import Driver, Machine
from .events import EventFeed

_NO_LOCK = nullcontext()
_this_process = os.getpid()  # known without a call of the system, as each message asks


def _note_process() -> None:
    global _this_process
    _this_process = os.getpid()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_process)


class Closable(Protocol):
    """Resource that the application may drop without a word."""

    def close(self) -> None: ...


class Closing(NamedTuple):
    """Call that is left for the owner's next turn, in the form of a resource."""

    close: Callable[[], None]


class Deadlines(Protocol):
    """Of an endpoint's limits, what its adapter has to know. In seconds."""

    @property
    def handshake_timeout(self) -> float: ...

    @property
    def close_timeout(self) -> float: ...


class EndpointOptions(Protocol):
    """Options of every endpoint."""

    @property
    def listen(self) -> tuple[str, int] | None: ...

    @property
    def tls(self) -> TLS | None: ...

    @property
    def limits(self) -> Deadlines: ...


class BaseEndpoint(ABC):
    """The connections of one program, without the waiting."""

    made_by: str
    """The call that users make one with."""

    options: EndpointOptions
    _machine: Machine
    _driver: Driver
    _pumps: Pumps

    def __init__(self, options: EndpointOptions) -> None:
        self.options = options
        self.addresses: list[tuple[str, int]] = []
        self.feed: EventFeed[Any] = EventFeed()
        self.wires: dict[int, Any] = {}  # a Transport of the adapter
        self.run_follows: bool = False  # a turn that comes without waiting sees the requests of now
        self._abandoned: deque[Closable] = deque()
        self._claimed = False  # from the beginning of the opening until all is closed
        self._opened = ExitStack()  # to be closed at the end, and where opening fails on the way
        self._open = False
        self._process = 0
        self._thread = 0

    # Provided by the adapter, beside `wires` (see LoopAdapter).

    @abstractmethod
    def wake(self) -> None: ...

    def rearm(self, _due: float) -> None:
        self.wake()

    @abstractmethod
    def dial(self, cid: int, remote: Remote) -> None: ...

    @abstractmethod
    def idle(self) -> None:
        """While closing: look whether the machine is `idle`."""

    @abstractmethod
    def call_soon(self, job: Callable[[], object]) -> None:
        """From any thread: have the loop call it. It raises nothing; where the loop has ended it is not called."""

    # Provided by the protocol.

    @abstractmethod
    def _prepare(self) -> None:
        """Reads files and makes the machine and its driver: off the loop. Raises CertificateError and others.

        Each thing that it opens goes into `_opened` at once.
        """

    @abstractmethod
    def describe(self, name: str) -> str:
        """A line for `repr` of the program's object, whose class has this name."""

    @abstractmethod
    def _start_work(self) -> None:
        """On the loop, when it listens and is open."""

    @abstractmethod
    def _end_work(self) -> None:
        """On the loop, when nothing is asked for any more: end what the application still has."""

    # The life of an endpoint.

    @property
    def lock(self) -> AbstractContextManager[object]:
        """The machine's, where several threads ask it; here one thread has it all."""
        return _NO_LOCK

    @property
    def port(self) -> int | None:
        """The port that it listens on, or None."""
        return self.addresses[0][1] if self.addresses else None

    def _claim(self) -> None:
        """Before anything is opened. Raises LocalProtocolError where it is open: that goes on."""
        if self._claimed:
            raise LocalProtocolError(
                "open_already", f"{self} is open already: make another one with {self.made_by}(options)"
            )
        self._claimed = True

    def _begin(self) -> None:
        """On the loop, when it listens."""
        self._thread = threading.get_ident()
        self._process = _this_process
        self._open = True
        self._start_work()
        self.run_actions()

    def _begin_close(self) -> None:
        """From here on, wait until the machine is idle, then `_finish`."""
        self._open = False
        self._machine.close(monotonic())
        self._end_work()
        self.run_actions()

    def _leave_nobody_waiting(self) -> None:
        """On the loop, when it is closed or has failed: calls are answered, and listeners come to their end."""
        self._driver.give_up()
        self.feed.close()

    def _finish(self) -> None:
        """The last step, off the loop, however far the opening came. The second time does nothing."""
        self._open = False
        self._opened.close()
        self._claimed = False

    def check_open(self) -> None:
        """Raises NotOpenYet, AlreadyClosed, and ForkedProcess in a forked child: each a ConnectionClosing."""
        if self._open and self._process == _this_process:
            return
        if self._open:
            raise ForkedProcess(
                f"{self} belongs to process {self._process}, and this is a fork of it: open another one here, in an "
                "event loop of its own, and an instance on a database of its own (T-79)"
            )
        if self._process:
            raise AlreadyClosed(f"{self} is closed, or being closed: make another one with {self.made_by}(options)")
        raise NotOpenYet(
            f"{self} is not open: make one with {self.made_by}(options), as the page of your adapter shows, and "
            "use it until it is closed"
        )

    def _reach(self, peers: int) -> str:
        """For `repr`: where it listens, and how many are connected."""
        where = "".join(f", listening on {host}:{port}" for host, port in self.addresses)
        return f"{where}, {peers} peer{'' if peers == 1 else 's'} up"

    def run_actions(self) -> None:
        if self._abandoned:
            self._close_abandoned()
        self._driver.run_actions()
        if not self._open:
            self.idle()

    def _close_abandoned(self) -> None:
        """Each makes a turn of its own: it finds none that is still to be closed, however many they are."""
        dropped = [self._abandoned.popleft() for _ in range(len(self._abandoned))]
        for one in dropped:
            one.close()

    def schedule_run(self) -> None:
        if not self.run_follows:
            self.wake()

    def run_at_end(self) -> None:
        """As `schedule_run`, of what more will follow in this turn of the loop."""
        self.schedule_run()

    def keep_time(self) -> None:
        """The adapter's timer has run down (see Driver.arm), or it was woken."""
        self._machine.handle_timeout(monotonic())
        self.run_actions()

    def abandon(self, dropped: Closable) -> None:
        """Close it soon. The garbage collector calls this, wherever and on whatever thread it runs."""
        self._abandoned.append(dropped)
        if threading.get_ident() == self._thread:
            self.wake()
        elif self._open and self._process == _this_process:  # a fork has the parent's loop, which is not its own
            self.call_soon(self.wake)  # else the next turn may be far away: what a connection receives makes none

    def refuse_copy(self) -> NoReturn:
        raise TypeError(
            f"{self} cannot be pickled or copied: it has threads and connections. Open one in each process, each with "
            "a certificate and a database of its own (D-16)"
        )

    def use_tls(self, pumps: Pumps) -> None:
        """From now on, instead of those that there are."""
        pumps.succeed(self._pumps)
        self._pumps = pumps
        self._watch_certificate()
        for wire in [*self.wires.values()]:
            if wire.is_revoked():
                wire.abort()

    def _watch_certificate(self) -> None:
        """Our own, which the machine knows by the time that it has left."""
        ends, tls = self._pumps.identity.not_after, self.options.tls
        if ends is not None and tls is not None:
            self._machine.watch_certificate(ends - time(), tls.name, monotonic())

    # Connections.

    def _accepted(self, host: str) -> int | None:
        """The cid of a connection that came in from there, or None where there are too many (D-7): close it."""
        cid = self._machine.new_cid(monotonic(), host)
        self.wake()  # its time for TLS runs
        return cid

    def _lost(self, cid: int, error: TolliverError | None) -> None:
        del self.wires[cid]
        self._machine.lost(cid, error, monotonic())
        self.run_actions()
