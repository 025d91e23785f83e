"""Linear time of a large frame that comes byte by byte (V12).

    python -m scripts.prove.linear [MIB]     8 and 16 MiB by default, read by bare connections

A reader in linear time takes twice as long for twice as much. Here no socket is between, so nothing else counts;
`hostile.py linear` is the same over TLS. CPU time, the best of three runs, in turns: what else a machine does comes and
goes. Exit status 1 above 2.3 times.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

from tolliver_proto import Message, encode, reactive, testing
from tolliver_proto.reactive import testing as streams

MIB = 2**20
MOST = 2.3
REPETITIONS = 3


def message(size: int) -> tuple[Any, bytes, type]:
    """A connection that is established, a frame for it, and the event that it must become."""
    pair = testing.ConnectionPair()
    pair.run()
    return pair.server.connection, encode(Message("flood", "", bytes(size), 5)), Message


def element(size: int) -> tuple[Any, bytes, type]:
    """The same of a stream, with demand for one element."""
    pair = streams.ConnectionPair()
    pair.run()
    subscriber, publisher = pair.client.connection, pair.server.connection
    stream = subscriber.subscribe("flood", 1)
    pair.run()
    publisher.subscribed(stream)
    pair.run()
    return subscriber, reactive.encode(reactive.OnNext(stream, bytes(size))), reactive.OnNext


def seconds(make: Callable[[int], tuple[Any, bytes, type]], size: int) -> float:
    connection, frame, expected = make(size)
    pieces = [bytes((byte,)) for byte in range(256)]
    events = []
    began = time.process_time()
    for byte in frame:
        connection.receive_data(pieces[byte])
        if (event := connection.next_event()) is not None:
            events.append(event)
    took = time.process_time() - began
    if [type(event) for event in events] != [expected]:
        raise SystemExit(f"{len(frame):,} bytes became {events}")
    return took


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mib", type=int, nargs="?", default=16)
    size = parser.parse_args().mib * MIB
    ratios = {}
    for make in (message, element):
        pairs = [(seconds(make, size // 2), seconds(make, size)) for _ in range(REPETITIONS)]
        half, whole = (min(times) for times in zip(*pairs, strict=True))
        ratios[make.__name__] = whole / half
        print(f"{make.__name__} of {size / MIB:g} MiB, byte by byte: {whole:.1f} s, half of it {half:.1f} s")
    figures = ", ".join(f"{name} of twice the size: {ratio:.2f} times as long" for name, ratio in ratios.items())
    print(f"result: V12 | {size / MIB:g} MiB, byte by byte | {figures}")
    return 0 if max(ratios.values()) <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
