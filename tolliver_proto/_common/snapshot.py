"""Typed snapshots of counters and gauges, with every name from the start.

A frozen object is what an operator's program can check; it is also a mapping from name to number, so that `dict(stats)`
and `stats["acked"]` serve whoever passes all of them on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, fields
from typing import Any, Literal

Kind = Literal["counter", "gauge"]


def counter() -> Any:
    """A field of a snapshot: a total since the start, which only grows."""
    return field(default=0, metadata={"kind": "counter"})


def counters_by() -> Any:
    """A field of a snapshot: totals since the start, one for each of several reasons or kinds."""
    return field(default_factory=dict, metadata={"kind": "counter"}, hash=False)


def gauge() -> Any:
    """A field of a snapshot: a size now."""
    return field(default=0, metadata={"kind": "gauge"})


class Snapshot(Mapping[str, int]):
    """Base of the snapshots, which are frozen dataclasses with fields made by `counter`, `counters_by` and `gauge`.

    As a mapping, a number of several reasons has the name `field_reason`.
    """

    __slots__ = ()

    def counters(self) -> dict[str, int]:
        """Totals since the start."""
        return self._of("counter")

    def gauges(self) -> dict[str, int]:
        """Sizes now."""
        return self._of("gauge")

    def _of(self, kind: Kind) -> dict[str, int]:
        numbers: dict[str, int] = {}
        for one in fields(self):  # type: ignore[arg-type]  # each subclass is a dataclass
            value = getattr(self, one.name)
            if one.metadata["kind"] != kind:
                continue
            if isinstance(value, Mapping):
                numbers.update({f"{one.name}_{reason}": count for reason, count in value.items()})
            else:
                numbers[one.name] = value
        return numbers

    def __getitem__(self, name: str) -> int:
        return {**self.counters(), **self.gauges()}[name]

    def __iter__(self) -> Iterator[str]:
        yield from self.counters()
        yield from self.gauges()

    def __len__(self) -> int:
        return len(self.counters()) + len(self.gauges())
