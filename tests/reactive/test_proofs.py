"""Stack and memory of an application that answers everything while it handles it (3.3, 3.13).

Both are counted.
"""

from __future__ import annotations

import sys

from . import proofs

ELEMENTS, CYCLES = 40_000, 6_000


def test_each_element_asks_for_the_next_one() -> None:
    """3.3: the stack is as deep at the last element as at the first, and the limit is low."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(proofs.depth() + 60)
    try:
        assert proofs.one_by_one(ELEMENTS) == proofs.one_by_one(2)
    finally:
        sys.setrecursionlimit(limit)


def test_a_stream_that_is_cancelled_leaves_nothing() -> None:
    """3.13: the slope is zero."""
    first, *_, last = proofs.subscribe_and_cancel(CYCLES)
    assert abs(last - first) < 2048, "bytes kept of some thousand streams"
