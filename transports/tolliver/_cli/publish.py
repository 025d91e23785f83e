"""`tolliver publish`: lines or records of a file, as a stream.

Each subscriber reads the file independently, from its beginning. A piece is read when the subscriber wants more
elements than are left of the last piece; standard input is not read ahead.
"""

from __future__ import annotations

import io
import json
import os
import stat
from collections.abc import AsyncGenerator, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Self

import anyio
from attrs import define, evolve

from tolliver_proto.reactive import ConnectionClosed, Limits

from .._options.instance import Remote
from .._options.streams import StreamsOptions
from ..anyio import Streams, create_streams
from . import words
from .connecting import alongside
from .standard import Output, pieces, standard_input
from .watching import PATIENCE, Watch

LISTEN = "127.0.0.1"
_POLL = 0.1  # seconds between two checks of a followed file
_MOST = Limits().max_element


@define(frozen=True, kw_only=True)
class Content:
    """Content to publish: a file (None is standard input), as lines or as records of a fixed size in bytes."""

    file: Path | None
    record_size: int | None
    follow: bool

    def check(self) -> None:
        """Raises ValueError if it cannot be published, and OSError if it cannot be read."""
        if self.record_size is not None and self.record_size > _MOST:
            raise ValueError(f"--record-size {self.record_size}: an element has at most {_MOST:,} bytes")
        if self.file is None:
            if self.follow:
                raise ValueError("standard input is read until it ends: --follow needs a FILE")
            standard_input()
            return
        with self.open() as file:
            status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{self.file} is no regular file, which each subscriber could read: feed it to -")
        if self.record_size is not None and status.st_size % self.record_size and not self.follow:
            raise ValueError(
                f"{self.file} has {status.st_size:,} bytes, which is no multiple of {self.record_size}: "
                f"{status.st_size % self.record_size} would be left over"
            )

    def open(self) -> io.RawIOBase:
        return standard_input() if self.file is None else io.FileIO(self.file)

    def __str__(self) -> str:
        return "standard input" if self.file is None else str(self.file)


def _lines(data: bytes) -> tuple[list[bytes], bytes]:
    """Complete lines without their newlines, and what is left: the beginning of the next line."""
    *lines, rest = data.split(b"\n")
    if len(rest) > _MOST:
        raise ValueError(f"a line is longer than {_MOST:,} bytes, which is the most that an element has")
    return lines, rest


def _records(size: int, data: bytes) -> tuple[list[bytes], bytes]:
    whole = len(data) - len(data) % size
    return [data[at : at + size] for at in range(0, whole, size)], data[whole:]


class Reading:
    """One stream of the content: an async iterator of elements, which reports its end."""

    def __init__(self, content: Content, number: int, name: str, output: Output | None) -> None:
        self._title = f"stream {number} of {words.name(name)}"
        self._facts = {"stream": number, "name": name}
        self._output = output
        self._runs = _runs(content)
        self._current: Iterator[bytes] = iter(())
        self._count = 0
        self._end = "its subscriber has left"

    def __aiter__(self) -> Self:
        words.say(f"{self._title} begins")
        return self

    async def __anext__(self) -> bytes:
        while True:
            for element in self._current:
                self._count += 1
                return element
            try:
                self._current = iter(await anext(self._runs))
            except StopAsyncIteration:
                self._end = "complete"
                raise
            except ValueError as error:
                self._end = words.line(str(error))
                raise
            except OSError as error:
                self._end = words.line(str(error))
                raise OSError(f"it cannot be read: {error.strerror}") from error  # without its path

    async def aclose(self) -> None:
        said = f"{self._title} ends after {words.count(self._count, 'element')}: {self._end}"
        if self._output is None:
            words.say(said)
        else:
            facts = {**self._facts, "elements": self._count, "end": self._end}
            await self._output.write(self._output.encoded(f"{json.dumps(facts)}\n"))
        await self._runs.aclose()


async def _runs(content: Content) -> AsyncGenerator[list[bytes], None]:
    """Iterate over the content in lists of elements. The last line may be without newline."""
    size, rest = content.record_size, b""
    cut = _lines if size is None else partial(_records, size)
    with content.open() as file:
        while True:
            async for piece in pieces(file):
                elements, rest = cut(rest + piece)
                yield elements
            if not content.follow:
                break
            if os.fstat(file.fileno()).st_size < file.tell():
                raise ValueError("the file has become shorter: subscribe again to read it from its beginning")
            await anyio.sleep(_POLL)
    if rest and size is not None:
        raise ValueError(f"the last record has {len(rest)} of {size} bytes")
    yield [rest] if rest else []


async def publish(
    options: StreamsOptions, remotes: list[Remote], name: str, content: Content, as_json: bool = False
) -> None:
    """Publish the content under `name` for ever; without a listening address, until the dialled peers have
    disconnected. `as_json` reports each stream's end as a JSON line.
    """
    numbers, output = count(1), Output() if as_json else None

    def reading(wanted: str) -> Reading:
        return Reading(content, next(numbers), wanted, output)

    watch = Watch(words.say)
    async with create_streams(evolve(options, on_event=watch)) as streams:
        # Standard input can be read only once, so the source is a single iterator instead of a function.
        streams.publish(name, reading(name) if content.file is None else reading, element_size=content.record_size or 0)
        words.say(f"publishing {content} as {words.name(name)}{words.listening(streams.addresses)}; Ctrl-C ends")
        await alongside(partial(_stay, streams, watch, options, remotes), [])


async def _stay(streams: Streams, watch: Watch, options: StreamsOptions, remotes: list[Remote]) -> None:
    for remote in remotes:
        await streams.connect(remote, timeout=PATIENCE)
    if options.listen is not None:
        await anyio.sleep_forever()
    ended = await watch.last_words()
    if not isinstance(ended, ConnectionClosed):
        raise ended
