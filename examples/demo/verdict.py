"""The verdict on each message, from the logs alone.

The check is to drain, then to compare sets. A reliable message is lost when the publisher logged it as stored and the
subscriber that wants it never logged it. One that was delivered though the publisher was killed before it could log it
as stored is "unlogged", never lost; one that nobody sent is an invention, and as bad as a loss.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table

from .child import PUBLISHER, SUBSCRIBERS
from .log import read_lines


@dataclass(frozen=True)
class Tally:
    """One subscriber's messages. `lost` and `invented` must be empty."""

    name: str
    sent: int
    stored: int
    delivered: int
    duplicates: int
    resent: int
    unlogged: int
    lost: tuple[str, ...]
    invented: tuple[str, ...]
    rate: float

    @property
    def good(self) -> bool:
        return self.delivered > 0 and not self.lost and not self.invented


def judge(directory: Path) -> list[Tally]:
    """A tally for each subscriber."""
    return [_judge_log(directory, name, channels) for name, channels in SUBSCRIBERS.items()]


def _judge_log(directory: Path, name: str, channels: tuple[str, ...]) -> Tally:
    copies: Counter[str] = Counter()
    times: list[float] = []
    for kind, *words in read_lines(directory, name):
        if kind == "got":
            copies[words[0]] += 1
            times.append(float(words[2]))
    return tally(directory, name, copies, channels, max(times) - min(times) if times else 0.0)


def tally(
    directory: Path, name: str, copies: Counter[str], channels: tuple[str, ...] = ("",), seconds: float = 0.0
) -> Tally:
    """The tally of one who wanted these channels, from how many copies of each message it had."""
    published: dict[str, set[str]] = {"sent": set(), "stored": set()}
    for kind, *words in read_lines(directory, PUBLISHER):
        if kind in published and (words[1] in channels or "" in channels):
            published[kind].add(words[0])
    sent, stored = published["sent"], published["stored"]
    return Tally(
        name=name,
        sent=len(sent),
        stored=len(stored),
        delivered=len(copies),
        duplicates=sum(count > 1 for count in copies.values()),
        resent=copies.total() - len(copies),
        unlogged=len(copies.keys() - stored),
        lost=tuple(sorted(stored - copies.keys())),
        invented=tuple(sorted(copies.keys() - sent)),
        rate=len(copies) / seconds if seconds else 0.0,
    )


def table_of(tallies: list[Tally]) -> Table:
    """One row for each subscriber."""
    table = Table(title="What became of each reliable message", box=SIMPLE_HEAD, padding=0, pad_edge=False)
    table.add_column("to")
    for heading in ("sent", "stored", "delivered", "duplicates", "resent", "unlogged", "lost", "rate"):
        table.add_column(heading, justify="right", no_wrap=True)
    for tally in tallies:
        numbers = (tally.sent, tally.stored, tally.delivered, tally.duplicates, tally.resent, tally.unlogged)
        table.add_row(
            tally.name,
            *(f"{number:,}" for number in (*numbers, len(tally.lost))),
            f"{tally.rate:,.0f}/s",
            style=None if tally.good else "bold red",
        )
    return table


LEGEND = """\
sent: handed to send; stored: on the publisher's disk, as it was told; delivered: handled by the subscriber;
duplicates: of these, handled more than once; resent: the copies beyond the first;
unlogged: delivered, and the publisher was killed before it could log them as stored; lost: stored, never delivered."""


def explained(tallies: list[Tally]) -> Iterator[str]:
    """A sentence for each number that is not the one beside it."""
    most = max((tally.sent for tally in tallies), default=0)
    for tally in tallies:
        name = tally.name
        if tally.sent < most:
            channels = " and ".join(SUBSCRIBERS.get(name, ()))
            yield f"{name}: {tally.sent:,} sent and not {most:,}, as {name} wants {channels} alone"
        if apart := tally.sent - tally.stored:
            arrived = tally.unlogged - len(tally.invented)
            never = f", {apart - arrived:,} did not" if apart > arrived else ""
            yield (
                f"{name}: sent {tally.sent:,} - stored {tally.stored:,} = {apart:,} not logged as stored "
                f"before the kill: {arrived:,} arrived{never}"
            )
        if tally.delivered != tally.stored:
            parts = f"stored {tally.stored:,} + unlogged {tally.unlogged:,} - lost {len(tally.lost):,}"
            yield f"{name}: delivered {tally.delivered:,} = {parts}"
        if tally.resent:
            yield (
                f"{name}: {tally.resent:,} copies of {tally.duplicates:,} messages came beyond the first, as a kill "
                "took their acks; each is handled at least once"
            )
