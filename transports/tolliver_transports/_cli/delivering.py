"""Delivery of messages to files, commands, sockets and functions.

A message is acknowledged once its destination has it: its line is on the disk, the command has ended with status 0, the
socket has answered `ok`, the function has returned. Where a file cannot be written or nobody listens at a socket,
messages wait, at their senders in the end. A delivery that was cancelled goes on until its message is done, or
until the time to stop is over.
"""

from __future__ import annotations

import logging
import os
import signal
import stat
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from functools import partial
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, Protocol

import anyio
import anyio.abc
import anyio.lowlevel
import anyio.to_thread
from anyio.streams.buffered import BufferedByteReceiveStream

from tolliver_proto import Delivery, Revision

from .._driver import ends
from .._driver.threads import start
from .._private import open_private
from ..anyio import Instance
from ..anyio.threads import loop_caller
from . import words
from .destinations import Destination
from .listen import as_json

_RETRY = 1.0  # seconds between two tries to write a file
_FIRST, _LAST = 0.1, 5.0  # seconds between two tries to connect to a socket
_LONGEST_ANSWER = 4096
_log = logging.getLogger("tolliver.run")


class _Way(Protocol):
    """One way to have a message handled."""

    async def ready(self) -> None:
        """Until it can take a message."""

    async def __call__(self, delivery: Delivery) -> bool:
        """True if the message was handled. Raises what a function raises."""


class Deliveries:
    """Destinations at work, which may change. They stop in order when the group is cancelled."""

    def __init__(self, instance: Instance, stop_timeout: float, revision: Revision, group: anyio.abc.TaskGroup) -> None:
        self._instance = instance
        self._revision = revision
        self._stop_timeout = stop_timeout
        self._group = group
        self._at_work: dict[Destination, anyio.CancelScope] = {}

    def change(self, chosen: Collection[Destination]) -> None:
        """To these from now on."""
        for gone in self._at_work.keys() - set(chosen):
            self._at_work.pop(gone).cancel()
        for new in dict.fromkeys(chosen):
            if new not in self._at_work:
                self._at_work[new] = scope = anyio.CancelScope()
                self._group.start_soon(self._deliver, new, scope)

    async def _deliver(self, destination: Destination, scope: anyio.CancelScope) -> None:
        with scope:
            if destination.file is not None:
                await _append(self._instance, destination, destination.file)
            elif destination.stage is not None:
                from .into_stage import stage  # which needs POSIX

                await stage(self._instance, destination, destination.stage, self._revision)
            else:
                await _one_by_one(self._instance, destination, self._stop_timeout)


# Files.


async def _append(instance: Instance, destination: Destination, file: Path) -> None:
    async with instance.message_runs(destination.channel, destination.key, subscribe=False) as runs:
        async for run in runs:
            taken = list(run)
            await _written(file, as_json(taken).encode("utf-8", "backslashreplace"))
            run.settle(taken, True)


async def _written(file: Path, lines: bytes) -> None:
    told = False
    while True:
        try:
            await anyio.to_thread.run_sync(_append_to, file, lines)
        except OSError as error:
            if not told:
                words.say(words.line(f"{file} cannot be written, its messages wait: {error.strerror}"))
            told = True
            await anyio.sleep(_RETRY)
        else:
            if told:
                words.say(f"{file} is written again")
            return


def _append_to(file: Path, lines: bytes) -> None:
    """The file is opened each time, so that it may be moved away meanwhile. All of the lines, or none.

    A line that a loss of power has torn ends where it is torn: its message was not acknowledged.
    """
    fd = open_private(file, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    try:
        found = os.fstat(fd)
        on_disk, end = stat.S_ISREG(found.st_mode), found.st_size  # else it is a pipe, or a terminal
        torn = on_disk and end > 0 and os.pread(fd, 1, end - 1) != b"\n"
        try:
            left = memoryview(b"\n" + lines if torn else lines)
            while left:
                left = left[os.write(fd, left) :]
            if on_disk:
                os.fsync(fd)
        except OSError:
            if on_disk:
                os.ftruncate(fd, end)
            raise
    finally:
        os.close(fd)
    if on_disk and not end:
        _sync_names_of(file.parent)


def _sync_names_of(directory: Path) -> None:
    """A new file has its name on the disk, too."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


# One by one.


async def _one_by_one(instance: Instance, destination: Destination, stop_timeout: float) -> None:
    async with instance.messages(destination.channel, destination.key, subscribe=False) as messages:
        begun: set[anyio.CancelScope] = set()
        async with _way(destination) as way, anyio.create_task_group() as workers:
            for _ in range(destination.concurrency):
                workers.start_soon(_work, messages, destination, way, begun)
            try:
                await anyio.sleep_forever()
            finally:
                over = anyio.current_time() + stop_timeout
                for scope in begun:
                    scope.deadline = min(scope.deadline, over)


async def _work(messages: Any, destination: Destination, way: _Way, begun: set[anyio.CancelScope]) -> None:
    while True:
        await anyio.lowlevel.checkpoint()
        try:
            delivery = await anext(messages)
        except StopAsyncIteration:  # the instance is closed
            return
        await way.ready()  # it has the message meanwhile: if that lasts, it is stuck, and others go on (D-9)
        handled = False
        with anyio.move_on_after(destination.timeout, shield=True) as scope:
            begun.add(scope)
            try:
                handled = await way(delivery)
            except Exception as error:
                text = ends.told(error)
                _log.warning(
                    "%s failed: %s is redelivered: %s", destination.python, named(delivery), text, exc_info=True
                )
            finally:
                begun.discard(scope)
        if scope.cancelled_caught:
            words.say(f"{named(delivery)} was not handled in time, and comes again: it went {destination}")
        (delivery.ack if handled else delivery.fail)()


@asynccontextmanager
async def _way(destination: Destination) -> AsyncIterator[_Way]:
    if destination.command is not None:
        yield _Command(destination.command)
    elif destination.socket is not None:
        async with anyio.create_task_group() as group:
            way = _Socket(str(destination), destination.socket)
            group.start_soon(way.keep)
            try:
                yield way
            finally:
                way.end()
    else:
        assert destination.function is not None
        yield _Function(destination.function)


def named(delivery: Delivery) -> str:
    return f"the message {words.name(delivery.channel)} {words.name(delivery.key)}"


class _Command:
    """A process for each message."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self._command = command

    async def ready(self) -> None: ...

    async def __call__(self, delivery: Delivery) -> bool:
        """True if it ended with status 0."""
        try:
            status = await self._status(delivery)
        except OSError as error:
            words.say(words.line(f"{self._command[0]} cannot run: {error.strerror}: {named(delivery)} is redelivered"))
            return False
        if status:
            words.say(f"{self._command[0]} ended with status {status}: {named(delivery)} is redelivered")
        return status == 0

    async def _status(self, delivery: Delivery) -> int:
        about = {
            "TOLLIVER_CHANNEL": delivery.channel,
            "TOLLIVER_KEY": delivery.key,
            "TOLLIVER_PEER": str(delivery.peer_id),
            "TOLLIVER_MESSAGE_ID": "" if delivery.message_id is None else str(delivery.message_id),
            "TOLLIVER_ATTEMPT": str(delivery.attempt),
        }
        env = {**os.environ, **about}
        # In a session of its own, so that Ctrl-C does not reach it, and that all that it started can be ended.
        process = await anyio.open_process(self._command, stdout=None, stderr=None, env=env, start_new_session=True)
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


class _Function:
    """A function of a module: a coroutine function is awaited, any other has a thread of its own."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self._is_async = iscoroutinefunction(function)

    async def ready(self) -> None: ...

    async def __call__(self, delivery: Delivery) -> bool:
        function: Callable[..., Any] = self._function
        result = await function(delivery) if self._is_async else await _in_thread(partial(function, delivery))
        return result is None or bool(result)


async def _in_thread(call: Callable[[], object]) -> object:
    """Result or error of the call. A daemon runs it, so that one that never ends does not keep the process."""
    ended, outcome, in_loop = anyio.Event(), list[tuple[object, BaseException | None]](), loop_caller()

    def work() -> None:
        try:
            outcome.append((call(), None))
        except BaseException as error:
            outcome.append((None, error))
        in_loop(ended.set)

    start(threading.Thread(target=work, name="tolliver delivers", daemon=True))
    await ended.wait()
    ((result, error),) = outcome
    if error is not None:
        raise error
    return result


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

    async def __call__(self, delivery: Delivery) -> bool:
        await self.ready()
        assert self._line is not None
        answer = await self._line.ask(as_json([delivery]).encode("utf-8", "backslashreplace"))
        if answer is not None and answer != "ok":
            words.say(words.line(f"{named(delivery)} comes again: it went {self._shown}, the answer was {answer!r}"))
        return answer == "ok"

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
        self._waiting: deque[_Answer] = deque()
        self._reading = anyio.CancelScope()

    async def ask(self, line: bytes) -> str | None:
        """The answer; None where the connection ended first. One that is not waited for ends the connection."""
        answer = _Answer()
        try:
            async with self._sending:
                self._waiting.append(answer)
                await self._stream.send(line)
            await answer.come.wait()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self.end()
        except BaseException:
            self.end()
            raise
        return answer.text

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
                answer = self._waiting.popleft()
                answer.text = line.decode("utf-8", "backslashreplace").strip()
                answer.come.set()

    def end(self) -> None:
        self._reading.cancel()
        while self._waiting:
            self._waiting.popleft().come.set()


class _Answer:
    """The place of an answer that is to come."""

    def __init__(self) -> None:
        self.come = anyio.Event()
        self.text: str | None = None
