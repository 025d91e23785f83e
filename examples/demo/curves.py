"""Charts of the readings for the demo's report.

They are read from the recording of the subscriber that wants all, as a data engineer would read them. Bodies are JSON;
of each field the mean of each second is taken.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from pyspark.sql import SparkSession
from tolliver.spark.audit import Curves

SHOWN = {"load": ("1 min", "5 min", "15 min"), "memory": ("percent",)}
"""The fields of each channel that say something by themselves: the others are counters."""


def curves_of(spark: SparkSession, recordings: Path) -> list[Curves]:
    """A chart for each channel in `SHOWN` that has readings."""
    rows = (
        spark.read.format("tolliver")
        .option("channels", ",".join(SHOWN))
        .schema("channel STRING, key STRING, body BINARY")
        .load(str(recordings))
        .selectExpr("channel", "key", "from_json(decode(body, 'utf-8'), 'field STRING, value DOUBLE, at DOUBLE') AS it")
        .selectExpr("channel", "key", "it.field", "it.value", "floor(it.at) AS second")
        .where(" OR ".join(f"channel = '{channel}' AND field IN {fields_of(channel)}" for channel in SHOWN))
        .groupBy("channel", "key", "field", "second")
        .mean("value")
        .orderBy("second")
    )
    charts: defaultdict[str, defaultdict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows.collect():
        charts[row.channel][f"{row.key}, {row.field}"].append((row.second + 0.5, row["avg(value)"]))
    return [Curves(channel, charts[channel]) for channel in SHOWN if channel in charts]


def fields_of(channel: str) -> str:
    return f"({', '.join(repr(field) for field in SHOWN[channel])})"
