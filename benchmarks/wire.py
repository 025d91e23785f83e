"""Speed of a Connection, beside the least that Python can do.

    python benchmarks/wire.py [--frames 200000] [--repetitions 9]
    python benchmarks/wire.py --against CHECKOUT [--runs 10]

Reading: frames with 100-byte bodies on a live connection, fed in chunks of 64 KiB, every event taken. The yardstick is
a bare loop over the same chunks that only unpacks the head, cuts the frame and makes one slotted object: no limits, no
reserved channel, no acks, no states, no errors. Both run alternately in this process; the figures are medians, so the
ratio holds on a busy machine where the absolute numbers do not. The aim is a ratio of 1.5 or less (exit status 1 above
it). A ratio below 1 is possible: the Connection decodes a name once, the bare loop each time.

With `--against`, this checkout and another one take turns, each in processes of its own, in the layouts of both drafts.
The least processor time of a frame is printed for each, as other work on the machine only adds to it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from tolliver_proto import Connection, Message, Revision, Role, encode

ROOT = Path(__file__).resolve().parent.parent
BODY, CHUNK, AIM = 100, 65536, 1.5
CHANNEL, KEY = "readings", "cpu0"
ONE, TWO = UUID("01890000-0000-7000-8000-000000000001"), UUID("01890000-0000-7000-8000-000000000002")


class Bare:
    __slots__ = ("body", "channel", "key", "message_id")

    def __init__(self, channel: str, key: str, body: bytes, message_id: int) -> None:
        self.channel = channel
        self.key = key
        self.body = body
        self.message_id = message_id


def bare_loop(chunks: list[bytes]) -> int:
    """The yardstick."""
    unpack = struct.Struct(">BIIII").unpack_from
    found, rest = 0, b""
    for chunk in chunks:
        data = rest + chunk
        at, size = 0, len(data)
        while at + 17 <= size:
            code, channel, key, body, message_id = unpack(data, at)
            if code != 3:
                raise ValueError(code)
            start = at + 17
            middle = start + channel
            last = middle + key
            end = last + body
            if end > size:
                break
            Bare(str(data[start:middle], "utf-8"), str(data[middle:last], "utf-8"), data[last:end], message_id)
            found += 1
            at = end
        rest = data[at:]
    return found


def live_pair(revision: Revision) -> tuple[Connection, Connection]:
    """A client and a server after their handshake."""
    client = Connection(Role.CLIENT, instance_id=ONE, revision=revision)
    server = Connection(Role.SERVER, instance_id=TWO, revision=revision)
    server.receive_data(b"".join(client.data_to_send()))
    server.next_event()
    server.accept()
    server.next_event()
    client.receive_data(b"".join(server.data_to_send()))
    list(client.events())
    return client, server


def connection_reads(chunks: list[bytes], revision: Revision) -> int:
    server = live_pair(revision)[1]
    found = 0
    for chunk in chunks:
        server.receive_data(chunk)
        for _event in server.events():
            found += 1
    return found


def encoded_one_by_one(messages: list[Message], revision: Revision) -> int:
    for message in messages:
        encode(message, revision)
    return len(messages)


def connection_writes(messages: list[Message], revision: Revision) -> int:
    client = live_pair(revision)[0]
    for at in range(0, len(messages), 500):
        for message in messages[at : at + 500]:
            client.send(message)
        client.data_to_send()
    return len(messages)


def acks_of_runs(ids: list[int], revision: Revision) -> int:
    client = live_pair(revision)[0]
    for at in range(0, len(ids), 64):
        client.send_acks(ids[at : at + 64])
    client.data_to_send()
    return len(ids)


def jobs_of(frames: int, revision: Revision) -> dict[str, Callable[[], int]]:
    body = bytes(range(BODY))
    messages = [Message(CHANNEL, KEY, body, number % 2**31) for number in range(1, frames + 1)]
    data = b"".join(encode(message, revision) for message in messages)
    chunks = [data[at : at + CHUNK] for at in range(0, len(data), CHUNK)]
    ids = list(range(1, frames + 1))
    return {
        "bare parse loop": lambda: bare_loop(chunks),
        "Connection, reading": lambda: connection_reads(chunks, revision),
        "encode(), one by one": lambda: encoded_one_by_one(messages, revision),
        "Connection, send and drain by 500": lambda: connection_writes(messages, revision),
        "Connection, acks in runs of 64": lambda: acks_of_runs(ids, revision),
    }


def seconds_for(job: Callable[[], int], frames: int, clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    done = job()
    took = clock() - start
    assert done == frames, (done, frames)
    return took


# Against another checkout.


def least(frames: int, repetitions: int) -> dict[str, float]:
    """Nanoseconds of processor time for a frame, by layout and job."""
    return {
        f"{revision.name}, {name}": min(
            seconds_for(job, frames, time.process_time) / frames * 1e9 for _ in range(repetitions)
        )
        for revision in (Revision.DRAFT_1, Revision.DRAFT_2)
        for name, job in jobs_of(frames, revision).items()
    }


def least_of(checkout: Path) -> dict[str, float]:
    """The same of a checkout, in a process of its own."""
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (checkout, checkout / "transports")))}
    command = [sys.executable, str(Path(__file__).resolve()), "--least", "--frames", "20000"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=paths)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def against(other: Path, runs: int) -> None:
    best: dict[Path, dict[str, float]] = {ROOT: {}, other: {}}
    for _ in range(runs):
        for checkout, found in best.items():
            for name, took in least_of(checkout).items():
                found[name] = min(took, found.get(name, took))
    print(f"{'':<46}{'here':>8}{'there':>8}{'ratio':>8}   nanoseconds of processor time for a frame")
    for name, here in best[ROOT].items():
        there = best[other][name]
        print(f"{name:<46}{here:>8.0f}{there:>8.0f}{here / there:>8.3f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=200_000)
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--least", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.least:
        print(json.dumps(least(options.frames, options.repetitions)))
        return 0
    if options.against:
        against(options.against.resolve(), options.runs)
        return 0
    return beside_the_bare_loop(options.frames, options.repetitions)


def beside_the_bare_loop(frames: int, repetitions: int) -> int:
    jobs = jobs_of(frames, Revision.DRAFT_2)
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repetitions):
        for name, job in jobs.items():
            times[name].append(seconds_for(job, frames))

    print(f"CPython {platform.python_version()}, {frames} frames, {BODY}-byte bodies, {CHUNK // 1024} KiB chunks,")
    print(f"medians of {repetitions} alternating repetitions")
    for name, taken in times.items():
        rate = frames / statistics.median(taken)
        print(f"  {name:<36} {rate:>12,.0f}/s   (best {frames / min(taken):,.0f}/s)")
    pairs = zip(times["Connection, reading"], times["bare parse loop"], strict=True)
    ratios = [reading / bare for reading, bare in pairs]
    ratio = statistics.median(ratios)
    print(f"ratio of reading to the bare loop: {ratio:.2f} (from {min(ratios):.2f} to {max(ratios):.2f}), aim {AIM}")
    print(f"again with: python benchmarks/wire.py --frames {frames} --repetitions {repetitions}")
    return int(ratio > AIM)


if __name__ == "__main__":
    sys.exit(main())
