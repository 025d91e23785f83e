"""Readings of this machine.

A reading is one number with a place: the kind ("cpu") becomes the channel, the part ("cpu0") the key. A source that
this machine does not have is left out; every machine has some.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import psutil


class Reading(NamedTuple):
    """One number: `field` of `part`, such as "user" of "cpu0"."""

    kind: str
    part: str
    field: str
    value: float


_Parts = Iterable[tuple[str, Any]]


def _cpus() -> _Parts:
    return ((f"cpu{number}", times) for number, times in enumerate(psutil.cpu_times(percpu=True)))


def _memory() -> _Parts:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # psutil warns where the kernel hides a part of the swap's numbers
        return [("ram", psutil.virtual_memory()), ("swap", psutil.swap_memory())]


def _disk_space() -> _Parts:
    mounted = {"/", *(partition.mountpoint for partition in psutil.disk_partitions())}
    return ((mount, psutil.disk_usage(mount)) for mount in sorted(mounted))


def _disk_traffic() -> _Parts:
    return (psutil.disk_io_counters(perdisk=True) or {}).items()


def _network() -> _Parts:
    return psutil.net_io_counters(pernic=True).items()  # type: ignore[no-any-return]  # psutil has no types


def _load() -> _Parts:
    return [("average", dict(zip(("1 min", "5 min", "15 min"), psutil.getloadavg(), strict=True)))]


# psutil raises NotImplementedError where a machine lacks a thing, and has no such name where a system has no such call.
_MISSING = (OSError, NotImplementedError, AttributeError, psutil.Error)
"""Errors of psutil on a machine that lacks something."""

SOURCES: tuple[tuple[str, Callable[[], _Parts]], ...] = (
    ("cpu", _cpus),
    ("memory", _memory),
    ("disk", _disk_space),
    ("disk", _disk_traffic),
    ("network", _network),
    ("load", _load),
)


def readings() -> Iterator[Reading]:
    """All of it, once."""
    for kind, source in SOURCES:
        try:
            for part, values in source():
                numbers: dict[str, float] = values._asdict() if hasattr(values, "_asdict") else values
                yield from (Reading(kind, part, field, float(value)) for field, value in numbers.items())
        except _MISSING:
            continue  # the other readings are enough
