"""Speed of a Connection, beside the least that Python can do.

    python benchmarks/wire.py [--frames 200000] [--repetitions 9]

Reading: frames with 100-byte bodies on a live connection, fed in chunks of 64 KiB, every event taken. The yardstick is
a bare loop over the same chunks that only unpacks the head, cuts the frame and makes one slotted object: no limits, no
reserved channel, no acks, no states, no errors. Both run alternately in this process; the figures are medians, so the
ratio holds on a busy machine where the absolute numbers do not. The aim is a ratio of 1.5 or less (exit status 1 above
it). A ratio below 1 is possible: the Connection decodes a name once, the bare loop each time.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import struct
import sys
import time
from collections.abc import Callable
from uuid import UUID

from tolliver_proto import Connection, Message, Revision, Role, encode

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


def live_pair() -> tuple[Connection, Connection]:
    """A client and a server after their handshake."""
    client = Connection(Role.CLIENT, instance_id=ONE)
    server = Connection(Role.SERVER, instance_id=TWO)
    server.receive_data(b"".join(client.data_to_send()))
    server.next_event()
    server.accept()
    server.next_event()
    client.receive_data(b"".join(server.data_to_send()))
    list(client.events())
    return client, server


def connection_reads(chunks: list[bytes]) -> int:
    server = live_pair()[1]
    found = 0
    for chunk in chunks:
        server.receive_data(chunk)
        for _event in server.events():
            found += 1
    return found


def encoded_one_by_one(messages: list[Message]) -> int:
    for message in messages:
        encode(message, Revision.DRAFT_2)
    return len(messages)


def connection_writes(messages: list[Message]) -> int:
    client = live_pair()[0]
    for at in range(0, len(messages), 500):
        for message in messages[at : at + 500]:
            client.send(message)
        client.data_to_send()
    return len(messages)


def acks_of_runs(ids: list[int]) -> int:
    client = live_pair()[0]
    for at in range(0, len(ids), 64):
        client.send_acks(ids[at : at + 64])
    client.data_to_send()
    return len(ids)


def seconds_for(job: Callable[[], int], frames: int) -> float:
    start = time.perf_counter()
    done = job()
    took = time.perf_counter() - start
    assert done == frames, (done, frames)
    return took


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=200_000)
    parser.add_argument("--repetitions", type=int, default=9)
    options = parser.parse_args()
    frames = options.frames

    body = bytes(range(BODY))
    messages = [Message(CHANNEL, KEY, body, number % 2**31) for number in range(1, frames + 1)]
    data = b"".join(map(encode, messages))
    chunks = [data[at : at + CHUNK] for at in range(0, len(data), CHUNK)]
    ids = list(range(1, frames + 1))
    jobs: dict[str, Callable[[], int]] = {
        "bare parse loop": lambda: bare_loop(chunks),
        "Connection, reading": lambda: connection_reads(chunks),
        "encode(), one by one": lambda: encoded_one_by_one(messages),
        "Connection, send and drain by 500": lambda: connection_writes(messages),
        "Connection, acks in runs of 64": lambda: acks_of_runs(ids),
    }
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(options.repetitions):
        for name, job in jobs.items():
            times[name].append(seconds_for(job, frames))

    print(f"CPython {platform.python_version()}, {frames} frames, {BODY}-byte bodies, {CHUNK // 1024} KiB chunks,")
    print(f"medians of {options.repetitions} alternating repetitions")
    for name, taken in times.items():
        rate = frames / statistics.median(taken)
        print(f"  {name:<36} {rate:>12,.0f}/s   (best {frames / min(taken):,.0f}/s)")
    pairs = zip(times["Connection, reading"], times["bare parse loop"], strict=True)
    ratios = [reading / bare for reading, bare in pairs]
    ratio = statistics.median(ratios)
    print(f"ratio of reading to the bare loop: {ratio:.2f} (from {min(ratios):.2f} to {max(ratios):.2f}), aim {AIM}")
    print(f"again with: python benchmarks/wire.py --frames {frames} --repetitions {options.repetitions}")
    return int(ratio > AIM)


if __name__ == "__main__":
    sys.exit(main())
