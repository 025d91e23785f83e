"""Scale: a small network converges, at a cost per connection.

Large ones: `python -m scripts.prove.scale`.
"""

from __future__ import annotations

import pytest

from scripts.prove.crowd import COMMIT, LATENCY, TOPOLOGIES, Crowd
from scripts.prove.scale import crowded_node, exponent, routing

NODES, EACH = 20, 10  # subscriptions of each
HANDSHAKE, CHANGES = 2, 8  # frames over each connection: one way each; two changes each way, and their acks


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_everybody_knows_what_everybody_wants(topology: str) -> None:
    crowd = Crowd(NODES, NODES * EACH)
    edges = list(TOPOLOGIES[topology](NODES))
    joined = crowd.join(edges)
    assert crowd.ends == 2 * len(edges)
    assert list(crowd.strangers()) == []
    assert joined.frames == HANDSHAKE * len(edges), "frames grow with connections, and with nothing else"
    assert joined.seconds == pytest.approx(3 * LATENCY + 2 * COMMIT), "a dial, a request, a response, two lists stored"
    changed = crowd.change()
    assert list(crowd.strangers()) == []
    assert changed.frames == CHANGES * len(edges)


def test_a_list_that_did_not_arrive_is_told() -> None:
    crowd = Crowd(3, 3)
    crowd.join([(0, 1)])
    crowd.members[0].node.subscribe("new", "")
    assert list(crowd.strangers()) == ["1 does not know what 0 wants"]


def test_strangers_beyond_the_bound_come_in_later() -> None:
    """D-7: 256 at once; the others dial again."""
    crowd = Crowd(270, 0)
    crowd.join((one, 0) for one in range(1, 270))
    assert crowd.refused >= 269 - 256
    assert list(crowd.strangers()) == []


def test_a_connection_costs_little_and_routing_the_same_for_all() -> None:
    """V19, I6; the sizes that count are those of the script."""
    traced, _, _ = crowded_node(200)
    assert traced < 16 * 2**10
    assert routing(10, messages=100) > 0


def test_a_power_is_found_again() -> None:
    assert exponent([(n, 3 * n**2) for n in (10, 30, 100)]) == pytest.approx(2)
