"""Typed snapshots of counters and gauges, with every name from the start.

A snapshot is a frozen object, so that a type checker knows its names. It is a mapping from name to number too: a
program that exports all numbers takes `dict(stats)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, fields
from typing import Any, Literal

Kind = Literal["counter", "gauge"]


def counter() -> Any:
    """Makes a field for a total since the start, which only grows."""
    return field(default=0, metadata={"kind": "counter"})


def counters_by() -> Any:
    """Makes a field for totals since the start, one for each reason or kind."""
    return field(default_factory=dict, metadata={"kind": "counter"}, hash=False)


def gauge() -> Any:
    """Makes a field for a gauge: a current amount, such as pending messages, which may fall."""
    return field(default=0, metadata={"kind": "gauge"})


class Snapshot(Mapping[str, int]):
    """Base of the snapshots: frozen dataclasses with fields made by `counter`, `counters_by` and `gauge`.

    In the mapping, each number of a `counters_by` field has the name `field_reason`.
    """

    __slots__ = ()

    def counters(self) -> dict[str, int]:
        """Returns the totals since the start, by name."""
        return self._of("counter")

    def gauges(self) -> dict[str, int]:
        """Returns the values of the fields made by `gauge`, by name."""
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
