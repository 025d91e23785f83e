"""Options of Spark's data source "tolliver-rs"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define

from tolliver_proto.reactive import Limits

from ..._options.instance import TLS, Remote
from ..._options.streams import StreamsOptions
from .._options import Option, count, flag, names, parse, seconds, whole
from .._peer import dialled, dialling

COLUMNS = {"publisher": "string", "element": "binary"}
READER = 'the format "tolliver-rs"'
_MOST_BYTES = 2**30  # largest element: Spark's rows have at most 2 GiB


def publishers(given: str) -> tuple[str, ...]:
    """Parse a comma-separated list of names, or a JSON list of any names. Raises ValueError."""
    found = names(given)
    if not found:
        raise ValueError("give the names of publishers, with commas between them or as a JSON list")
    if len(set(found)) < len(found):
        raise ValueError("a name comes twice: a publisher is asked once, give each name once")
    most = Limits().max_name
    for name in found:
        try:
            size = len(name.encode())
        except UnicodeEncodeError:
            size = 0
        if not 0 < size <= most:
            raise ValueError(f"{name!r:.100} is no name: it has 1 to {most} bytes of UTF-8")
    return found


COMMON: dict[str, Option] = {
    **dialling(StreamsOptions),
    "publishers": Option("publishers", publishers),
    "window": Option("window", count),
    "maxElementBytes": Option("max_element_bytes", whole(most=_MOST_BYTES, of=" of bytes")),
    "rowsPerBatch": Option("rows_per_batch", count),
}
"""Of batches and streams."""

ENDS: dict[str, Option] = {
    "maxElements": Option("max_elements", count),
    "deadline": Option("deadline", seconds),
    "untilComplete": Option("until_complete", flag),
}
"""Of batches alone."""

BATCH = COMMON | ENDS


@define(frozen=True, kw_only=True)
class DemandOptions:
    """Options of a batch (docs/spark-demand.md explains each). It is pickled to every task."""

    remote: Remote
    tls: TLS | None
    publishers: tuple[str, ...]
    window: int = 4096
    max_element_bytes: int = Limits().max_element
    rows_per_batch: int = 10_000
    max_elements: int | None = None
    deadline: float | None = None
    until_complete: bool = False

    @property
    def of_streams(self) -> StreamsOptions:
        """Options of the subscribing streams."""
        limits = Limits(max_element=self.max_element_bytes)
        return StreamsOptions(tls=self.tls, plaintext=self.tls is None, limits=limits)


def demand_options(options: Mapping[str, str]) -> DemandOptions:
    """Options from Spark's text. Raises ValueError, which names the option."""
    values = parse(options, BATCH, READER)
    remote, tls = dialled_publisher(values)
    made = DemandOptions(remote=remote, tls=tls, **values)
    if made.max_elements is None and made.deadline is None and not made.until_complete:
        raise ValueError(
            "nothing ends this batch if a publisher does not: give maxElements (of each publisher) or deadline "
            "(seconds), or untilComplete=true where every publisher is known to complete"
        )
    return made


def dialled_publisher(values: dict[str, Any]) -> tuple[Remote, TLS | None]:
    """Like `dialled`. Also raises ValueError if no publisher is named."""
    if "publishers" not in values:
        raise ValueError(f"{READER} needs the option publishers: the names to subscribe to, with commas between them")
    return dialled(values, READER, "publisher", StreamsOptions)
