"""Spark's judgement of the table and of the recordings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from tolliver.spark.local import local_session, missing

from .child import DRIVER, RECORDINGS, SUBSCRIBERS, TABLE
from .processes import DemoError
from .verdict import tally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COUNTS = ("sent", "delivered", "unrecorded", "unproven", "pending", "lost", "resent")
_BETWEEN = (
    ("unrecorded", "+", "that the publisher's recording lacks: the kill took its last moment"),
    ("unproven", "-", "acknowledged, but the receiver was killed before it had recorded them"),
    ("pending", "-", "sent to one who was killed, and not acknowledged: they came when it was back, or wait"),
    ("lost", "-", "lost"),
)


def audit_with_spark(console: Console, directory: Path) -> int:
    """Have Spark look at the table and at the recordings; returns the exit status. Without Spark, say what to do."""
    reason = missing()
    if reason is not None:
        console.print(f"No audit of the recordings by Spark: {reason}.", highlight=False, markup=False)
        return 0
    console.print("Spark reads the table, and audits the recordings of all processes.", style="dim")
    bar = Progress(
        BarColumn(30),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        shown = bar.add_task("Spark starts", total=None)
        with local_session() as spark:
            bar.update(shown, description="the table")
            status = audit_table(console, spark, directory) if (directory / TABLE).exists() else 0

            def told(done: int, total: int) -> None:
                bar.update(shown, completed=done, total=total, description="the recordings")

            return max(status, audit_recordings(console, spark, directory, told))


def audit_table(console: Console, spark: SparkSession, directory: Path) -> int:
    """Say if the table has every reading once; returns the exit status."""
    counted = spark.read.parquet(str(directory / TABLE)).groupBy("id").count().collect()
    found = tally(directory, DRIVER, Counter({str(row[0]): int(row[1]) for row in counted}))
    good = found.good and not found.duplicates
    told = f"the table has {found.delivered:,} of {found.stored:,} stored readings"
    unlogged = f" and {found.unlogged:,} unlogged ones" if found.unlogged else ""
    console.print(
        f"{told}{unlogged}: {len(found.lost):,} lost, {found.duplicates:,} twice, {len(found.invented):,} never sent",
        style="green" if good else "bold red",
        highlight=False,
    )
    return 0 if good else 1


def audit_recordings(
    console: Console, spark: SparkSession, directory: Path, progress: Callable[[int, int], object] | None = None
) -> int:
    """Show the audit of all recordings; returns the exit status."""
    from tolliver.spark.audit import audit

    from .curves import curves_of

    page = directory / "report.html"
    recorded = [name for name in (*SUBSCRIBERS, DRIVER) if (directory / RECORDINGS / name).exists()]
    with audit(spark, [directory / RECORDINGS]) as found:
        found.write_html(page, curves_of(spark, directory / RECORDINGS / next(iter(SUBSCRIBERS))), progress)
        rows = found.by_receiver()
        for end in recorded:
            if not rows.get(end, {}).get("delivered"):
                raise DemoError(f"the recordings say nothing of what came to {end}: see {directory / RECORDINGS}")
        lost = found.lost
    told = {end: rows[end] for end in recorded}
    console.print(table_of(told))
    for line in explained(told):
        console.print(f"  {line}", highlight=False, markup=False)
    console.print(f"lost = {lost:,}", style="bold red" if lost else "green", highlight=False)
    console.print(f"The report, to open in a browser: {escape(str(page))}", highlight=False)
    return 1 if lost else 0


_Counts = Mapping[str, Mapping[str, int | None]]


def table_of(rows: _Counts) -> Table:
    """One row for each receiver that recorded."""
    table = Table(title="The same, as the recordings tell it", box=SIMPLE_HEAD, padding=0, pad_edge=False)
    table.add_column("to")
    for heading in _COUNTS:
        table.add_column(heading, justify="right", no_wrap=True)
    for end, row in rows.items():
        table.add_row(end, *("-" if row[name] is None else f"{row[name]:,}" for name in _COUNTS))
    return table


def explained(rows: _Counts) -> Iterator[str]:
    """A sentence for each receiver whose numbers differ."""
    for end, row in rows.items():
        parts = [f"{sign} {row[name]:,} {words}" for name, sign, words in _BETWEEN if row[name]]
        if parts:
            yield f"{end}: delivered {row['delivered']:,} = sent {row['sent']:,} {', '.join(parts)}"
        if row["resent"]:
            yield f"{end}: {row['resent']:,} copies were sent again, as connections ended before their acks came"
