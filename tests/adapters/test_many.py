"""Very many peers of one instance, and slow ones (V16, V19).

`python -m scripts.prove.hostile slow-reader KIND` and `... many KIND` measure them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import pytest

from tolliver_proto import Limits
from tolliver_proto import reactive as rs

from .nodes import Nodes
from .scenarios import many, slowness, slowness_of_streams
from .streams import Stage

KIB, MIB = 2**10, 2**20


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what is in its kernel's buffers")
def test_who_does_not_read_costs_a_bounded_buffer_and_the_others_nothing(nodes: Nodes) -> None:
    """D-9: 1 MiB and a frame, wherever in this process it is. Reliable messages wait on disk."""
    size = 64 * KIB
    seen = slowness(nodes, messages=40, size=size, samples=10)
    assert 0 < seen.held <= Limits().high_water + size + 100
    assert seen.waiting == 40
    assert seen.arrived == 20


def test_a_subscriber_that_does_not_read_costs_a_bounded_buffer(stage: Stage) -> None:
    """R-32: demand without end is not enough to pull, and others get what they ask for."""
    seen = slowness_of_streams(stage, samples=10)
    assert 0 < seen.held <= rs.Limits().high_water + 4 * 64 * KIB
    assert seen.waiting * 64 * KIB < 16 * MIB, "with all that the kernel takes"


@pytest.mark.skipif(os.name != "posix", reason="the peers need more descriptors than there are by default")
@pytest.mark.parametrize("kind", ["asyncio", "blocking"])
def test_two_hundred_peers_live_and_are_reached(
    nodes: Nodes, kind: str, record_property: Callable[[str, object], None]
) -> None:
    """At least: memory that other tests left behind is used again. Alone in its process, the script is exact."""
    seen = many(nodes, 200)
    record_property(f"KiB at least for each of 200 connections: {kind}", round(seen.each / KIB))
