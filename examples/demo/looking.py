"""Look of Spark at the demo's table and recordings, afterwards."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from tolliver_transports.spark.local import local_session, missing

from .child import DRIVER, RECORDINGS, SUBSCRIBERS, TABLE
from .processes import DemoError
from .verdict import tally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def look_with_spark(console: Console, directory: Path) -> int:
    """Have Spark look at the table and at the recordings; returns the exit status. Without Spark, say what to do."""
    reason = missing()
    if reason is not None:
        console.print(f"No audit of the recordings by Spark: {reason}.", highlight=False, markup=False)
        return 0
    console.print("Spark audits the recordings of the three processes, which takes a minute or more.", style="dim")
    with local_session() as spark:
        status = look_at_table(console, spark, directory) if (directory / TABLE).exists() else 0
        return max(status, audit_recordings(console, spark, directory))


def look_at_table(console: Console, spark: SparkSession, directory: Path) -> int:
    """Check that the table has every reading once; returns the exit status."""
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


def audit_recordings(console: Console, spark: SparkSession, directory: Path) -> int:
    """Audit what went over the wires; returns the exit status."""
    from tolliver_transports.spark.audit import audit

    from .curves import curves_of

    page = directory / "report.html"
    with audit(spark, [directory / RECORDINGS]) as found:
        found.write_html(page, curves_of(spark, directory / RECORDINGS / next(iter(SUBSCRIBERS))))
        rows = found.by_receiver()
        for end in SUBSCRIBERS:  # the driver stages what it gets, and records nothing beside
            counts = ", ".join(f"{name} {count:,}" for name, count in rows.get(end, {}).items())
            console.print(f"  to {end}: {counts}", highlight=False, markup=False)
            if not rows.get(end, {}).get("delivered"):
                raise DemoError(f"the recordings say nothing of what came to {end}: see {directory / RECORDINGS}")
        lost = found.lost
    console.print(f"lost = {lost:,}", style="bold red" if lost else "green", highlight=False)
    console.print(f"The report, to open in a browser: {escape(str(page))}", highlight=False)
    return 1 if lost else 0
