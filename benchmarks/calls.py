"""Calls of Python that a message costs, and the rooms that they are in: where the time of a message goes.

    python benchmarks/calls.py [--messages 3000] [--only ROW ...] [--functions]
    python benchmarks/calls.py --renew

Both ends are in one process on one asyncio loop, over mutual TLS on loopback; what is counted is what the loop's thread
calls, under cProfile. Counts are the same on a busy machine, or nearly; shares of time are those under the profiler,
which makes calls of Python dearer than work inside a library. So read the shares as an order, not as microseconds.

The rows of SCENES count otherwise: one message at a time over plaintext, calls of functions of our packages alone, in
all threads, with databases in memory, until all that the message causes is done. `--functions` lists these by
function. `--renew` writes them into calls.json, against which `tests/test_calls.py` holds them: a message may cost
fewer calls, never more.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from time import thread_time
from types import CodeType, FrameType
from typing import Any

import anyio
from tolliver.anyio import Instance, InstanceOptions, StreamsOptions, create_instance, create_streams
from tolliver.certs import Member, make_ca, make_certificate

from tolliver_proto import Delivery

BODY = bytes(100)
PIECE = 100  # messages that are sent before the loop comes round
BATCH = 250
WINDOW = 16
LIMITS = Path(__file__).with_name("calls.json")
WARM, LOOKS = 20, 5  # messages before the first that is counted, and messages of which the least is taken
Counted = Callable[[], Awaitable[None]]
"""One run of a row's work, to be counted."""


class Tally:
    """Messages that have come, and a wait for so many."""

    def __init__(self) -> None:
        self.count = 0
        self._wanted = 0
        self._there = anyio.Event()

    def add(self, _delivery: object = None) -> None:
        self.count += 1
        if self.count >= self._wanted:
            self._there.set()

    async def reaches(self, count: int) -> None:
        self._wanted, self._there = count, anyio.Event()
        if self.count < count:
            await self._there.wait()


async def pair(stack: AsyncExitStack, certificates: list[Member], directory: Path) -> tuple[Instance, Instance]:
    """The sender, and who subscribes to "c"."""
    one, two = (certificate.tls() for certificate in certificates)
    right = await stack.enter_async_context(
        create_instance(InstanceOptions(database=directory / "right.db", listen="127.0.0.1:0", tls=two))
    )
    left = await stack.enter_async_context(
        create_instance(InstanceOptions(database=directory / "left.db", remotes=[f"127.0.0.1:{right.port}"], tls=one))
    )
    await right.subscribe("c")
    await left.wait_subscribed("c")
    return left, right


async def fire(left: Instance, tally: Tally, messages: int) -> None:
    for sent in range(0, messages, PIECE):
        for _ in range(PIECE):
            left.unreliable_send("c", "", BODY)
        await tally.reaches(sent)
    await tally.reaches(messages)


async def by_callback(stack: AsyncExitStack, left: Instance, right: Instance, messages: int) -> Counted:
    tally = Tally()
    right.register_callback("c", "", tally.add)
    return partial(fire, left, tally, messages)


async def by_iterator(stack: AsyncExitStack, left: Instance, right: Instance, messages: int) -> Counted:
    tally = Tally()

    async def read() -> None:
        async for message in right.messages("c", subscribe=False):
            tally.add()
            message.ack()

    tasks = await stack.enter_async_context(anyio.create_task_group())
    tasks.start_soon(read)
    stack.callback(tasks.cancel_scope.cancel)
    return partial(fire, left, tally, messages)


async def round_trip(stack: AsyncExitStack, left: Instance, right: Instance, messages: int) -> Counted:
    tally = Tally()
    await left.subscribe("back")
    await right.wait_subscribed("back")

    def again(_delivery: Delivery) -> None:
        tally.add()
        if tally.count < messages:
            left.unreliable_send("c", "", BODY)

    right.register_callback("c", "", lambda delivery: right.unreliable_send("back", "", delivery.body))
    left.register_callback("back", "", again)

    async def work() -> None:
        left.unreliable_send("c", "", BODY)
        await tally.reaches(messages)

    return work


async def one(stack: AsyncExitStack, left: Instance, right: Instance, messages: int) -> Counted:
    right.register_callback("c", "", lambda _delivery: None)

    async def work() -> None:
        for _ in range(messages):
            await left.wait_acked(await left.send("c", "", BODY))

    return work


async def tasks(stack: AsyncExitStack, left: Instance, right: Instance, messages: int) -> Counted:
    right.register_callback("c", "", lambda _delivery: None)

    async def each(count: int) -> None:
        for _ in range(count):
            await left.wait_acked(await left.send("c", "", BODY))

    async def work() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(min(messages, 1000)):
                group.start_soon(each, max(1, messages // 1000))

    return work


async def many(stack: AsyncExitStack, left: Instance, right: Instance, messages: int) -> Counted:
    async def read() -> None:
        async for run in right.message_runs("c", subscribe=False):
            run.ack()

    async def work() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(read)
            for _ in range(messages // BATCH):
                await left.wait_acked(await left.send_many([("c", "", BODY)] * BATCH))
            group.cancel_scope.cancel()

    return work


async def stream(stack: AsyncExitStack, certificates: list[Member], messages: int) -> Counted:
    one, two = (certificate.tls() for certificate in certificates)
    source = await stack.enter_async_context(create_streams(StreamsOptions(listen="127.0.0.1:0", tls=one)))
    sink = await stack.enter_async_context(create_streams(StreamsOptions(tls=two)))

    async def elements(_subscriber: object) -> AsyncIterator[bytes]:
        for _ in range(messages):
            yield BODY

    source.publish("s", elements)
    peer = await sink.connect(f"127.0.0.1:{source.port}")

    async def work() -> None:
        async with peer.subscribe("s", prefetch=WINDOW) as subscription:
            async for _run in subscription.runs():
                pass

    return work


ROWS: dict[str, Any] = {
    "fire": by_callback,
    "fire-messages": by_iterator,
    "round-trip": round_trip,
    "one": one,
    "tasks": tasks,
    "many": many,
    "stream-16": stream,
}


async def durable(left: Instance, _tally: Tally) -> None:
    """Until its row is gone."""
    await left.wait_acked(await left.send("c", "", BODY))
    await anyio.sleep(0.4)


async def unreliable(left: Instance, tally: Tally) -> None:
    left.unreliable_send("c", "", BODY)
    await tally.reaches(tally.count + 1)
    await anyio.sleep(0.15)


SCENES: dict[str, Callable[[Instance, Tally], Awaitable[None]]] = {"durable": durable, "unreliable": unreliable}


async def scene(name: str) -> Counter[str]:
    """Calls of our functions for one message, by function: those of the message with the fewest."""
    calls: Counter[CodeType] = Counter()

    def watch(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            calls[frame.f_code] += 1

    async def counted() -> Counter[str]:
        calls.clear()
        await SCENES[name](left, tally)
        found: Counter[str] = Counter()
        for code, count in [*calls.items()]:
            if is_ours(code.co_filename):
                found[f"{room_of(code.co_filename)} {Path(code.co_filename).stem}.{code.co_qualname}"] += count
        return found

    tally = Tally()
    threading.setprofile(watch)  # of threads that begin from now on: the stores'
    try:
        async with (
            create_instance(InstanceOptions(database=":memory:", plaintext=True, listen="127.0.0.1:0")) as right,
            create_instance(InstanceOptions(database=":memory:", plaintext=True)) as left,
        ):
            await right.subscribe("c", "", tally.add)
            await left.new_connection(f"127.0.0.1:{right.port}")
            await left.wait_subscribed("c")
            for _ in range(WARM):
                await left.wait_acked(await left.send("c", "", BODY))
            await anyio.sleep(0.4)
            sys.setprofile(watch)
            looks = [await counted() for _ in range(LOOKS)]
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return min(looks, key=Counter.total)


def is_ours(path: str) -> bool:
    return "/tolliver_proto/" in path or "/tolliver/" in path


def room_of(path: str) -> str:
    for package in ("tolliver_proto", "tolliver"):
        if f"/{package}/" in path:
            folder = path.split(f"/{package}/")[1].split("/")
            return f"{package.removeprefix('tolliver_')}/{folder[0] if len(folder) > 1 else ''}".rstrip("/")
    if "/asyncio/" in path:
        return "asyncio"
    if path.startswith(("~", "<")):
        return "builtin"
    return "this program" if path == __file__ else "other libraries"


async def measured(name: str, messages: int) -> tuple[Counter[str], Counter[str]]:
    """Calls and seconds of each room."""
    with tempfile.TemporaryDirectory(prefix="calls-") as home:
        directory = Path(home)
        make_ca(directory)
        certificates = [make_certificate(directory, who) for who in ("left", "right")]
        async with AsyncExitStack() as stack:
            if name == "stream-16":
                work = await stream(stack, certificates, messages)
            else:
                left, right = await pair(stack, certificates, directory)
                work = await ROWS[name](stack, left, right, messages)
            profile = cProfile.Profile(thread_time)  # else the shares would have what other programs take
            profile.enable()
            await work()
            profile.disable()
    calls: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    for (path, _line, _function), (_, count, own, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]  # typeshed has none of it
        calls[room_of(path)] += count
        seconds[room_of(path)] += own
    return calls, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*ROWS, *SCENES]
    parser.add_argument("--messages", type=int, default=3000)
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="ROW")
    parser.add_argument("--functions", action="store_true", help="list the calls of a scene by function")
    parser.add_argument("--renew", action="store_true", help=f"count the scenes and write {LIMITS.name}")
    arguments = parser.parse_args()
    if arguments.renew:
        limits = {name: anyio.run(scene, name).total() for name in SCENES}
        LIMITS.write_text(json.dumps(limits, indent=2) + "\n")
        print(limits)
        return
    print("| row | calls a message | of ours | of builtins | rooms, by calls a message (share of processor time) |")
    print("|---|---|---|---|---|")
    for name in arguments.only:
        if name in SCENES:
            show_scene(name, arguments.functions)
        else:
            show_row(name, arguments.messages)


def show_row(name: str, messages: int) -> None:
    calls, seconds = anyio.run(measured, name, messages)
    builtin = calls.pop("builtin", 0) / messages
    total = sum(seconds.values())
    each, ours = (
        sum(calls.values()) / messages,
        sum(count for room, count in calls.items() if room.startswith(("proto", "transports"))),
    )
    rooms = ", ".join(
        f"{room} {count / messages:.1f} ({seconds[room] / total:.0%})" for room, count in calls.most_common(6)
    )
    print(
        f"| {name} | {each:.1f} | {ours / messages:.1f} | {builtin:.1f} ({seconds['builtin'] / total:.0%}) | {rooms} |"
    )


def show_scene(name: str, with_functions: bool) -> None:
    calls = anyio.run(scene, name)
    of_rooms: Counter[str] = Counter()
    for function, count in calls.items():
        of_rooms[function.split()[0]] += count
    rooms = ", ".join(f"{room} {count}" for room, count in of_rooms.most_common(9))
    print(f"| {name} | {calls.total()} | {calls.total()} | | {rooms} |")
    if with_functions:
        for function, count in calls.most_common():
            print(f"{count:5} {function}")


if __name__ == "__main__":
    main()
