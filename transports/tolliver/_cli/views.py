"""Tables for `status` and for `top`.

Their rows are instances, peers, remotes, handlers, queues or notices. A `live` column needs two readings, so `tolliver
status` leaves it out. `letter` is the key that sorts by the column in `tolliver top`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from .endpoints import Part
from .figures import NOTHING, number, size, span
from .trail import Row, Trail, oldest

OLD = 60.0  # seconds of waiting after which a message is coloured
SOON = 30 * 86400.0  # seconds left of a certificate below which it is coloured
GOOD, WARN, BAD, SOFT = "green", "yellow", "bold red", "dim"


class Cell(NamedTuple):
    """Text with a style."""

    text: str
    style: str = ""


class Column(NamedTuple):
    """Column of a table: its heading, and the functions for a row's cell and sort key (`order`)."""

    label: str
    cell: Callable[[Row], str | Cell]
    order: Callable[[Row], float | str] | None = None
    letter: str = ""
    right: bool = True
    live: bool = False


class View(NamedTuple):
    """A table: `rows` of a trail, the columns, a text for no rows, and the letter of the initial sort column."""

    title: str
    rows: Callable[[Trail], list[Row]]
    columns: tuple[Column, ...]
    empty: str
    letter: str = ""


def _of(
    label: str,
    value: Callable[[Row], float | None],
    letter: str = "",
    form: Callable[[float | None], str | Cell] = number,
    live: bool = False,
) -> Column:
    """Makes a column of numbers with the heading `label`, by which rows can be sorted with the key `letter`. `form`
    makes a number's text; `live` columns need two readings, and one status alone leaves them out.
    """
    return Column(label, lambda row: form(value(row)), lambda row: value(row) or 0, letter, live=live)


def _count(
    label: str, name: str, letter: str = "", within: str = "", form: Callable[[float | None], str | Cell] = number
) -> Column:
    return _of(label, lambda row: (row.part.part(within) if within else row.part).number(name), letter, form)


def _rate(label: str, name: str, letter: str = "", within: str = "counters") -> Column:
    return _of(label, lambda row: row.rate(name, within), letter, live=True)


def _text(label: str, name: str, letter: str = "", missing: str = NOTHING) -> Column:
    return Column(
        label, lambda row: row.part.text(name) or missing, lambda row: row.part.text(name), letter, right=False
    )


def _aged(seconds: float | None) -> Cell:
    return Cell(span(seconds or None), WARN if (seconds or 0) > OLD else "")


def _ends(when: float | None, now: float | None) -> Cell:
    if when is None or now is None:
        return Cell(NOTHING)
    left = when - now
    return Cell("ended", BAD) if left <= 0 else Cell(span(left), WARN if left < SOON else "")


# Instances.


def state(trail: Trail) -> Cell:
    """State of an instance, in a word or two."""
    if trail.last is None:
        return Cell("asking", SOFT)
    if not trail.answers or trail.status is None:
        return Cell("away", BAD)
    return Cell("ready", GOOD) if trail.status.flag("ready") else Cell("not ready", BAD)


def _gauges(row: Row) -> Part:
    return row.part.part("gauges")


def _peers(row: Row) -> Cell:
    up, known = _gauges(row).number("peers_up"), _gauges(row).number("peers")
    if up is None or known is None:
        return Cell(NOTHING)
    return Cell(f"{number(up)}/{number(known)}", WARN if up < known else "")


INSTANCES = View(
    "Instances",
    lambda trail: [trail.row],
    (
        Column("name", lambda row: row.trail.name, right=False),
        Column("state", lambda row: state(row.trail), right=False),
        _count("up", "uptime", form=span),
        Column("peers", _peers),
        _count("pending", "pending", within="gauges"),
        _of("oldest", oldest, form=_aged),
        _rate("acked/s", "acked"),
        _rate("handled/s", "handled"),
        Column("endpoint", lambda row: str(row.trail.endpoint), right=False),
        _count("failed", "failed", within="counters"),
        _count("dead letters", "dead_letters", within="gauges"),
        _count("disk free", "disk_free_bytes", within="gauges", form=size),
        Column("cert", lambda row: _ends(_gauges(row).number("certificate_not_after"), row.part.number("time"))),
    ),
    "",
)

# Peers.


def _who(row: Row) -> Cell:
    said = row.part.text("name") or row.part.text("uuid")[-12:]
    return Cell(said or NOTHING, "" if row.part.flag("connected") else SOFT)


def _in_flight(row: Row) -> Cell:
    late = row.part.number("backoff") or 0
    said = number(row.part.number("in_flight"))
    return Cell(f"{said} ({number(late)} late)", WARN) if late else Cell(said)


PEERS = View(
    "Peers",
    lambda trail: trail.rows("peers", "uuid"),
    (
        Column("peer", _who, lambda row: _who(row).text, "n", right=False),
        Column(
            "state",
            lambda row: Cell("up", GOOD) if row.part.flag("connected") else Cell("away", WARN),
            lambda row: row.part.flag("connected"),
            "c",
            right=False,
        ),
        _count("pending", "pending", "p"),
        _count("oldest", "oldest_unacknowledged", "o", form=_aged),
        _rate("acked/s", "acknowledged", "a"),
        _rate("recv/s", "delivered", "d"),
        Column("in flight", _in_flight, lambda row: row.part.number("in_flight") or 0, "f"),
        _count("trip", "round_trip", "t", form=span),
        _count("bytes", "pending_bytes", "b", form=size),
        _count("parked", "parked", "x"),
        Column(
            "cert",
            lambda row: _ends(
                row.part.number("certificate_not_after"), (row.trail.status or Part(None)).number("time")
            ),
            lambda row: -(row.part.number("certificate_not_after") or 1e12),
            "e",
        ),
        _text("address", "address"),
        _text("uuid", "uuid"),
    ),
    "No peer is known yet.",
    "o",
)

# Remotes, handlers, queues.

REMOTES = View(
    "Remotes",
    lambda trail: trail.rows("remotes", "remote"),
    (
        _text("remote", "remote"),
        Column(
            "state",
            lambda row: Cell(
                row.part.text("state"),
                GOOD if row.part.text("state") == "connected" else BAD if row.part.flag("refused") else WARN,
            ),
            lambda row: row.part.text("state"),
            "c",
            right=False,
        ),
        _count("dials", "attempt", "d"),
        _count("next in", "next_in", form=span),
        _text("why", "error"),
    ),
    "Nobody is dialled.",
    "c",
)


def mean(histogram: Part) -> float | None:
    """Mean of a histogram in a status, None if it has no values."""
    count, total = histogram.number("count"), histogram.number("sum")
    return total / count if count and total is not None else None


def _failed(failed: float | None) -> Cell:
    return Cell(number(failed), WARN if failed else "")


CHANNELS = View(
    "Handlers",
    lambda trail: trail.rows("channels", "channel"),
    (
        _text("channel", "channel", "n", "(any)"),
        _count("handlers", "handlers"),
        _count("waiting", "queued", "p"),
        _rate("handled/s", "handled", "a", ""),
        _count("handled", "handled", "d"),
        _count("failed", "failed", "x", form=_failed),
        _of("mean", lambda row: mean(row.part.part("handler_seconds")), "t", span),
    ),
    "Nothing handles messages here.",
    "a",
)
QUEUES = View(
    "Work queues",
    lambda trail: trail.rows("queues", "queue"),
    (
        _text("queue", "queue", "n"),
        _count("waiting", "waiting", "p"),
        _count("running", "running", "f"),
        _count("workers", "workers", "d"),
    ),
    "There is no work queue.",
    "p",
)

# Notices.


def _ago(row: Row) -> float | None:
    now, told = (row.trail.status or Part(None)).number("time"), row.part.number("time")
    return None if now is None or told is None else max(0.0, now - told)


NOTICES = View(
    "Notices",
    lambda trail: trail.rows("notices", "time"),
    (
        Column("ago", lambda row: span(_ago(row)), lambda row: -(_ago(row) or 0), "o"),
        _text("kind", "kind", "k"),
        _text("notice", "text"),
    ),
    "Nothing to tell.",
    "o",
)


def of_all(view: View, trails: Iterable[Trail]) -> list[Row]:
    return [row for trail in trails for row in view.rows(trail)]


def cell(column: Column, row: Row) -> Cell:
    made = column.cell(row)
    return made if isinstance(made, Cell) else Cell(made)
