"""Histories of two programs on the real asyncio adapter, and the promises that each must keep.

Each program opens its instance several times on one database, sends to the other and handles what comes, and closes at
any moment. Sends and waits run into timeouts, handlers fail or are slow, the network cuts. The last lives are calm.

These things must hold: nobody hangs, no task or socket is left, no error reaches the loop; a message that `send` called
stored is handled in the end, as it was sent, and once; one that `wait_acked` called acknowledged was handled before. A
call of a handler that ends after its instance has begun to close counts as failed (docs/messaging.md, Closing), and the
message may be handled once more.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
from tolliver.anyio import Instance, InstanceOptions, create_instance

from tolliver_proto import Delivery, Limits, Policy, Receipt, TolliverError
from tolliver_proto.errors import Undelivered
from tolliver_proto.node import Request

from .world import Loop, network, world

NAMES = ("alice", "bob")
PORTS = {"alice": 7001, "bob": 7002}
CHANNEL, QUESTIONS = "c", "q"
PATIENCE = 3600.0  # seconds of the world for the last lives


class Broken(AssertionError):
    """A promise is broken: the seed shows how."""


class Program:
    """One of the two, over all of its lives."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.database = directory / f"{name}.db"
        self.sent: set[bytes] = set()
        self.stored: set[bytes] = set()
        self.handled: Counter[bytes] = Counter()
        self.ended: set[bytes] = set()  # their handler has ended, perhaps too late
        self.other: Program
        self.is_last = self.is_through = False
        self._closes = True

    def options(self) -> InstanceOptions:
        (other,) = {*NAMES} - {self.name}
        dials = self.name == "alice" or world.rng.random() < 0.5
        return InstanceOptions(
            database=self.database,
            plaintext=True,
            listen=f"127.0.0.1:{PORTS[self.name]}",
            remotes=[f"127.0.0.1:{PORTS[other]}"] if dials else [],
            subscriptions=[CHANNEL],
            responders=[(QUESTIONS, "", self.answer)],
            handlers=[(CHANNEL, "", self.handle, {"concurrency": world.rng.choice((1, 3))})],
            retry_interval=1.0,
            policy=Policy(dedupe=10_000, dedupe_durable=True),
            limits=Limits(redial_max=2.0),
        )

    async def handle(self, delivery: Delivery) -> None:
        if not self.is_last and world.rng.random() < 0.1:
            world.tell(self.name, "fails", delivery.body[:20])
            raise RuntimeError("a handler that fails")
        await asyncio.sleep(world.rng.choice((0.0, 0.0, 0.01, 2.0)))
        self.handled[delivery.body] += not self._closes
        self.ended.add(delivery.body)
        world.tell(self.name, "handled", delivery.body[:20])

    async def answer(self, request: Request) -> bytes:
        await asyncio.sleep(world.rng.choice((0.0, 0.01, 1.0)))
        return request.body

    async def live(self, lives: int) -> None:
        for _ in range(lives):
            async with create_instance(self.options()) as instance:
                self._closes = False
                world.tell(self.name, "opened")
                with anyio.move_on_after(world.rng.choice((0.0, 0.05, 1.0, 5.0, 20.0))):
                    if world.rng.random() < 0.8:
                        await instance.wait_subscribed(CHANNEL)
                    async with anyio.create_task_group() as tasks:
                        for _ in range(world.rng.choice((1, 3))):
                            tasks.start_soon(self._send_some, instance)
                        tasks.start_soon(self._ask_some, instance)
                self._closes = True
                world.tell(self.name, "closes")
            world.tell(self.name, "closed")
            await asyncio.sleep(world.rng.choice((0.0, 0.5, 10.0)))

    async def _send_some(self, instance: Instance) -> None:
        for _ in range(world.rng.choice((2, 5, 20))):
            await asyncio.sleep(world.rng.choice((0.0, 0.0, 0.001, 0.2)))
            bodies = [self._body() for _ in range(world.rng.choice((1, 1, 10)))]
            key = f"k{len(self.sent) % 3}"
            try:
                with anyio.move_on_after(world.rng.choice((0.0, 0.001, 60.0))) as limit:
                    receipt = await instance.send_many([(CHANNEL, key, body) for body in bodies])
                if not limit.cancelled_caught:
                    await self._stored(instance, bodies, receipt)
            except TolliverError as error:
                world.tell(self.name, "refused", bodies[0][:20], type(error).__name__)

    def _body(self) -> bytes:
        body = b"%s %d " % (self.name.encode(), len(self.sent) + 1) + bytes(world.rng.choice((0, 10, 10, 100_000)))
        self.sent.add(body)
        return body

    async def _stored(self, instance: Instance, bodies: list[bytes], receipt: Receipt) -> None:
        world.tell(self.name, "stored", bodies[0][:20], receipt.deliveries)
        if receipt.deliveries:
            self.stored.update(bodies)
        if world.rng.random() < 0.3:
            try:
                await instance.wait_acked(receipt, timeout=world.rng.choice((0.01, 1.0, 30.0)))
            except (TimeoutError, Undelivered) as error:
                world.tell(self.name, "not acknowledged", bodies[0][:20], type(error).__name__)
            else:
                if not_handled := [body[:20] for body in bodies if body not in self.other.ended]:
                    raise Broken(f"acknowledged and not handled: {not_handled}")

    async def _ask_some(self, instance: Instance) -> None:
        for number in range(world.rng.choice((0, 1, 4))):
            question = b"%d" % number
            try:
                reply = await instance.request(QUESTIONS, question, timeout=world.rng.choice((0.1, 5.0)))
            except (TimeoutError, TolliverError) as error:
                world.tell(self.name, "no answer", number, type(error).__name__)
            else:
                world.tell(self.name, "answered", number)
                if reply.body != question:
                    raise Broken(f"{question!r} was answered with {reply.body!r}")

    async def finish(self) -> None:
        self.is_last, self._closes = True, False
        async with create_instance(self.options()) as instance:
            with anyio.fail_after(PATIENCE):
                while not (self.is_through and self.other.is_through):
                    await asyncio.sleep(1.0)
                    if strange := self.ended - self.other.sent:
                        raise Broken(f"handled and never sent: {[body[:20] for body in strange]}")
                    self.is_through = not instance.stats()["pending"] and self.stored <= self.other.ended


async def disturb() -> None:
    for _ in range(world.rng.choice((0, 3, 10))):
        await asyncio.sleep(world.rng.choice((0.01, 0.3, 3.0)))
        network.is_down = world.rng.random() < 0.2
        network.cut_some()


async def history(directory: Path) -> None:
    alice, bob = (Program(name, directory) for name in NAMES)
    alice.other, bob.other = bob, alice
    async with asyncio.TaskGroup() as tasks:
        for program in (alice, bob):
            tasks.create_task(program.live(world.rng.choice((1, 2, 3))))
        tasks.create_task(disturb())
    network.calm()
    async with asyncio.TaskGroup() as tasks:
        for program in (alice, bob):
            tasks.create_task(program.finish())
    for program in (alice, bob):
        if twice := {body[:20]: count for body, count in program.handled.items() if count > 1}:
            raise Broken(f"handled more than once: {twice}")


@contextmanager
def loop_that_tells() -> Iterator[tuple[Loop, list[str]]]:
    loop, told = Loop(), list[str]()
    loop.set_exception_handler(lambda _loop, context: told.append(f"{context}"))
    asyncio.set_event_loop(loop)
    try:
        yield loop, told
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def run(seed: int, directory: Path) -> list[str]:
    """The trace of one history. Raises Broken, Stuck, or what the programs raised."""
    world.begin(seed)
    network.begin()
    directory.mkdir()
    try:
        with loop_that_tells() as (loop, told):
            loop.run_until_complete(history(directory))
            left: list[Any] = [*asyncio.all_tasks(loop)]
            left += [sock for sock in network.sockets.values() if not sock.closed]
            if told or left:
                raise Broken(f"told the loop: {told}; left: {left}")
        return [*world.trace]
    finally:
        shutil.rmtree(directory)
