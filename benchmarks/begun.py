"""Messages whose handlers are noted, beside the same without notes: what a note of a begun message costs.

    python benchmarks/begun.py [--rounds 40] [--messages 5000]

Three instances in one process, plaintext over loopback, databases on disk, 100-byte bodies: a publisher, and two
subscribers, of which one notes what has begun, and one has `Policy(max_deaths=None)`. In a round each gets as many
messages as `--messages` by `send_many`, in turn the one and the other first, until all are acknowledged: as runs
(`message_runs`), and one by one by a handler. Prints the processor time of all three for a message, the least of all
rounds, as others on the machine only add to that; the ratio; and the difference, the cost of a note. The aim is 0.3 us
in runs.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
from tolliver.anyio import Instance, InstanceOptions, create_instance

from tolliver_proto import Policy

BODY = bytes(100)
WAYS = {"noted": Policy(), "without notes": Policy(max_deaths=None)}


async def read_runs(instance: Instance, channel: str) -> None:
    async with instance.message_runs(channel) as runs:
        async for run in runs:
            run.ack()


async def measured(publisher: Instance, channel: str, messages: int) -> float:
    """Processor time for a message, in microseconds."""
    used = time.process_time()
    await publisher.wait_acked(await publisher.send_many([(channel, "", BODY)] * messages))
    return (time.process_time() - used) / messages * 1e6


async def compare(directory: Path, rounds: int, messages: int) -> None:
    def options(name: str, listen: str | None, policy: Policy) -> InstanceOptions:
        return InstanceOptions(database=directory / f"{name}.db", listen=listen, plaintext=True, policy=policy)

    async with AsyncExitStack() as stack:
        subscribers = dict[str, Instance]()
        publisher = await stack.enter_async_context(create_instance(options("publisher", None, Policy())))
        for way, policy in WAYS.items():
            subscriber = await stack.enter_async_context(create_instance(options(way, "127.0.0.1:0", policy)))
            await subscriber.subscribe(f"handler, {way}", handler=lambda delivery: True)
            await publisher.new_connection(f"127.0.0.1:{subscriber.port}")
            await publisher.wait_subscribed(f"handler, {way}")
            subscribers[f"runs, {way}"] = subscriber
        tasks = await stack.enter_async_context(anyio.create_task_group())
        for channel, subscriber in subscribers.items():
            tasks.start_soon(read_runs, subscriber, channel)
            await publisher.wait_subscribed(channel)
        print(f"{'':<10}{'noted, us':>12}{'without, us':>13}{'ratio':>7}{'a note, us':>12}")
        for shape in ("runs", "handler"):
            found: dict[str, list[float]] = {way: [] for way in WAYS}
            for number in range(rounds):
                for way in [*WAYS][:: 1 if number % 2 else -1]:
                    found[way].append(await measured(publisher, f"{shape}, {way}", messages))
            noted, without = map(min, found.values())
            print(f"{shape:<10}{noted:>12.2f}{without:>13.2f}{noted / without:>7.2f}{noted - without:>12.2f}")
        tasks.cancel_scope.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=40, help="rounds of each row")
    parser.add_argument("--messages", type=int, default=5000, help="messages for each subscriber in a round")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        anyio.run(compare, Path(directory), options.rounds, options.messages)


if __name__ == "__main__":
    main()
