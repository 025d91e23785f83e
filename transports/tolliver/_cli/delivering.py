"""Delivery of messages to files, commands, sockets and functions.

A message is acknowledged once its destination has processed it: its line is on disk, the command has ended with status
0, the socket's program has answered `ok`, the function has returned. If a file cannot be written or no program listens
at a socket, messages wait, ultimately at their senders. A cancelled delivery continues until its message is done, or
until the time to stop has passed.
"""

from __future__ import annotations

import os
import signal
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, suppress
from functools import partial
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import anyio.to_thread
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.memory import MemoryObjectSendStream

from tolliver_proto import Delivery, NoticeKind, Revision
from tolliver_proto.errors import OutOfThreads

from .._driver import ends
from ..anyio import Instance
from ..anyio.threads import loop_caller
from . import words
from .appending import Files
from .destinations import Destination
from .listen import as_json
from .standard import in_thread

if TYPE_CHECKING:
    from .into_stage import FedStage

_FIRST, _LAST = 0.1, 5.0  # seconds until the next try to connect to a socket
_LONGEST_ANSWER = 4096


class Deliveries:
    """Delivery of an instance's messages to the configured destinations, which can be replaced. It stops in order when
    the task group is cancelled.
    """

    def __init__(self, instance: Instance, stop_timeout: float, revision: Revision, group: anyio.abc.TaskGroup) -> None:
        self._instance = instance
        self._revision = revision
        self._stop_timeout = stop_timeout
        self._group = group
        self._files = Files(group)
        self._at_work: dict[Destination, anyio.CancelScope] = {}
        self._opened: dict[Destination, FedStage] = {}
        self._turns: defaultdict[str, anyio.Lock] = defaultdict(anyio.Lock)  # by directory of a stage

    async def open(self, chosen: Collection[Destination]) -> None:
        """Open the stages that `change` will need, so that it cannot fail. Raises their errors."""
        for new in chosen:
            if new.stage is not None and not self._turn(new.stage).locked():
                self._opened[new] = await self._open_stage(new, new.stage)

    async def close_unused(self) -> None:
        """Close stages that were opened for a change that was not made."""
        for opened in self._opened.values():
            await anyio.to_thread.run_sync(opened.close)
        self._opened.clear()

    def change(self, chosen: Collection[Destination]) -> None:
        """Replace the destinations."""
        for gone in self._at_work.keys() - set(chosen):
            self._at_work.pop(gone).cancel()
        for new in dict.fromkeys(chosen):
            if new not in self._at_work:
                self._at_work[new] = scope = anyio.CancelScope()
                self._group.start_soon(self._deliver, new, scope, self._opened.pop(new, None))

    async def _deliver(self, destination: Destination, scope: anyio.CancelScope, opened: FedStage | None) -> None:
        with scope:
            if destination.file is not None:
                await self._files.deliver(self._instance, destination, destination.file)
            elif destination.stage is not None:
                await self._stage(destination, destination.stage, opened)
            else:
                await _call(self._instance, destination, self._stop_timeout)

    async def _stage(self, destination: Destination, directory: Path, opened: FedStage | None) -> None:
        from .into_stage import stage

        async with self._turn(directory):  # after the previous user of the stage has closed it
            fed = opened or await self._open_stage(destination, directory)
            await stage(self._instance, destination, fed)

    def _turn(self, directory: Path) -> anyio.Lock:
        return self._turns[os.path.realpath(directory)]

    async def _open_stage(self, destination: Destination, directory: Path) -> FedStage:
        from .into_stage import open_stage  # needs POSIX

        return await open_stage(directory, destination.max_staged, self._instance.instance_id, self._revision)


# One call for each message.


_Ready = Callable[[], Awaitable[object]]
"""Returns once a message can be taken."""
_Handle = Callable[[Delivery], Awaitable[object]]
"""Handles a message. Success is None or a true value, or an awaitable of one; failure is any other value or an
exception."""
_Back = Callable[[Delivery], Awaitable[object]]
"""Returns once nothing runs any more for a message that was not handled in time."""


class _Calls:
    """A handler of the instance that passes each message to its destination, with a time limit (T-45)."""

    def __init__(self, destination: Destination, ready: _Ready, handle: _Handle, back: _Back) -> None:
        self._destination = destination
        self._ready = ready
        self._handle = handle
        self._back = back
        self._in_hand = 0
        self._stopping = False
        self._ended = anyio.Event()

    async def handle(self, delivery: Delivery) -> object:
        await self._ready()  # holds the message meanwhile, so a long wait is reported as stuck (D-9)
        if self._stopping:
            await anyio.sleep_forever()  # until cancelled, by closing the registration
        self._in_hand += 1
        try:
            with anyio.move_on_after(self._destination.timeout):
                return await self._handle(delivery)
        except BaseException as error:
            if self._stopping or not ends.is_interrupt(error):
                raise
            # The function raised this itself, as signals do not reach it: an ordinary failure.
            raise RuntimeError(f"its own {type(error).__name__}") from error
        finally:
            self._in_hand -= 1
            if self._stopping and not self._in_hand:
                self._ended.set()
        words.say(f"{named(delivery)} was not handled in time, and is redelivered: it went {self._destination}")
        delivery.fail()
        await self._back(delivery)
        return None

    async def stop(self) -> None:
        """Start no more calls, and wait for those in progress."""
        self._stopping = True
        if self._in_hand:
            await self._ended.wait()


async def _call(instance: Instance, destination: Destination, stop_timeout: float) -> None:
    async with _way(instance, destination) as (ready, bring, back):
        calls = _Calls(destination, ready, bring, back)

        async def handle(delivery: Delivery) -> object:
            return await calls.handle(delivery)

        handle.__qualname__ = destination.named
        registration = instance.register_callback(
            destination.channel, destination.key, handle, concurrency=destination.concurrency
        )
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.move_on_after(stop_timeout, shield=True):
                await calls.stop()
            registration.close()


@asynccontextmanager
async def _way(instance: Instance, destination: Destination) -> AsyncIterator[tuple[_Ready, _Handle, _Back]]:
    if destination.command is not None:
        yield _at_once, partial(_run, destination.command), _is_back
    elif destination.socket is not None:
        async with anyio.create_task_group() as group:
            program = _Socket(str(destination), destination.socket)
            group.start_soon(program.keep)
            try:
                yield program.ready, program.ask, _is_back
            finally:
                program.end()
    else:
        assert destination.function is not None
        calls = _Function(instance, destination, destination.function)
        yield _at_once, calls.call, calls.back


async def _at_once() -> None: ...


async def _is_back(_delivery: Delivery) -> None: ...


def named(delivery: Delivery) -> str:
    return f"the message {words.name(delivery.channel)} {words.name(delivery.key)}"


async def _run(command: tuple[str, ...], delivery: Delivery) -> None:
    """Run the command in a process for this message. An exit status other than 0 fails the delivery."""
    try:
        status = await _status(command, delivery)
    except OSError as error:
        words.say(words.line(f"{command[0]} cannot run: {error.strerror}: {named(delivery)} is redelivered"))
        delivery.fail()
        return
    if status:
        words.say(f"{command[0]} ended with status {status}: {named(delivery)} is redelivered")
        delivery.fail()


async def _feed(process: anyio.abc.Process, body: bytes) -> None:
    """Give the process the body. It may end without reading that."""
    assert process.stdin is not None
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.send(body)
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.aclose()


async def _status(command: tuple[str, ...], delivery: Delivery) -> int:
    about = {
        "TOLLIVER_CHANNEL": delivery.channel.replace("\0", "\\x00"),  # which no variable can have
        "TOLLIVER_KEY": delivery.key.replace("\0", "\\x00"),
        "TOLLIVER_PEER": str(delivery.peer_id),
        "TOLLIVER_MESSAGE_ID": "" if delivery.message_id is None else str(delivery.message_id),
        "TOLLIVER_ATTEMPT": str(delivery.attempt),
    }
    env = {**os.environ, **about}
    # In a session of its own: Ctrl-C does not reach it, and its child processes can be ended, too.
    process = await anyio.open_process(command, stdout=None, stderr=None, env=env, start_new_session=True)
    try:
        async with anyio.create_task_group() as feeding:
            feeding.start_soon(_feed, process, delivery.body)
            status = await process.wait()
            feeding.cancel_scope.cancel()  # a child that it left may hold the pipe open, and read nothing
        return status
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await process.aclose()


class _Function:
    """Calls of a function: a coroutine function on the loop, any other in a thread.

    Nothing can end a thread, so a call that takes too long keeps its place of `concurrency` until it returns: each try
    of its message would cost another thread.
    """

    def __init__(self, instance: Instance, destination: Destination, function: Callable[..., Any]) -> None:
        self._instance = instance
        self._destination = destination
        self._function = function
        self._running: dict[int, anyio.Event] = {}  # by the delivery's id()

    async def call(self, delivery: Delivery) -> object:
        is_async = iscoroutinefunction(self._function)
        result = self._function(delivery) if is_async else await self._threaded(delivery)
        return await result if isinstance(result, Awaitable) else result

    async def _threaded(self, delivery: Delivery) -> object:
        in_loop = loop_caller()

        def run() -> object:
            try:
                return self._function(delivery)
            finally:
                in_loop(partial(self._returned, delivery))

        self._running[id(delivery)] = anyio.Event()
        try:
            return await in_thread(run)
        except OutOfThreads:
            self._returned(delivery)
            raise

    def _returned(self, delivery: Delivery) -> None:
        self._running.pop(id(delivery)).set()

    async def back(self, delivery: Delivery) -> None:
        over = self._running.get(id(delivery))
        if over is not None:
            places = f"{len(self._running)} of {self._destination.concurrency} places are taken by such calls"
            self._instance.notice(
                NoticeKind.HANDLER_STUCK,
                f"the call for {named(delivery)}, which went {self._destination}, goes on after its timeout: {places}. "
                "Let it wait with a timeout of its own",
            )
            await over.wait()


class _Socket:
    """Connection to a program that answers each line with a line, in order."""

    def __init__(self, shown: str, where: Path | tuple[str, int]) -> None:
        self._shown = shown
        self._where = where
        self._line: _Line | None = None
        self._connected = anyio.Event()
        self._own = anyio.CancelScope(shield=True)  # shielded: answers are read until all calls have ended

    async def ready(self) -> None:
        await self._connected.wait()

    async def ask(self, delivery: Delivery) -> None:
        await self.ready()
        assert self._line is not None
        answer = await self._line.ask(as_json([delivery]).encode("utf-8", "backslashreplace"))
        if answer is not None and answer != "ok":
            words.say(words.line(f"{named(delivery)} is redelivered: it went {self._shown}, the answer was {answer!r}"))
        if answer != "ok":
            delivery.fail()

    async def keep(self) -> None:
        """Keep a connection to the program, made again after each loss, until `end`."""
        with self._own:
            await self._keep()

    def end(self) -> None:
        self._own.cancel()

    async def _keep(self) -> None:
        pause, told = _FIRST, False
        while True:
            try:
                stream = await self._connect()
            except OSError as error:
                if not told:
                    said = error.strerror or "cannot be reached"
                    words.say(words.line(f"messages that go {self._shown} wait until somebody listens there: {said}"))
                told = True
                await anyio.sleep(pause)
                pause = min(2 * pause, _LAST)
                continue
            pause, told = _FIRST, False
            async with stream:
                self._line = _Line(stream)
                self._connected.set()
                try:
                    await self._line.listen()
                finally:
                    self._connected = anyio.Event()
                    self._line.end()
            words.say(f"the connection {self._shown} ended; it is made again")
            await anyio.sleep(_FIRST)

    async def _connect(self) -> anyio.abc.ByteStream:
        if isinstance(self._where, Path):
            return await anyio.connect_unix(self._where)
        return await anyio.connect_tcp(*self._where)


class _Line:
    """One connection of a _Socket: sends a line for each message, and assigns the program's answers to them in
    order."""

    def __init__(self, stream: anyio.abc.ByteStream) -> None:
        self._stream = stream
        self._sending = anyio.Lock()
        self._waiting: deque[MemoryObjectSendStream[str]] = deque()
        self._reading = anyio.CancelScope()

    async def ask(self, line: bytes) -> str | None:
        """Send `line`, which has a message; returns the program's answer, None if the connection ended first.
        Cancelling the wait ends the connection.
        """
        asked, answer = anyio.create_memory_object_stream[str](1)
        with asked, answer:
            try:
                async with self._sending:
                    self._waiting.append(asked)
                    await self._stream.send(line)
                return await answer.receive()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream):
                self.end()
                return None
            except BaseException:
                self.end()
                raise

    async def listen(self) -> None:
        """Read the program's answers, and pass each to the oldest call of `ask`, until the connection ends or an answer
        belongs to no message."""
        lines = BufferedByteReceiveStream(self._stream)
        with self._reading:
            while True:
                try:
                    line = await lines.receive_until(b"\n", _LONGEST_ANSWER)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream):
                    return
                except (anyio.IncompleteRead, anyio.DelimiterNotFound):
                    return
                if not self._waiting:  # an unexpected answer: later ones cannot be assigned either
                    return
                self._waiting.popleft().send_nowait(line.decode("utf-8", "backslashreplace").strip())

    def end(self) -> None:
        self._reading.cancel()
        while self._waiting:
            self._waiting.popleft().close()
