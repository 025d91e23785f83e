"""Tables of the audit, as queries that both engines run.

`tables.sql` has them.

Nothing compares the clocks of two machines. Within one run of an instance, (file, ordinal) is the order of all that it
recorded; between two instances, only what TCP promises is used: what was sent before Y on a connection came before Y.
Ids say nothing of order, as each run begins them at another place (T-40), and names of files follow a clock that may
have been set back between two runs: so one connection counts as later than another where both ends' recordings say so.
So a message is called lost only where the receiver's own recording shows that it went past it, or that the sender went
on without it. If a recording ends early, the answer is "unproven" or null, never "lost".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.resources import files
from string import Formatter
from typing import Any, NamedTuple

from tolliver_proto.node import PROBE_CHANNEL, RESERVED_CHANNEL

Row = dict[str, Any]
PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class Query(NamedTuple):
    """A table that is made of others. `kept`: of its rows others are made more than once."""

    text: str
    kept: bool


def _queries() -> dict[str, Query]:
    text = files(__package__).joinpath("tables.sql").read_text("utf-8")
    found = re.findall(r"^CREATE (VIEW|TABLE) (\w+) AS\n(.*?);$", text, re.MULTILINE | re.DOTALL)
    return {name: Query(query, kind == "TABLE") for kind, name, query in found}


QUERIES = _queries()
"""By name, all that are made of `facts` (see `_facts`), of `files`, and of each other."""


def in_braces(text: str) -> set[str]:
    """Names of the tables and values that a query names."""
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def texts(values: Iterable[str]) -> str:
    """A list of texts as SQL has it. Raises ValueError where one would need quoting, which differs."""
    listed = list(values)
    for value in listed:
        if not value.replace("-", "").replace(".", "").isalnum():
            raise ValueError(f"{value!r} cannot stand in a query")
    return "({})".format(", ".join(f"'{value}'" for value in listed) or "''")


def _latencies() -> str:
    """Seconds from the first sending to the first ack, by the sender's clock alone."""
    seconds = "(unix_micros(first_acked) - unix_micros(first_sent)) / 1e6"
    # The last number is how exact a percentile's rank is: far finer than what is shown.
    found = [f"percentile_approx({seconds}, {share}, 10000) AS {name}" for name, share in PERCENTILES.items()]
    return ", ".join([*found, f"max({seconds}) AS max"])


VALUES = {
    "far": str(2**63 - 1),  # behind every place
    # Both ends say that the sender went on: it sent something newer, on a later connection of the receiver's.
    "left_behind": "newest_since > last_place AND newest_place > their_place",
    "last_id": str(2**31 - 2),  # T-40: ids run from 1 to this, and begin again
    "latencies": _latencies(),
    "private": texts((RESERVED_CHANNEL, PROBE_CHANNEL)),  # no application has sent what is on these
    "small_gap": str(10**6),  # ids
}
"""Of the names in braces, those that are the same in every audit."""
