"""Two promises of Reactive Streams, by number of elements and streams.

`streams_proof.py [COUNT]`: 1,000,000 by default.

    3.3   an element asks for the next one while it is handled: the stack stays as deep as it is, under a limit of 200
    3.13  a stream that is cancelled leaves nothing: the memory that is traced does not grow with their number

The proofs are functions of a number (`tests/reactive/proofs.py`), over two hubs. Exit status 1 if one fails.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent)]  # the proofs are beside the tests that use them

from tests.reactive import proofs  # noqa: E402  # the line above comes first

_STACK = 200
_SLOPE = 0.01  # bytes for each stream: less than one object for a thousand


def main(arguments: list[str]) -> int:
    count = int(arguments[0]) if arguments else 1_000_000
    sys.setrecursionlimit(_STACK)
    began = time.monotonic()
    deepest = proofs.one_by_one(count)
    seconds = time.monotonic() - began
    print(f"3.3   {count:,} elements, one request each: {deepest} frames at most, {count / seconds:,.0f}/s")
    began = time.monotonic()
    first, *_, last = sizes = proofs.subscribe_and_cancel(count)
    seconds = time.monotonic() - began
    slope = (last - first) / (count * (len(sizes) - 1) / len(sizes))
    print(
        f"3.13  {count:,} subscriptions cancelled: {sizes} bytes traced, {slope:.6f} for each, {count / seconds:,.0f}/s"
    )
    return int(abs(slope) > _SLOPE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
