"""Endpoint on Twisted: listens, dials, keeps time, closes in order.

Everything happens on the reactor's thread, except file access, which has threads of its own. Each connection has a
transport (`wire`), and one delayed call keeps time. The global reactor is imported only if no reactor was given.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from time import monotonic
from typing import Any, Self, TypeVar

from twisted.internet.defer import CancelledError, Deferred, DeferredList, fail, maybeDeferred, succeed
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from tolliver_proto import Role
from tolliver_proto.errors import OutOfThreads
from tolliver_proto.node import check_timeout

from .._driver.adapter import Job
from .._driver.endpoint import EndpointOptions
from .._driver.ends import is_interrupt
from .._driver.facade import BaseFacade
from .._driver.loop_endpoint import LoopEndpoint
from .._driver.pending import PendingCall
from .._driver.sockets import bound_to, close_all, open_listeners
from .._driver.threads import check_interpreter
from .._options.instance import Remote
from .._options.unix import is_unix
from .._tls.pump import AnyPump
from .dialing import LocalPort, connect, in_thread, listen
from .wire import Transport, Wakeup, Wires, follow, wait_for

E = TypeVar("E", bound="Endpoint")
T = TypeVar("T")


class Entered(BaseFacade[E]):
    """Base of `Instance` and `Streams`, whose endpoint is open: leaving `async with`, or `close`, closes it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    def close(self) -> Deferred[None]:
        """Close every connection in order, then the rest, within `Limits.close_timeout` plus one second.

        A second call waits for the same end, and one from a forked child does nothing. Stopping the reactor also
        closes, and waits for the end.
        """
        return self._core.close()


class Endpoint(LoopEndpoint):
    """Base of `InstanceCore` and `StreamsCore` on Twisted: owns the listening ports, the connections and the timer of
    the machine from `open` to `close`, on the reactor's thread.
    """

    def __init__(self, options: EndpointOptions, reactor: Any = None) -> None:
        super().__init__(options)
        self._reactor = _global_reactor() if reactor is None else reactor
        self._ports: list[Any] = []
        self._tasks: set[Deferred[None]] = set()
        self._sources: set[Deferred[None]] = set()  # each fires once its source has ended, or was cut off
        self._alarm: Any = None
        self._woken = False
        self._released = False
        self._idle = PendingCall[None]()
        self._trigger: Any = None
        self._closed: PendingCall[None] | None = None

    # Life cycle.

    def open(self) -> Deferred[None]:
        """Open the endpoint; fires when it is open.

        When cancelled, or when the reactor is stopped, what was opened is closed again before it fires.
        """
        self._trigger = self._reactor.addSystemEventTrigger("before", "shutdown", self._on_shutdown)
        self._opening = follow(PendingCall(), Deferred.fromCoroutine(self._set_up()))

        def unwanted(failure: Failure) -> Any:
            if not failure.check(CancelledError):
                return failure
            closed = follow(PendingCall(), self._close_when_open())
            return self.wait(closed).addBoth(lambda _: failure)

        return self.wait(self._opening).addErrback(unwanted)

    async def _set_up(self) -> None:
        try:
            check_interpreter()
            await self._off_loop(self._prepare)
            if self.options.listen is not None:
                await self._listen(*self.options.listen)
            self._begin()
        except BaseException:
            await self._release()
            raise

    def _close_when_open(self) -> Deferred[None]:
        return self.wait(self._opening).addCallbacks(lambda _: self.close(), lambda _: None)

    def close(self) -> Deferred[None]:
        """Close every connection in order, then the rest, within `Limits.close_timeout` plus one second.

        A second call waits for the same end, and one from a forked child does nothing. Stopping the reactor also
        closes, and waits for the end.
        """
        if self.is_forked:
            return succeed(None)
        if self._closed is None:
            self._closed = PendingCall()  # first, as callbacks of `_close` may call `close` again
            follow(self._closed, Deferred.fromCoroutine(self._close()))
        return self.wait(self._closed)

    async def _close(self) -> None:
        stopped = self._stop_listening()
        self._begin_close()
        try:
            await self.wait(self._idle, self._close_seconds)
        except TimeoutError:
            self._tell_what_is_cut()
        self._leave_nobody_waiting(waits_for_commit=True)
        await DeferredList([*self._sources])
        await stopped
        try:
            await self._release()
        finally:
            self._driver.give_up()

    def _on_shutdown(self) -> Deferred[None]:
        self._trigger = None  # the trigger has fired
        return self._close_when_open()

    async def _release(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        for wire in list(self.wires.values()):
            wire.abort()
        await self._stop_listening()
        await self.yield_to_loop()  # an abort completes in the reactor's next iteration
        self._released = True
        if self._alarm is not None and self._alarm.active():
            self._alarm.cancel()
        try:
            await self._finish_off_loop()
        finally:
            if self._trigger is not None:
                self._reactor.removeSystemEventTrigger(self._trigger)

    async def _finish_off_loop(self) -> None:
        """Call `_finish` once no job of this endpoint runs in a thread."""
        with suppress(OutOfThreads):
            await self._off_loop(self._finish)
        self._finish()  # no thread was available

    def _off_loop(self, job: Job) -> Deferred[Any]:
        return in_thread(self._reactor, job)

    def _ring(self) -> None:
        self._woken = False
        self.keep_time()
        if not self._woken:
            self._set_alarm(self._driver.arm())

    def _set_alarm(self, seconds: float | None) -> None:
        if self._alarm is not None and self._alarm.active():
            self._alarm.cancel()
        self._alarm = None if seconds is None else self._reactor.callLater(seconds, self._ring)

    def wait(self, call: PendingCall[T], timeout: float | None = None) -> Deferred[T]:
        """A Deferred that fires with the answer to a pending call. Fails with TimeoutError after `timeout` seconds
        (None: never); the operation itself goes on.
        """
        check_timeout(timeout)
        return wait_for(call, self._reactor, timeout)

    def answer(self, call: Callable[[], PendingCall[T]], timeout: float | None = None) -> Deferred[T]:
        """Make a call of the machine now. The Deferred fires with its answer, or fails with what `call` raised or was
        answered with; after `timeout` seconds with TimeoutError, while the operation itself goes on.
        """
        try:
            check_timeout(timeout)
            pending = call()
        except Exception:
            return fail()
        return wait_for(pending, self._reactor, timeout)

    # Called by the driver and the mailboxes (see LoopAdapter and AsyncCore).

    def wakeup(self) -> Wakeup:
        return Wakeup(self._reactor)

    def wake(self) -> None:
        if not self._woken and not self._released:
            self._woken = True
            self._set_alarm(0)

    def rearm(self, due: float) -> None:
        if not self._woken and not self._released:
            self._set_alarm(max(0.0, due - monotonic()))

    def _end_turn_soon(self) -> None:
        self._reactor.callLater(0, self._end_turn)

    def _end_turn(self) -> None:
        if not self._released:
            try:
                self.end_turn()
            except KeyboardInterrupt:  # raised here, the reactor would log it and continue
                self._reactor.callLater(0, self._reactor.stop)

    def idle(self) -> None:
        if self._machine.idle and not self._idle.done:
            self._idle.resolve(None)

    def call_soon(self, job: Callable[[], object]) -> None:
        self._reactor.callFromThread(job)

    def spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], object]:
        async def begin() -> None:
            await self.yield_to_loop()  # not inside the caller
            await work()

        task = Deferred.fromCoroutine(begin())
        self._tasks.add(task)

        def ended(result: object) -> object:
            self._tasks.discard(task)
            if isinstance(result, Failure) and result.check(KeyboardInterrupt):
                self._reactor.callLater(0, self._reactor.stop)
            return result

        task.addBoth(ended).addErrback(lambda failure: failure.trap(CancelledError, GeneratorExit))
        return lambda: self._reactor.callLater(0, task.cancel)  # later, as the task may cancel itself

    def spawn_source(
        self, work: Callable[[], Coroutine[Any, Any, None]], cut: Callable[[float], object]
    ) -> Callable[[bool], object]:
        seconds = self.options.limits.close_timeout
        over: Deferred[None] = Deferred()
        self._sources.add(over)

        async def run() -> None:
            try:
                await work()
            finally:
                self._reactor.callLater(0, let_go)

        def let_go() -> None:
            self._sources.discard(over)
            if not over.called:
                over.callback(None)

        def cut_off() -> None:
            if not over.called:
                cut(seconds)
                stop()
                let_go()

        def end(cancel: bool) -> None:
            if not alarms:
                alarms.append(self._reactor.callLater(seconds, cut_off))
                over.addCallback(lambda _: _call_off(alarms))
            if cancel:
                stops.append(stop())
            else:
                _call_off(stops)

        alarms: list[Any] = []
        stops: list[Any] = []
        stop = self.spawn(run)
        return end

    def is_outside(self, error: BaseException) -> bool:
        """True if the exception is not an error of the operation but ends the current coroutine: a cancellation, which
        Twisted raises as an Exception, like any failure.
        """
        return is_interrupt(error)

    def yield_to_loop(self) -> Deferred[None]:
        return deferLater(self._reactor, 0)

    def dial(self, cid: int, remote: Remote) -> None:
        wire = self._wire(cid, Role.CLIENT, self._pumps.client(remote))
        factory = Wires(lambda _: self.wires.get(cid))  # by cid: Twisted keeps the factory longer than the transport
        patience = self.options.limits.handshake_timeout
        wire.dialling = Deferred.fromCoroutine(connect(self._reactor, remote.host, remote.port, factory, patience))
        wire.dialling.addErrback(wire.unreached, remote)

    # Connections.

    async def _listen(self, host: str, port: int) -> None:
        if is_unix(host):
            listeners = open_listeners(host, port)
            self._opened.callback(close_all, listeners)
            self._ports = [LocalPort(self._reactor, one, Wires(self._take_in)) for one in listeners]
            self.addresses = [*map(bound_to, listeners)]
            return
        self._ports = await listen(self._reactor, host, port, Wires(self._take_in))
        self.addresses: list[tuple[str, int]] = [
            (where.host, where.port) for where in (port.getHost() for port in self._ports)
        ]

    def _take_in(self, address: Any) -> Any:
        cid = self._accepted(getattr(address, "host", ""))  # a Unix socket has none
        return None if cid is None else self._wire(cid, Role.SERVER, self._server_pump())

    def _stop_listening(self) -> Deferred[Any]:
        ports, self._ports = self._ports, []
        return DeferredList([maybeDeferred(port.stopListening) for port in ports])

    def _wire(self, cid: int, role: Role, pump: AnyPump) -> Transport:
        wire = self.wires[cid] = Transport(self._driver, cid, role, pump, self._lost, self._reactor)
        return wire


def _call_off(calls: list[Any]) -> None:
    """Cancel those of the reactor's delayed calls that are still to come."""
    for call in calls:
        if call.active():
            call.cancel()


def _global_reactor() -> Any:
    from twisted.internet import reactor  # imported late, as the import installs a reactor

    return reactor
