"""Every end of a handler settles its message, and the next one is handled (T-45)."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError as FutureCancelled
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
    "no truth": NoTruth(),
    "no words": NoWords(),
    "a result without words": Wordless(),
    "SystemExit": SystemExit(1),
    "GeneratorExit": GeneratorExit(),
    "CancelledError": asyncio.CancelledError(),
    "a future that was cancelled": FutureCancelled(),
    "StopIteration": StopIteration(1),
    "StopAsyncIteration": StopAsyncIteration(),
    "a group": BaseExceptionGroup("several", [Odd(), ValueError("one of them")]),
    "BaseException": Odd("odd"),
}


def ends_on(kind: str, awaited: bool) -> dict[str, Any]:
    """Python closes a coroutine that a Deferred throws a GeneratorExit into."""
    return {name: end for name, end in ENDS.items() if not (awaited and "twisted" in kind and name == "GeneratorExit")}


def oddly(nodes: Nodes, later: bool, seen: list[tuple[str, int]]) -> Callable[[Delivery], Any]:
    """A handler that ends in the way that the body names, twice, and handles it then."""

    def handler(delivery: Delivery) -> Any:
        how = delivery.body.decode()
        seen.append((how, delivery.attempt))
        end = ENDS.get(how) if delivery.attempt < 3 else None
        if later:
            return nodes.gate().open(end)
        if isinstance(end, BaseException):
            raise end
        return end

    return handler


@EVERY_LOOP
@pytest.mark.parametrize("later", [False, True])
def test_each_is_a_failed_attempt_and_the_next_message_is_handled(
    nodes: Nodes, kind: str, later: bool, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[tuple[str, int]] = []
    ends = ends_on(kind, later)
    bodies = [name for how in ends for name in (how, f"after {how}")]
    with caplog.at_level(logging.WARNING), nodes.pair(channels=(), left=AGAIN) as (left, right, _):
        right.subscribe("news", handler=oddly(nodes, later, seen))
        subscribed(left)
        left.wait_acked(left.send_many([("news", "", body.encode()) for body in bodies]))
        assert {(how, attempt) for how in ends for attempt in (1, 2, 3)} <= set(seen)
        assert {(f"after {how}", 1) for how in ends} <= set(seen)
        assert right.stats()["failed"] >= 2 * len(ends)
        told = "\n".join(noticed(right, NoticeKind.HANDLER_FAILED))
        left.send("news", "", b"and it goes on")
        until(lambda: ("and it goes on", 1) in seen)
    for how in (
        "NoTruth object at",
        "raised a NoWords whose repr raises RuntimeError",
        "returned a Wordless whose repr raises RuntimeError",
        "raised SystemExit(1)",
        "raised Odd('odd')",
    ):
        assert how in told
    logged = [record for record in caplog.records if record.exc_info and "handler_failed" in record.getMessage()]
    assert {record.exc_info[0] for record in logged if record.exc_info} >= {SystemExit, NoWords, ValueError}


@EVERY_LOOP
@pytest.mark.parametrize("form", FORMS)
def test_a_source_ends_its_own_stream_and_no_other(stage: Stage, kind: str) -> None:
    streams, peer = stage.giving()

    def failing(name: str) -> Iterator[bytes]:
        yield b"1"
        if name in ENDS:
            raise ENDS[name]
        yield b"2"

    ends = [name for name, end in ends_on(kind, True).items() if isinstance(end, BaseException)]
    streams.publish("*", stage.source(failing))
    other = peer.subscribe("goes on", 1)
    peer.hear_elements(other, 1)
    for name in ends:
        stream = peer.subscribe(name, 10)
        assert isinstance(peer.hear_end(stream), OnError), name
        assert peer.elements(stream) == [b"1"]
    peer.request(other, 1)
    peer.hear_elements(other, 2)


ON_THREADS = """
import sys, threading
from tolliver_transports.blocking import InstanceOptions, create_instance

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
from tolliver_transports.anyio import InstanceOptions, create_instance

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
