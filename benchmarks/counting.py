"""Cost of counting: processor time of a message, here and in another checkout.

    git worktree add --detach /tmp/before COMMIT
    python benchmarks/counting.py /tmp/before [--seconds 1] [--runs 5]

Two instances on one asyncio loop talk over plaintext on loopback, with databases in memory, so that little but our own
code takes time. Runs of the two checkouts take turns, each in a process of its own; the least of each is printed, as
whatever else the machine does only adds to the processor time of a message. ad10657 is the last commit without the
counters of peers and channels and without histograms.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("unreliable", "send_many", "send", "one", "round_trip")
LOT = 100  # messages between two looks at the clock
BODY = bytes(100)


async def messages(kind: str, seconds: float) -> tuple[int, float]:
    """Number of messages that came, and the processor time for them."""
    from tolliver.anyio import InstanceOptions, create_instance

    came, back = 0, asyncio.Event()

    def handle(_delivery: object) -> None:
        nonlocal came
        came += 1
        if kind == "round_trip":
            right.unreliable_send("back", "", BODY)

    def answered(_delivery: object) -> None:
        back.set()

    base: dict[str, Any] = {"database": ":memory:", "plaintext": True}
    async with (
        create_instance(InstanceOptions(listen="127.0.0.1:0", **base)) as right,
        create_instance(InstanceOptions(**base)) as left,
    ):
        await right.subscribe("c", "", handle)
        await left.new_connection(f"127.0.0.1:{right.port}")
        await left.wait_subscribed("c")
        await left.subscribe("back", "", answered)
        await right.wait_subscribed("back")
        items = [("c", "k", BODY)] * LOT

        async def lot() -> None:
            if kind == "unreliable":
                for _ in range(LOT):
                    left.unreliable_send("c", "k", BODY)
                await asyncio.sleep(0)
            elif kind == "send_many":
                await left.wait_acked(await left.send_many(items))
            elif kind == "one":
                await left.wait_acked(await left.send("c", "k", BODY))
            elif kind == "round_trip":
                back.clear()
                left.unreliable_send("c", "k", BODY)
                await back.wait()
            else:
                await asyncio.gather(*(left.send("c", "k", BODY) for _ in range(LOT)))

        for _ in range(20):
            await lot()
        first, began, end = came, time.process_time(), time.monotonic() + seconds
        while time.monotonic() < end:
            await lot()
        return came - first, time.process_time() - began


def measured(kind: str, seconds: float, checkout: Path) -> float:
    """Microseconds of processor time for a message, in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), str(checkout), "--one", kind, "--seconds", str(seconds)]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (checkout, checkout / "transports")))}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=paths)
    count, took = map(float, json.loads(done.stdout))
    return took / max(1.0, count) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="checkout without")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--one", choices=KINDS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(asyncio.run(messages(options.one, options.seconds))))
        return
    checkouts = (ROOT, options.other.resolve())
    print(f"{'messages':<12} {'here':>9} {'there':>9}   microseconds of processor time for each")
    for kind in KINDS:
        found: dict[Path, list[float]] = {checkout: [] for checkout in checkouts}
        for _ in range(options.runs):
            for checkout in checkouts:
                found[checkout].append(measured(kind, options.seconds, checkout))
        here, there = (min(found[checkout]) for checkout in checkouts)
        print(f"{kind:<12} {here:9.2f} {there:9.2f}   {(here / there - 1) * 100:+.1f} %", flush=True)


if __name__ == "__main__":
    main()
