"""Endpoint on threads: listens, dials, keeps time, closes in order.

One thread at a time serves all sockets (`loop`), and one lock guards the machine. A thread holds the lock while it
calls the machine, and releases it before waiting. A protocol may add workers, such as one for a database: each has a
thread that starts and ends with the endpoint.
"""

from __future__ import annotations

import logging
import socket
import threading
from _thread import LockType
from abc import abstractmethod
from collections.abc import Callable
from contextlib import closing
from time import monotonic
from typing import Protocol, Self, TypeVar

from tolliver_proto import ConnectionClosing, Role, TolliverError
from tolliver_proto.node import check_timeout

from .._driver.endpoint import BaseEndpoint, Closable, EndpointOptions
from .._driver.facade import BaseFacade
from .._driver.pending import PendingCall
from .._driver.sockets import host_of
from .._driver.threads import start
from .._options.instance import Remote
from .._tls.pump import AnyPump
from .dialing import Listeners
from .interrupts import StepLock, stop_if_interrupted, undisturbed, unwrap, wait, wrap
from .loop import Loop
from .process import running, thread_of
from .waits import locked, release
from .wire import BorrowerWakeup, Transport, Wakeup

log: logging.Logger = logging.getLogger("tolliver")
E = TypeVar("E", bound="Endpoint")
T = TypeVar("T")


class Worker(Protocol):
    """Work in a thread of its own, for as long as the endpoint is open. An exception from `run` fails the endpoint."""

    def run(self) -> None: ...

    def stop(self) -> None:
        """Make `run` return soon, or at once if it has not begun. May be called from any thread. Closing waits for the
        return."""


class Entered(BaseFacade[E]):
    """Base of `Instance` and `Streams`: `with` opens and closes their endpoint, `close` closes it."""

    def __enter__(self) -> Self:
        self._core.open()
        return self

    def __exit__(self, *_error: object) -> None:
        self._core.close()

    def close(self) -> None:
        """Close every connection in order, then the rest, as leaving the `with` block does.

        Takes at most `Limits.close_timeout` plus one second, and does not wait for running handlers. A second call, or
        one from a forked child, does nothing.
        """
        self._core.close()


class Endpoint(BaseEndpoint):
    """Base of `InstanceCore` and `StreamsCore` with threads: owns the machine's lock, the listening sockets, the
    connections, and the threads that serve them, from `open` to `close`. Every call may come from any thread.
    """

    wires: dict[int, Transport]

    def __init__(self, options: EndpointOptions) -> None:
        super().__init__(options)
        self._lock = StepLock(self._broken)
        self._closing = threading.Lock()
        self._workers: dict[str, Worker] = {}
        self._threads: list[threading.Thread] = []
        self._to_wake: list[LockType] | None = None  # waiters to release after `tell`'s lock
        self._is_forked = False
        self._is_direct = False  # True while the current run of actions may write to sockets

    # Implemented by the protocol, in addition to a BaseEndpoint's.

    @abstractmethod
    def _more_workers(self) -> dict[str, Worker]:
        """Further workers, by thread name. Called after `_prepare`."""

    # Life cycle.

    @property
    def lock(self) -> StepLock:
        """The machine's lock. A thread holds it during calls of the machine, never while it waits."""
        if self._is_forked:
            self.check_open()
        return self._lock

    def check_open(self) -> None:
        if self._is_forked or not self._open:  # flags: the check by process id is slower
            super().check_open()

    def open(self) -> None:
        wrap(self._lock)
        is_claimed = False
        try:
            with undisturbed:
                with self._lock:
                    self._claim()
                    is_claimed = True
                self._open_all()
        except BaseException:  # includes KeyboardInterrupt
            if is_claimed:
                self._stop()
            raise

    def _open_all(self) -> None:
        self._prepare()
        self._listeners = self._opened.enter_context(closing(Listeners(self.options.listen)))
        self.addresses: list[tuple[str, int]] = self._listeners.addresses
        self._loop = self._opened.enter_context(closing(Loop(self._tick)))
        self._idle = locked()
        self._workers = {"sockets": self._loop, **self._more_workers()}
        self._threads = [thread_of(name, worker.run, self._fail) for name, worker in self._workers.items()]
        running.add(self)
        self._start()

    def _start(self) -> None:
        self._listeners.serve(self._loop, self._take_in)
        with self._lock:
            self._begin()
        for thread in self._threads:
            start(thread)

    def close(self) -> None:
        """Close every connection in order, then the rest, as leaving the `with` block does.

        Takes at most `Limits.close_timeout` plus one second, and does not wait for running handlers. A second call, or
        one from a forked child, does nothing.
        """
        if self not in running:
            return
        with undisturbed, self._closing:
            if self not in running:  # another thread has closed it
                return
            try:
                with self._lock:
                    if self._open:
                        self._begin_close()
                self._loop.soon(lambda: self._listeners.close(self._loop.close_socket))
                self._loop.attend()
                until = monotonic() + self._close_seconds
                if not wait(self._idle, self._close_seconds) and monotonic() >= until:  # else interrupted
                    with self._lock:
                        self._tell_what_is_cut()
            finally:
                with self._lock:
                    self._leave_nobody_waiting(waits_for_commit=True)
                self._stop()
                with self._lock:
                    self._driver.give_up()

    def _stop(self) -> None:
        """Stop all threads and close all sockets, also after a failed opening."""
        with undisturbed:
            with self._lock:
                self._open = False
            for worker in self._workers.values():
                worker.stop()
            for thread in self._threads:
                if thread.is_alive():
                    thread.join()
            for wire in list(self.wires.values()):
                wire.end(ConnectionClosing("the instance was closed"))
            self._finish()
            running.discard(self)
            unwrap(self._lock)

    def disown(self) -> None:
        self._is_forked = True
        for wire in self.wires.values():
            wire.disown()
        self._loop.close()

    def _fail(self) -> None:
        """Fail all pending calls, because one of the endpoint's threads has failed."""
        with self._lock:
            self._open = False
            self._leave_nobody_waiting()
            release(self._idle)
            self._end_work()

    def _broken(self, error: BaseException) -> None:
        """Close the endpoint after a signal handler raised `error` inside a step, which left the machine's state half
        changed."""
        if self not in running:
            return
        log.critical(
            "%s is closed: a signal handler has raised %s in the middle of one of its steps. All that is stored goes "
            "out when it is opened again. Let the handler note the signal, and raise nothing",
            self,
            type(error).__name__,
            exc_info=error,
        )
        with undisturbed:
            self._fail()
            if self._closing.acquire(blocking=False):  # False while another thread closes it
                try:
                    self._stop()
                finally:
                    self._closing.release()

    def _tick(self) -> float | None:
        with self._lock:
            self.keep_time()
            return self._driver.arm()

    def ask(self, call: Callable[[], PendingCall[T]], timeout: float | None) -> T:
        """Make a call of the machine under the lock, and wait for its answer without the lock.

        Raises TimeoutError after `timeout` seconds (None: never), with the call's own text; the operation goes on.
        """
        if timeout is not None:
            check_timeout(timeout)
        answered = locked()

        def wake() -> None:
            if self._to_wake is None:
                release(answered)
            else:
                self._to_wake.append(answered)

        with undisturbed:
            with self.lock:
                pending = call()
                pending.when_done(wake)
            is_answered = False
            try:
                if not pending.done:
                    self._loop.attend()
                is_answered = wait(answered, timeout)
            finally:
                if not is_answered:
                    with self._lock:
                        pending.forget(wake)
            stop_if_interrupted()
            if not is_answered:
                with self._lock:
                    raise pending.too_late(timeout or 0.0)
            return pending.result()

    def tell(self, done: Callable[[], object]) -> None:
        """Run `done` under the lock, and the machine's actions after it.

        Threads that it wakes are woken once the lock is free, as they need it next.
        """
        woken: list[LockType] = []
        try:
            with self._lock:
                self._to_wake = woken
                try:
                    done()
                    self.run_actions()
                finally:
                    self._to_wake = None
        finally:
            for answered in woken:
                release(answered)

    # Called by the driver and the mailboxes, under the lock (see LoopAdapter and ThreadCore).

    def wakeup(self) -> Wakeup:
        return Wakeup(self._lock)

    def borrower_wakeup(self) -> BorrowerWakeup:
        self.check_open()
        return BorrowerWakeup(self._lock, self._loop)

    def schedule_run(self) -> None:
        if self._is_direct or not self._loop.claim():
            self._loop.wake()
            return
        self._is_direct = True
        try:
            self.run_actions()
        finally:
            self._is_direct = False

    def may_write(self) -> bool:
        """True if the current thread may write to sockets at once."""
        return self._is_direct or self._loop.claim()

    def wake(self) -> None:
        self._loop.wake()

    def call_soon(self, job: Callable[[], object]) -> None:
        self._loop.soon(job)

    def idle(self) -> None:
        if self._machine.idle:
            release(self._idle)

    def abandon(self, dropped: Closable) -> None:
        """Close a dropped resource soon. Takes no lock: the garbage collector may call this in a thread that holds any
        lock."""
        self._abandoned.append(dropped)
        self._loop.wake()

    def dial(self, cid: int, remote: Remote) -> None:
        wire = self._wire(cid, Role.CLIENT, self._pumps.client(remote))
        self._loop.soon(lambda: wire.dial(remote))

    # Connections.

    def _wire(self, cid: int, role: Role, pump: AnyPump) -> Transport:
        made = self.wires[cid] = Transport(self, self._driver, cid, role, pump, self._loop, self._lock)
        return made

    def ended(self, cid: int, error: TolliverError | None) -> None:
        with self._lock:
            self._lost(cid, error)

    def _take_in(self, sock: socket.socket) -> None:
        pump = self._server_pump()
        with self._lock:
            cid = self._accepted(host_of(sock))
            wire = None if cid is None else self._wire(cid, Role.SERVER, pump)
        if wire is None:
            sock.close()
        else:
            wire.begin(sock)
