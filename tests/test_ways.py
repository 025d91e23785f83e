"""Ways of a message on docs/architecture.md: only hops that are called, in their order, can be drawn."""

from __future__ import annotations

import sys
import threading

import pytest

from scripts.draw.rooms import PAGE
from scripts.ways import WAYS, Call, Hop, Way, found, recorded, table


def test_every_hop_of_the_page_is_called_in_its_order() -> None:
    """All ways are one row of calls: what the sender does is not taken for the receiver's."""
    places = [place for way in found(WAYS, recorded()) for place in way]
    assert places == sorted(places)
    assert [recorded()[place].place for place in places] == [hop.place for way in WAYS for hop in way.hops]


def test_the_page_leads_from_an_ack_to_the_row() -> None:
    page = PAGE.read_text("utf-8")
    section = page.partition("### From the ack to the deleted row")[2].partition("###")[0]
    assert "`Deliveries.remove`" in section
    assert "**deletes the row of `owed`**" in section


ONE = Hop("_node/node.py", "Node.send", "asks")
TWO = Hop("_store/sqlite.py", "SQLiteStore.commit", "stores")
BETWEEN = Hop("_driver/jobs.py", "Jobs.put")
CALLS = [
    Call(TWO.place, (), True),
    Call(ONE.place, (), True),
    Call(BETWEEN.place, (1,), True),
    Call(TWO.place, (2, 1), True),
    Call(ONE.place, (), False),
]


@pytest.mark.parametrize(
    ("hops", "missing"),
    [
        ((ONE, Hop("_node/node.py", "Node.sent")), "_node/node.py Node.sent"),
        ((ONE, TWO, BETWEEN), "_driver/jobs.py Jobs.put"),
        ((ONE, TWO, TWO), "_store/sqlite.py SQLiteStore.commit"),
        ((Hop("_node/links/node.py", "Node.send"),), "_node/links/node.py Node.send"),
    ],
    ids=["of another name", "too early", "once only", "in another file"],
)
def test_a_hop_that_is_not_called_there_is_no_way(hops: tuple[Hop, ...], missing: str) -> None:
    with pytest.raises(
        LookupError, match=rf"^way: {missing} is not called after the hop before it: .*scripts/ways\.py"
    ):
        found([Way("way", hops)], CALLS)


def test_a_way_names_the_row_in_whose_call_a_hop_is() -> None:
    way = Way("way", (ONE, TWO, ONE))
    [places] = found([way], CALLS)
    assert places == [1, 3, 4]
    assert [*table(way, CALLS, places)][2:] == [
        "| 1 | `_node/node.py` | `Node.send` | the loop | asks |",
        "| 2 | `_store/sqlite.py` | `SQLiteStore.commit` | 1 | stores |",
        "| 3 | `_node/node.py` | `Node.send` | the store's thread | asks |",
    ]


def test_nothing_of_the_recording_stays_on() -> None:
    recorded.cache_clear()
    assert len(recorded()) > len(WAYS)
    assert (sys.getprofile(), threading.getprofile()) == (None, None)
