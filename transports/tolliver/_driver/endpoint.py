"""Endpoint life cycle (open, listen, dial, close), common to both protocols.

An instance of messaging and the streams of the other protocol have different machines, but open, connect, process
input, keep time and close in the same way. This module has the part that does not wait; each adapter's `Endpoint` has
the part that does, and implements the `LoopAdapter` that the driver needs.
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
from .._options.unix import is_unix
from .._tls.policy import Pumps
from .._tls.pump import AnyPump, PlainPump
from . import logs
from .driver import Driver, Machine
from .events import EventFeed
from .threads import check_interpreter

_CLOSE_MARGIN = 1.0  # seconds that a close waits for the machine beyond `Limits.close_timeout`
_NO_LOCK = nullcontext()
_this_process = os.getpid()  # cached: every send checks it, and getpid() is a system call


def _note_process() -> None:
    global _this_process
    _this_process = os.getpid()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_process)


class Closable(Protocol):
    """A resource that the application may drop without closing it."""

    def close(self) -> None: ...


class Closing(NamedTuple):
    """A function call that is run in the owner's next turn, in the form of a resource to be closed."""

    close: Callable[[], None]


class Deadlines(Protocol):
    """Limits of an endpoint that its adapter needs, in seconds."""

    @property
    def handshake_timeout(self) -> float: ...

    @property
    def close_timeout(self) -> float: ...


class EndpointOptions(Protocol):
    """Options common to the endpoints of both protocols."""

    @property
    def listen(self) -> tuple[str, int] | None: ...

    @property
    def tls(self) -> TLS | None: ...

    @property
    def limits(self) -> Deadlines: ...


class BaseEndpoint(ABC):
    """All that one opened instance, or one `Streams`, has on any kind of loop: the machine and its driver, connections,
    listeners, pending calls. Subclasses add the waiting.
    """

    made_by: str
    """Name of the public function that creates this endpoint, for error texts."""

    options: EndpointOptions
    _machine: Machine
    _driver: Driver
    _pumps: Pumps

    def __init__(self, options: EndpointOptions) -> None:
        self.options = options
        self.addresses: list[tuple[str, int]] = []
        self.feed: EventFeed[Any] = EventFeed()
        self.wires: dict[int, Any] = {}  # the adapter's Transport, by cid
        self.run_follows: bool = False  # a call of `run_actions` is certain to follow: schedule none
        self._abandoned: deque[Closable] = deque()
        self._claimed = False  # True from the start of opening until everything is closed
        self._opened = ExitStack()  # resources to close at the end, or when opening fails
        self._open = False
        self._process = 0
        self._thread = 0

    # Implemented by the adapter, which also fills `wires` (see LoopAdapter).

    @abstractmethod
    def wake(self) -> None: ...

    def rearm(self, _due: float) -> None:
        self.wake()

    @abstractmethod
    def dial(self, cid: int, remote: Remote) -> None: ...

    @abstractmethod
    def idle(self) -> None:
        """Called while closing: check whether the machine is `idle`, so that closing can finish."""

    @abstractmethod
    def call_soon(self, job: Callable[[], object]) -> None:
        """Have the loop call `job`. May be called from any thread. Never raises; after the loop has ended, `job` is
        dropped."""

    # Implemented by the protocol.

    @abstractmethod
    def _prepare(self) -> None:
        """Read the files and create the machine and its driver. Blocks: run off the loop.

        Enters each resource into `_opened` as soon as that is open. Raises CertificateError, and the errors of the
        protocol's own files.
        """

    @abstractmethod
    def describe(self, name: str) -> str:
        """Text for the `repr` of the public object; `name` is its class name."""

    @abstractmethod
    def _start_work(self) -> None:
        """Start the protocol's work. Called on the loop once the endpoint is open and listening."""

    @abstractmethod
    def _end_work(self) -> None:
        """End the application's handlers and iterators. Called on the loop when closing begins."""

    # Life cycle.

    @property
    def lock(self) -> AbstractContextManager[object]:
        """The machine's lock. Without threads, as here, it does nothing."""
        return _NO_LOCK

    @property
    def port(self) -> int | None:
        """TCP port that the endpoint listens on; None if it does not listen."""
        return self.addresses[0][1] if self.addresses else None

    def _claim(self) -> None:
        """Reserve the endpoint before opening. Raises LocalProtocolError if it is open already, and leaves it open; and
        OutOfThreads in an isolated subinterpreter."""
        check_interpreter()
        if self._claimed:
            raise LocalProtocolError(
                "open_already", f"{self} is open already: make another one with {self.made_by}(options)"
            )
        self._claimed = True

    def _begin(self) -> None:
        """Mark the endpoint as open and start its work. Called on the loop once it listens."""
        self._thread = threading.get_ident()
        self._process = _this_process
        self._open = True
        self._start_work()
        self.run_actions()

    def _begin_close(self) -> None:
        """Start closing the machine. The caller waits until the machine is idle, then calls `_finish`."""
        self._open = False
        self._machine.close(monotonic())
        self._end_work()
        self.run_actions()

    @property
    def _close_seconds(self) -> float:
        """Seconds that the machine has to become idle in a close."""
        return self.options.limits.close_timeout + _CLOSE_MARGIN

    def unwritten(self) -> str:
        """Text that says what of the database is not done, and what becomes of it; "" if all is done."""
        return ""

    def waits_for(self) -> str:
        """Text that names the cancelled calls that a close still waits for; "" if there are none."""
        return ""

    def _leave_nobody_waiting(self, waits_for_commit: bool = False) -> None:
        """Fail all pending calls and end all event listeners. Called on the loop after a close or a failure.

        With `waits_for_commit`, in a close, calls that the running commit answers wait on: `_finish` waits for it, and
        the driver then fails those that are left.
        """
        self._driver.give_up(waits_for_commit)
        self.feed.close()

    def _tell_what_is_cut(self) -> None:
        """Log what a close leaves undone as its time is over. Called on the loop."""
        if cut := self.unwritten():
            logs.store.warning(
                "closing %s takes long: %s. See what holds the database up for more than %g s: the disk, or another "
                "program's lock",
                self,
                cut,
                self._close_seconds,
            )

    def _finish(self) -> None:
        """Close all resources, as the last step, off the loop. Works after a failed opening too; a second call does
        nothing."""
        self._open = False
        self._opened.close()
        self._claimed = False

    @property
    def is_forked(self) -> bool:
        """True in a fork of the process that has opened it."""
        return self._process not in (0, _this_process)

    @property
    def is_open(self) -> bool:
        """True if calls can be made, in this process. May be asked on any thread."""
        return self._open and self._process == _this_process

    def check_open(self) -> None:
        """Raises a ConnectionClosing if the endpoint cannot be used: NotOpenYet, AlreadyClosed, or ForkedProcess in a
        forked child; and LocalProtocolError on another thread than the loop's."""
        if self._open and self._process == _this_process:
            if threading.get_ident() == self._thread:
                return
            raise LocalProtocolError(
                "foreign_thread",
                f"{self} belongs to the thread of its event loop, and this is another one: have the call made there "
                "(by asyncio's call_soon_threadsafe, anyio.from_thread.run or Twisted's callFromThread), or use "
                "tolliver.blocking, where any thread may make any call",
            )
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
        """Text for `repr`: listening addresses and the number of connected peers."""
        said = [host if is_unix(host) else f"{host}:{port}" for host, port in self.addresses]
        where = "".join(f", listening on {one}" for one in said)
        return f"{where}, {peers} peer{'' if peers == 1 else 's'} up"

    def run_actions(self) -> None:
        if self._abandoned:
            self._close_abandoned()
        self._driver.run_actions()
        if not self._open:
            self.idle()

    def _close_abandoned(self) -> None:
        """Close the resources that the application dropped.

        The queue is emptied first: each `close` runs the actions again, and must find no resource left to close, or the
        recursion would be as deep as the queue is long.
        """
        dropped = [self._abandoned.popleft() for _ in range(len(self._abandoned))]
        for one in dropped:
            one.close()

    def schedule_run(self) -> None:
        if not self.run_follows:
            self.wake()

    def run_at_end(self) -> None:
        """Like `schedule_run`, for a caller that expects more requests in this turn of the loop."""
        self.schedule_run()

    def keep_time(self) -> None:
        """Process due deadlines. Called when the adapter's timer expires (see Driver.arm) or is woken."""
        self._machine.handle_timeout(monotonic())
        self.run_actions()

    def abandon(self, dropped: Closable) -> None:
        """Close a dropped resource soon. Called by the garbage collector, on any thread and at any point of the
        code."""
        self._abandoned.append(dropped)
        if threading.get_ident() == self._thread:
            self.wake()
        elif self._open and self._process == _this_process:  # in a forked child the loop is the parent's
            self.call_soon(self.wake)  # without this the next run of actions may be far away

    def refuse_copy(self) -> NoReturn:
        raise TypeError(
            f"{self} cannot be pickled or copied: it has threads and connections. Open one in each process, each with "
            "a certificate and a database of its own (D-16)"
        )

    def use_tls(self, pumps: Pumps) -> None:
        """Use these TLS contexts for new connections, and abort connections whose peer is revoked by now."""
        pumps.succeed(self._pumps)
        self._pumps = pumps
        self._watch_certificate()
        for wire in [*self.wires.values()]:
            if wire.is_revoked():
                wire.abort()

    def _watch_certificate(self) -> None:
        """Tell the machine how many seconds our own certificate is still valid."""
        identity, tls = self._pumps.identity, self.options.tls
        if identity.not_after is not None and tls is not None:
            left = identity.not_after - time()
            self._machine.watch_certificate(left, tls.name, monotonic(), has_uuid=bool(identity.uuids))

    # Connections.

    def _accepted(self, host: str) -> int | None:
        """The cid for a connection accepted from `host`, or None if there are too many (D-7): the caller closes it
        then."""
        cid = self._machine.new_cid(monotonic(), host)
        self.wake()  # the deadline of its TLS handshake has started
        return cid

    def _server_pump(self) -> AnyPump:
        """TLS of a connection that was accepted; none at a Unix socket."""
        listen = self.options.listen
        return PlainPump() if listen is not None and is_unix(listen[0]) else self._pumps.server()

    def _lost(self, cid: int, error: TolliverError | None) -> None:
        del self.wires[cid]
        self._machine.lost(cid, error, monotonic())
        self.run_actions()
