"""Measurements of `tolliver bench`, and their tables.

A measurement has counts, rates and percentiles of one kind of work at one size.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from enum import StrEnum
from time import perf_counter

from attrs import define, field

from .figures import NOTHING, number, size, span

_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
_TIMES = ("mean", *_SHARES, "max")


class Kind(StrEnum):
    """Kinds of work."""

    PUBLISH = "publish"
    SEND = "send"
    REQUEST = "request"
    STREAM = "stream"


class Times:
    """Durations that a benchmark has measured, in seconds, and their percentiles."""

    def __init__(self) -> None:
        self._values = array("d")
        self.add = self._values.append

    @property
    def count(self) -> int:
        return len(self._values)

    def facts(self) -> dict[str, float]:
        """Mean, percentiles and maximum, by name; empty without values."""
        if not self.count:
            return {}
        values = sorted(self._values)
        shares = {name: values[max(0, math.ceil(share * len(values)) - 1)] for name, share in _SHARES.items()}
        return {"mean": sum(values) / len(values), **shares, "max": values[-1]}


@define(eq=False)
class Measure:
    """One kind of work at one size: `done` of `messages` so far, from `begun` to `ended`."""

    kind: Kind
    size: int
    messages: int
    senders: int
    batch: int = 1
    sent: int = 0
    done: int = 0
    begun: float | None = None
    ended: float | None = None
    complete: bool = False
    times: dict[str, Times] = field(factory=dict)

    def begin(self) -> None:
        self.begun = perf_counter()

    def end(self, at: float | None = None) -> None:
        if self.ended is None:
            self.ended = perf_counter() if at is None else at

    def timed(self, name: str) -> Times:
        """Durations recorded under `name`, in seconds; the caller adds to them."""
        return self.times.setdefault(name, Times())

    @property
    def seconds(self) -> float:
        """Duration so far, or in all, in seconds."""
        return 0.0 if self.begun is None else (self.ended or perf_counter()) - self.begun

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.done / max(self.seconds, 1e-9)

    @property
    def lost(self) -> int | None:
        """Number of messages that were sent but did not arrive; None if unknown."""
        return self.sent - self.done if self.complete else None

    def facts(self) -> dict[str, object]:
        """Results in JSON types, in seconds and bytes."""
        return {
            "kind": self.kind.value,
            "size_bytes": self.size,
            "senders": self.senders,
            "batch": self.batch,
            "messages": self.messages,
            "done": self.done,
            "lost": self.lost,
            "complete": self.complete,
            "seconds": round(self.seconds, 6),
            "messages_per_second": round(self.rate, 1),
            "bytes_per_second": round(self.rate * self.size, 1),
            "times": {
                name: {f"{one}_seconds": round(value, 9) for one, value in times.facts().items()}
                for name, times in self.times.items()
                if times.count
            },
        }

    def lines(self) -> Iterator[list[str]]:
        """Lines of the table: one for each kind of durations, and one if there are none."""
        timed = [(name, times.facts()) for name, times in self.times.items() if times.count]
        for name, facts in timed or [(NOTHING, {})]:
            yield [
                self.kind.value,
                size(self.size),
                str(self.senders),
                f"{self.done:,}" if self.complete else f"{self.done:,} of {self.messages:,}",
                NOTHING if self.lost is None else f"{self.lost:,}",
                f"{number(self.rate)}/s",
                f"{size(self.rate * self.size)}/s",
                name,
                *(span(facts.get(one)) for one in _TIMES),
            ]


HEADS = ("kind", "size", "senders", "messages", "lost", "rate", "bytes", "time to", *_TIMES)
