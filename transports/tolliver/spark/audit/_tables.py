"""Tables of the audit, as queries that both engines run.

`tables.sql` has their text.

The clocks of two machines are never compared. Within one run of an instance, (file, ordinal) is the order of everything
recorded. Between two instances only TCP's promise is used: a connection delivers in the order of sending. Ids give no
order, as each run starts them at another place (T-40), and file names follow a clock that may have been set back
between two runs; so one connection counts as later than another only if the recordings of both sides say so.

A message counts as lost only if the receiver's own recording shows that it received later ones, or that the sender went
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
    """A table made from others. `kept`: other tables are made from it more than once."""

    text: str
    kept: bool


def _queries() -> dict[str, Query]:
    text = files(__package__).joinpath("tables.sql").read_text("utf-8")
    found = re.findall(r"^CREATE (VIEW|TABLE) (\w+) AS\n(.*?);$", text, re.MULTILINE | re.DOTALL)
    return {name: Query(query, kind == "TABLE") for kind, name, query in found}


QUERIES = _queries()
"""By name, all tables made from `facts` (see `_facts`), `files`, and each other."""


def in_braces(text: str) -> set[str]:
    """Names of tables and values that a query uses."""
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def texts(values: Iterable[str]) -> str:
    """A list of texts in SQL. Raises ValueError for one with a character that needs escaping, as the engines' rules
    differ.
    """
    listed = list(values)
    for value in listed:
        if not value.replace("-", "").replace(".", "").isalnum():
            raise ValueError(f"{value!r} cannot stand in a query")
    return "({})".format(", ".join(f"'{value}'" for value in listed) or "''")


def _latencies() -> str:
    """SQL for seconds from the first sending to the first ack, both by the sender's clock."""
    seconds = "(unix_micros(first_acked) - unix_micros(first_sent)) / 1e6"
    # The last argument is the accuracy of a percentile's rank, far finer than shown.
    found = [f"percentile_approx({seconds}, {share}, 10000) AS {name}" for name, share in PERCENTILES.items()]
    return ", ".join([*found, f"max({seconds}) AS max"])


VALUES = {
    "far": str(2**63 - 1),  # after every place
    # Recorded by both sides: the sender sent newer messages on a later connection of the receiver.
    "left_behind": "newest_since > last_place AND newest_place > their_place",
    "last_id": str(2**31 - 2),  # ids run from 1 to this, and start again (T-40)
    "latencies": _latencies(),
    "private": texts((RESERVED_CHANNEL, PROBE_CHANNEL)),  # channels of the protocol, not of applications
    "small_gap": str(10**6),  # number of ids
}
"""Of the names in braces, those that are the same in every audit."""
