"""Every end of a handler settles its message, and the next one is handled (T-45)."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError as FutureCancelled
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tolliver_proto import Delivery, NoticeKind
from tolliver_proto.reactive import OnError

from .facade import until
from .kinds import EVERY_LOOP
from .nodes import AGAIN, Nodes, noticed, subscribed
from .streams import FORMS, Stage


class NoTruth:
    """A result as numpy and pandas have them."""

    def __bool__(self) -> bool:
        raise ValueError("the truth value of an array is ambiguous")


class NoWords(Exception):
    """One that cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    __str__ = __repr__


class Wordless:
    """A false result that cannot be shown."""

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class Odd(BaseException):
    """No Exception."""


ENDS: dict[str, Any] = {
    "None": None,
    "a value": 7,
    "False": False,
    "no truth": NoTruth(),
    "a result without words": Wordless(),
    "ValueError": ValueError("odd"),
    "no words": NoWords(),
    "TimeoutError": TimeoutError(),
    "SystemExit": SystemExit(1),
    "GeneratorExit": GeneratorExit(),
    "CancelledError": asyncio.CancelledError(),
    "a future that was cancelled": FutureCancelled(),
    "StopIteration": StopIteration(1),
    "StopAsyncIteration": StopAsyncIteration(),
    "ExceptionGroup": ExceptionGroup("several", [ValueError("one of them")]),
    "BaseExceptionGroup": BaseExceptionGroup("several", [Odd(), ValueError("one of them")]),
    "BaseException": Odd("odd"),
}
WELL = ("None", "a value")
RAISED = {name: end for name, end in ENDS.items() if isinstance(end, BaseException)}
RETURNED = {name: end for name, end in ENDS.items() if name not in RAISED}
MESSAGES = ("plain", "awaited", "iterator", "run")
"""Columns of the table: ways to handle messages."""
GIVING = ("opening", "pulling", "encoding", "closing")
"""And what the application does for a stream that it gives."""
TAKING = ("handling", "awaited", "decoding")
"""And for one that it takes."""


def come_to(end: Any) -> Any:
    """Return it, or raise it."""
    if isinstance(end, BaseException):
        raise end
    return end


def oddly(nodes: Nodes, later: bool, seen: list[tuple[str, int]]) -> Callable[[Delivery], Any]:
    """A handler that ends in the way that the body names, twice, and handles it then."""

    def handler(delivery: Delivery) -> Any:
        how = delivery.body.decode()
        seen.append((how, delivery.attempt))
        end = ENDS.get(how) if delivery.attempt < 3 else None
        return nodes.gate().open(end) if later else come_to(end)

    return handler


@EVERY_LOOP
@pytest.mark.parametrize("concurrency", [1, 2])
@pytest.mark.parametrize("column", MESSAGES[:2])
def test_each_is_a_failed_attempt_and_the_next_message_is_handled(
    nodes: Nodes, column: str, concurrency: int, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[tuple[str, int]] = []
    bodies = [name for how in ENDS for name in (how, f"after {how}")]
    with caplog.at_level(logging.WARNING), nodes.pair(channels=(), left=AGAIN) as (left, right, _):
        right.subscribe("news", handler=oddly(nodes, column == "awaited", seen), concurrency=concurrency)
        subscribed(left)
        left.wait_acked(left.send_many([("news", "", body.encode()) for body in bodies]))
        tries = {how: {attempt for name, attempt in seen if name == how} for how in bodies}
        assert tries == {how: {1} if how.startswith("after") or how in WELL else {1, 2, 3} for how in bodies}
        assert right.stats()["failed"] >= 2 * (len(ENDS) - len(WELL))
        assert len(noticed(right, NoticeKind.HANDLER_FAILED)) >= 1
        left.send("news", "", b"and it goes on")
        until(lambda: ("and it goes on", 1) in seen)
    told = "\n".join(record.getMessage() for record in caplog.records if "handler_failed" in record.getMessage())
    for how in (
        "returned a NoTruth, and whether that is true raises ",
        "raised a NoWords whose text raises RuntimeError",
        "returned a Wordless",
        "returned False",
        "raised SystemExit: 1",
        "raised Odd: odd",
    ):
        assert how in told
    logged = [record for record in caplog.records if record.exc_info and "handler_failed" in record.getMessage()]
    assert {record.exc_info[0] for record in logged if record.exc_info} >= {SystemExit, NoWords, ValueError}


@EVERY_LOOP
@pytest.mark.parametrize("column", MESSAGES[2:])
def test_who_leaves_an_iterator_has_failed_what_it_holds(nodes: Nodes, column: str) -> None:
    """Its error is the application's to see; the message comes again, to the handler that has stayed."""
    seen: set[tuple[str, int]] = set()
    with nodes.pair(channels=(), left=AGAIN) as (left, right, _):
        right.subscribe("news", handler=lambda delivery: seen.add((delivery.key, delivery.attempt)))
        subscribed(left)
        iterate = right.messages if column == "iterator" else right.message_runs
        receipts = []
        for how, end in RAISED.items():
            leaving = iterate("news", how, subscribe=False)
            receipts.append(left.send("news", how, b"x"))
            assert bodies_of(leaving.leave(end)) == [b"x"]
        for receipt in receipts:
            left.wait_acked(receipt)
        assert {(how, attempt) for how in RAISED for attempt in (1, 2)} <= seen
        assert right.stats()["failed"] >= len(RAISED)


def bodies_of(item: Any) -> list[bytes]:
    """Of a message, or of a run."""
    return [one.body for one in item] if hasattr(item, "settled") else [item.body]


class OddCodec:
    """One that ends in the way that an element names."""

    def encode(self, value: bytes) -> Any:
        return come_to(ENDS.get(value.decode(), value))

    def decode(self, data: bytes) -> Any:
        return come_to(ENDS.get(data.decode(), data))


class Closes:
    """An iterator without elements, whose `close` raises."""

    def __init__(self, end: Any) -> None:
        self._end = end

    def __iter__(self) -> Closes:
        return self

    def __next__(self) -> bytes:
        raise StopIteration

    def close(self) -> None:
        come_to(self._end)


def gives(name: str) -> Any:
    """A source that ends in the way that the name says."""
    column, _, how = name.partition(" ")
    end = ENDS.get(how)
    if column == "opening":
        return come_to(end)
    if column == "closing":
        return Closes(end)

    def pulled() -> Iterator[Any]:
        yield b"1"
        yield how.encode() if column == "encoding" else come_to(end)

    return pulled()


@EVERY_LOOP
@pytest.mark.parametrize("form", FORMS)
def test_a_source_ends_its_own_stream_and_no_other(stage: Stage) -> None:
    """By what it raises; and by what it returns, where that is no source or no bytes."""
    streams, peer = stage.giving()
    for column in GIVING:
        codec = {"codec": OddCodec()} if column == "encoding" else {}
        streams.publish(f"{column} *", stage.source(gives), **codec)
    streams.publish("goes on", stage.source(lambda _name: iter([b"1", b"2"])))
    other = peer.subscribe("goes on", 1)
    peer.hear_elements(other, 1)
    for column in GIVING:
        for name in RAISED if column == "closing" else ENDS:
            stream = peer.subscribe(f"{column} {name}", 10)
            assert isinstance(peer.hear_end(stream), OnError), (column, name)
            assert peer.elements(stream) == ([b"1"] if column in ("pulling", "encoding") else [])
    peer.request(other, 1)
    peer.hear_elements(other, 2)


@EVERY_LOOP
def test_a_subscriber_ends_its_own_stream_and_no_other(nodes: Nodes, stage: Stage) -> None:
    """A handler's result is no end; an error of it or of the codec cancels, and whoever iterates has it."""
    streams, peer = stage.taking()
    other = streams.subscribe("goes on")
    goes_on = peer.hear_subscribe()
    peer.subscribed(goes_on)
    table = [*product(TAKING, ENDS)]
    for number, (column, name) in enumerate(table, 2):
        end, raised = ENDS[name], name in RAISED
        seen: list[Any] = []
        taken = streams.subscribe(name, codec=OddCodec() if column == "decoding" else None)
        ending = taken.start_outcome(takes(nodes, column, end, seen))
        stream = peer.hear_subscribe(number)
        peer.subscribed(stream)
        peer.next_many(stream, [b"0", name.encode(), b"2"])
        if raised:
            peer.hear_cancel(stream)
            assert outcome_of(ending.wait()) is end, (column, name)
        else:
            until(lambda seen=seen: len(seen) == 3)  # type: ignore[misc]  # bound now
            peer.complete(stream)
            assert ending.wait() is None
    peer.next(goes_on, b"1")
    assert next(other) == b"1"


def takes(nodes: Nodes, column: str, end: Any, seen: list[Any]) -> Callable[[Any], Any]:
    """A handler of three elements that ends so with the second, or leaves that to the codec."""

    def handler(element: bytes) -> Any:
        seen.append(element)
        now = end if len(seen) == 2 and column != "decoding" else None
        return nodes.gate().open(now) if column == "awaited" else come_to(now)

    return handler


def outcome_of(error: Any) -> Any:
    """The error that was raised: Python wraps what would end an iteration."""
    return error.__cause__ if type(error) is RuntimeError and error.__cause__ else error


ON_THREADS = """
import sys, threading
from tolliver.blocking import InstanceOptions, create_instance

def stop(delivery):
    raise KeyboardInterrupt

try:
    with (
        create_instance(InstanceOptions(database=sys.argv[1], plaintext=True, listen="127.0.0.1:0")) as right,
        create_instance(InstanceOptions(database=sys.argv[2], plaintext=True)) as left,
    ):
        right.subscribe("news", handler=stop)
        left.new_connection(f"127.0.0.1:{right.port}", timeout=30)
        while not left.send("news", "", b"x").recipients:
            pass
        threading.Event().wait(30)
except KeyboardInterrupt:
    print("interrupted", right.stats().failed)
"""
ON_ASYNCIO = """
import sys
import anyio
from tolliver.anyio import InstanceOptions, create_instance

def stop(delivery):
    raise KeyboardInterrupt

async def main():
    async with (
        create_instance(InstanceOptions(database=sys.argv[1], plaintext=True, listen="127.0.0.1:0")) as right,
        create_instance(InstanceOptions(database=sys.argv[2], plaintext=True)) as left,
    ):
        await right.subscribe("news", handler=stop)
        await left.new_connection(f"127.0.0.1:{right.port}", timeout=30)
        while not (await left.send("news", "", b"x")).recipients:
            pass
        await anyio.sleep(30)

try:
    anyio.run(main)
except KeyboardInterrupt:
    print("interrupted")
except BaseException as error:
    print("interrupted" if getattr(error, "subgroup", lambda _: None)(KeyboardInterrupt) else repr(error))
"""


@pytest.mark.parametrize("program", [ON_THREADS, ON_ASYNCIO], ids=["threads", "asyncio"])
def test_an_interrupt_ends_the_program(tmp_path: Path, program: str) -> None:
    command = [sys.executable, "-c", program, str(tmp_path / "right.db"), str(tmp_path / "left.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.startswith("interrupted"), done.stdout + done.stderr
