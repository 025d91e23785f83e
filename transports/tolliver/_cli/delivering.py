"""Delivery of messages to files, commands, sockets and functions.

A message is acknowledged once its destination has it: its line is on the disk, the command has ended with status 0, the
socket has answered `ok`, the function has returned. Where a file cannot be written or nobody listens at a socket,
messages wait, at their senders in the end. A delivery that was cancelled goes on until its message is done, or
until the time to stop is over.
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

from tolliver_proto import Delivery, Revision

from .._driver import ends
from ..anyio import Instance
from . import words
from .appending import Files
from .destinations import Destination
from .listen import as_json
from .standard import in_thread

if TYPE_CHECKING:
    from .into_stage import FedStage

_FIRST, _LAST = 0.1, 5.0  # seconds between two tries to connect to a socket
_LONGEST_ANSWER = 4096


class Deliveries:
    """Destinations at work, which may change. They stop in order when the group is cancelled."""

    def __init__(self, instance: Instance, stop_timeout: float, revision: Revision, group: anyio.abc.TaskGroup) -> None:
        self._instance = instance
        self._revision = revision
        self._stop_timeout = stop_timeout
        self._group = group
        self._files = Files(group)
        self._at_work: dict[Destination, anyio.CancelScope] = {}
        self._opened: dict[Destination, FedStage] = {}
        self._turns: defaultdict[str, anyio.Lock] = defaultdict(anyio.Lock)  # by the directory of a stage

    async def open(self, chosen: Collection[Destination]) -> None:
        """Stages that `change` to these will need, so that it does not fail. Raises what a stage fails with."""
        for new in chosen:
            if new.stage is not None and not self._turn(new.stage).locked():
                self._opened[new] = await self._open_stage(new, new.stage)

    async def close_unused(self) -> None:
        """Nothing comes of it."""
        for opened in self._opened.values():
            await anyio.to_thread.run_sync(opened.close)
        self._opened.clear()

    def change(self, chosen: Collection[Destination]) -> None:
        """To these from now on."""
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

        async with self._turn(directory):  # the one that had the stage before has let it go
            fed = opened or await self._open_stage(destination, directory)
            await stage(self._instance, destination, fed)

    def _turn(self, directory: Path) -> anyio.Lock:
        return self._turns[os.path.realpath(directory)]

    async def _open_stage(self, destination: Destination, directory: Path) -> FedStage:
        from .into_stage import open_stage  # which needs POSIX

        return await open_stage(directory, destination.max_staged, self._instance.instance_id, self._revision)


# Calls, one for each message.


_Ready = Callable[[], Awaitable[object]]
"""Returns once a message can be taken."""
_Handle = Callable[[Delivery], Awaitable[object]]
"""Comes to None or something true if the message was handled, to something awaitable that comes to that, or fails."""


class _Calls:
    """A handler of the instance, which brings each message to its destination in time (T-45)."""

    def __init__(self, destination: Destination, ready: _Ready, handle: _Handle) -> None:
        self._destination = destination
        self._ready = ready
        self._handle = handle
        self._in_hand = 0
        self._stopping = False
        self._ended = anyio.Event()

    async def handle(self, delivery: Delivery) -> object:
        await self._ready()  # it has the message meanwhile: if that lasts, it is stuck, and others go on (D-9)
        if self._stopping:
            await anyio.sleep_forever()  # until the registration is closed
        self._in_hand += 1
        try:
            with anyio.move_on_after(self._destination.timeout):
                return await self._handle(delivery)
        except BaseException as error:
            if self._stopping or not ends.is_interrupt(error):
                raise
            # Signals do not reach a function of the service: it has raised that by itself, and the service goes on.
            raise RuntimeError(f"its own {type(error).__name__}") from error
        finally:
            self._in_hand -= 1
            if self._stopping and not self._in_hand:
                self._ended.set()
        words.say(f"{named(delivery)} was not handled in time, and is redelivered: it went {self._destination}")
        delivery.fail()
        return None

    async def stop(self) -> None:
        """Begin no more, and wait until those that were begun have ended."""
        self._stopping = True
        if self._in_hand:
            await self._ended.wait()


async def _call(instance: Instance, destination: Destination, stop_timeout: float) -> None:
    async with _way(destination) as (ready, bring):
        calls = _Calls(destination, ready, bring)

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
async def _way(destination: Destination) -> AsyncIterator[tuple[_Ready, _Handle]]:
    if destination.command is not None:
        yield _at_once, partial(_run, destination.command)
    elif destination.socket is not None:
        async with anyio.create_task_group() as group:
            program = _Socket(str(destination), destination.socket)
            group.start_soon(program.keep)
            try:
                yield program.ready, program.ask
            finally:
                program.end()
    else:
        assert destination.function is not None
        yield _at_once, partial(_function, destination.function)


async def _at_once() -> None: ...


def named(delivery: Delivery) -> str:
    return f"the message {words.name(delivery.channel)} {words.name(delivery.key)}"


async def _run(command: tuple[str, ...], delivery: Delivery) -> None:
    """A process for each message, which is handled where that ends with status 0."""
    try:
        status = await _status(command, delivery)
    except OSError as error:
        words.say(words.line(f"{command[0]} cannot run: {error.strerror}: {named(delivery)} is redelivered"))
        delivery.fail()
        return
    if status:
        words.say(f"{command[0]} ended with status {status}: {named(delivery)} is redelivered")
        delivery.fail()


async def _status(command: tuple[str, ...], delivery: Delivery) -> int:
    about = {
        "TOLLIVER_CHANNEL": delivery.channel,
        "TOLLIVER_KEY": delivery.key,
        "TOLLIVER_PEER": str(delivery.peer_id),
        "TOLLIVER_MESSAGE_ID": "" if delivery.message_id is None else str(delivery.message_id),
        "TOLLIVER_ATTEMPT": str(delivery.attempt),
    }
    env = {**os.environ, **about}
    # In a session of its own, so that Ctrl-C does not reach it, and that all that it started can be ended.
    process = await anyio.open_process(command, stdout=None, stderr=None, env=env, start_new_session=True)
    try:
        assert process.stdin is not None
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # it need not read the body
            await process.stdin.send(delivery.body)
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await process.stdin.aclose()
        return await process.wait()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await process.aclose()


async def _function(function: Callable[..., Any], delivery: Delivery) -> object:
    """A coroutine function is awaited, any other has a thread of its own."""
    is_async = iscoroutinefunction(function)
    result = function(delivery) if is_async else await in_thread(partial(function, delivery))
    return await result if isinstance(result, Awaitable) else result


class _Socket:
    """A connection to a program that answers each line with a line, in their order."""

    def __init__(self, shown: str, where: Path | tuple[str, int]) -> None:
        self._shown = shown
        self._where = where
        self._line: _Line | None = None
        self._connected = anyio.Event()
        self._own = anyio.CancelScope(shield=True)  # answers are read until all work has ended

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
        """Connect, and connect again, until `end`."""
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
    """Questions that are not answered yet."""

    def __init__(self, stream: anyio.abc.ByteStream) -> None:
        self._stream = stream
        self._sending = anyio.Lock()
        self._waiting: deque[MemoryObjectSendStream[str]] = deque()
        self._reading = anyio.CancelScope()

    async def ask(self, line: bytes) -> str | None:
        """The answer; None where the connection ended first. One that is not waited for ends the connection."""
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
        """Until it ends."""
        lines = BufferedByteReceiveStream(self._stream)
        with self._reading:
            while True:
                try:
                    line = await lines.receive_until(b"\n", _LONGEST_ANSWER)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream):
                    return
                except (anyio.IncompleteRead, anyio.DelimiterNotFound):
                    return
                if not self._waiting:  # an answer to nothing: whose are the others?
                    return
                self._waiting.popleft().send_nowait(line.decode("utf-8", "backslashreplace").strip())

    def end(self) -> None:
        self._reading.cancel()
        while self._waiting:
            self._waiting.popleft().close()
