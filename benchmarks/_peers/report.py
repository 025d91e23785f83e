"""Report: ratios, aims, the table as Markdown, and the same as JSON."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
import sqlite3
import ssl
import statistics
import subprocess
from contextlib import suppress
from dataclasses import asdict
from itertools import groupby
from typing import Any

from benchmarks._peers.brokers import NotThere, path_of
from benchmarks._peers.rows import Aim
from benchmarks._peers.running import ROOT, Result, Table

PACKAGES = (
    "anyio",
    "uvloop",
    "trio",
    "pyzmq",
    "picows",
    "websockets",
    "nats-py",
    "paho-mqtt",
    "redis",
    "hiredis",
    "rsocket",
)
HEAD = ("work", "contestant", "figure", "ratio", "also", "aim: is it met?")
UNITS = {
    "p99": " us",
    "work p50": " us",
    "work p99": " us",
    "quiet": " us",
    "flooded": " us",
    "quiet work": " us",
    "flooded work": " us",
    "server busy": " %",
}
MET = {True: ": yes", False: ": no", None: ""}
SECURED = (
    "Ours with mutual TLS, but for what is called plain; the others in the clear, but for memory, where all have TLS."
)


def ratio(table: Table, result: Result) -> float | None:
    """The median of the runs' ratios to the yardstick of the same run; None where it was left out."""
    beside = table.result(result.row, result.row.yardstick)
    if beside is None:
        return None
    figure = result.row.figure
    return statistics.median(
        ours[figure] / theirs[figure] for ours, theirs in zip(result.runs, beside.runs, strict=True)
    )


def bound(table: Table, result: Result, aim: Aim) -> float | None:
    """The aim as a number; None where the contestant that it is made of was left out."""
    if aim.of:
        beside = table.result(result.row, aim.of)
        return None if beside is None else aim.bound * beside.median(aim.figure or result.row.figure)
    return aim.bound * (result.median(aim.of_figure) if aim.of_figure else 1)


def is_met(table: Table, result: Result, aim: Aim) -> bool | None:
    limit, value = bound(table, result, aim), result.median(aim.figure or result.row.figure)
    if limit is None:
        return None
    return value >= limit if aim.at_least else value <= limit


def words(aim: Aim) -> str:
    of = aim.of or aim.of_figure
    text = f"{'at least' if aim.at_least else 'at most'} {aim.bound:,.10g}"
    return " ".join(filter(None, (aim.stage, aim.figure, text, f"times {of}" if of else "")))


def figure(value: float) -> str:
    """Three digits that count."""
    if abs(value) >= 100:
        digits = len(str(int(abs(value)))) - 3
        return f"{round(value, -digits):,.0f}"
    return f"{value:.3g}"


# The table.


def lines_of(data: dict[str, Any]) -> list[str]:
    """Lines of the table and of what is around it, from what the JSON file has: both say the same."""
    cells = [cells_of(row, contestant) for row in data["rows"] for contestant in row["contestants"]]
    versions = ", ".join(f"{name} {version}" for name, version in data["versions"].items())
    pinned = "each end on a core of its own" if data["cores"] else "not pinned"
    return [
        *aligned([HEAD, *cells]),
        "",
        SECURED,
        *notes_of(data),
        *(f"- left out of {one['row']}: {one['contestant']}: {one['reason']}" for one in data["left_out"]),
        "",
        f"Medians of {data['runs']} runs of {data['seconds']:g} s each, in turns, {pinned}; "
        f"{data['date']}, commit {data['commit']}.",
        f"{data['machine']}, load {data['load']} before; {versions}.",
    ]


def cells_of(row: dict[str, Any], contestant: dict[str, Any]) -> tuple[str, ...]:
    """Its line in the table; the work is named in the first line of a row only."""
    name, times = contestant["name"], contestant["ratio"]
    also = (f"{key} {figure(value)}{UNITS.get(key, '')}" for key, value in contestant["also"].items())
    aims = (f"{aim['text']}{MET[aim['met']]}" for aim in contestant["aims"])
    return (
        f"{row['name']}, {row['unit']}" if contestant is row["contestants"][0] else "",
        f"**{name}**" if contestant["ours"] else name,
        figure(contestant["value"]),
        "yardstick" if name == row["yardstick"] else "" if times is None else figure(times),
        ", ".join(also),
        "; ".join(aims),
    )


def notes_of(data: dict[str, Any]) -> list[str]:
    """Each note once, with its contestants and their rows."""
    noted: dict[str, dict[str, list[str]]] = {}
    for row in data["rows"]:
        for contestant in row["contestants"]:
            if note := contestant["note"]:
                noted.setdefault(note, {}).setdefault(contestant["name"], []).append(row["name"])
    return [
        f"- {note}: " + "; ".join(f"{name} ({', '.join(rows)})" for name, rows in names.items())
        for note, names in noted.items()
    ]


def aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """A Markdown table whose columns also stand straight in a terminal."""
    widths = [max(3, *map(len, column)) for column in zip(*rows, strict=True)]

    def line(row: tuple[str, ...]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"

    return [line(rows[0]), "|" + "|".join("-" * (width + 2) for width in widths) + "|", *map(line, rows[1:])]


# The JSON file.


def circumstances(seconds: float, runs: int, cores: tuple[int, ...]) -> dict[str, Any]:
    """The facts of a run that can be known before it. `load` says whether the machine has done something else."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": machine(),
        "load": round(os.getloadavg()[0], 1),
        "versions": versions(),
        "cores": list(cores),
        "seconds": seconds,
        "runs": runs,
    }


def data_of(table: Table, facts: dict[str, Any]) -> dict[str, Any]:
    by_row = groupby(table.results, key=lambda result: result.row.name)
    return {
        **facts,
        "secured": SECURED,
        "rows": [_row(table, [*results]) for _, results in by_row],
        "left_out": [asdict(one) for one in table.left_out],
    }


def _row(table: Table, results: list[Result]) -> dict[str, Any]:
    row = results[0].row
    return {
        "name": row.name,
        "title": row.title,
        "unit": row.unit,
        "figure": row.figure,
        "more_is_better": row.more_is_better,
        "yardstick": row.yardstick,
        "contestants": [_contestant(table, result) for result in results],
    }


def _contestant(table: Table, result: Result) -> dict[str, Any]:
    also = [name for name in result.runs[0] if name != result.row.figure]
    return {
        "name": result.contestant.name,
        "ours": result.contestant.is_ours,
        "value": result.median(result.row.figure),
        "ratio": ratio(table, result),
        "also": {name: result.median(name) for name in also},
        "runs": result.runs,
        "aims": [
            {"text": words(aim), "bound": bound(table, result, aim), "met": is_met(table, result, aim)}
            for aim in result.contestant.aims
        ],
        "note": result.contestant.note,
    }


def machine() -> str:
    model = ""
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        found = re.search(r"^model name\s*: (.+)$", file.read(), re.MULTILINE)
        model = f", {found[1]}" if found else ""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores{model}"


def versions() -> dict[str, str]:
    """Of Python, what it brings, the packages and the brokers, as far as they are installed."""
    found = {
        "Python": platform.python_version(),
        "SQLite": sqlite3.sqlite_version,
        "OpenSSL": ssl.OPENSSL_VERSION.removeprefix("OpenSSL ").split()[0],
    }
    for package in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    for broker, option in (("nats-server", "--version"), ("redis-server", "--version"), ("mosquitto", "-h")):
        with suppress(NotThere):
            said = subprocess.run([path_of(broker), option], capture_output=True, text=True, check=False).stdout
            found[broker] = number[0] if (number := re.search(r"\d+(\.\d+)+", said)) else "?"
    return found


def commit() -> str:
    """Of the checkout; with "+" where something in it has been changed since."""
    try:
        name = _git("rev-parse", "--short", "HEAD")
        return name + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    return subprocess.check_output(["git", *arguments], cwd=ROOT, text=True, stderr=subprocess.DEVNULL).strip()
