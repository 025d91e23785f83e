"""What `format("tolliver-rs")` may be told, checked before a task starts.

The idea: as for the sink, whose table, parser and names of certificates these are. What is particular to streams is
that they need not end: so a batch must say what ends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define

from tolliver_proto.reactive import Limits

from ..._options.instance import TLS, Remote
from ..._options.streams import StreamsOptions
from ..read._options import name_list
from ..write._options import OF_PEER, Parsers, flag, parse, seconds, where

COLUMNS = {"publisher": "string", "element": "binary"}
READER = 'the format "tolliver-rs"'
_MOST_BYTES = 2**30  # of an element: Spark's rows have at most 2 GiB


def publishers(text: str) -> tuple[str, ...]:
    """Names with commas between them, or a JSON list of any names. Raises ValueError."""
    names = name_list(text)
    if not names:
        raise ValueError("give the names of publishers, with commas between them or as a JSON list")
    if len(set(names)) < len(names):
        raise ValueError("a name comes twice: a publisher is asked once, give each name once")
    most = Limits().max_name
    for name in names:
        size = len(name.encode(errors="surrogatepass"))
        if not 0 < size <= most or not _is_text(name):
            raise ValueError(f"{name!r:.100} is no name: it has 1 to {most} bytes of UTF-8")
    return names


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text[:20]) < 2**63):
        raise ValueError("give a whole number, 1 or more")
    return int(text)


def element_bytes(text: str) -> int:
    if count(text) > _MOST_BYTES:
        raise ValueError(f"give bytes, {_MOST_BYTES} at most")
    return int(text)


OF_DEMAND: Parsers = {
    **OF_PEER,
    "publishers": ("publishers", publishers),
    "window": ("window", count),
    "maxElementBytes": ("max_element_bytes", element_bytes),
    "rowsPerBatch": ("rows_per_batch", count),
}
"""What batches and streams may both be told."""

BATCH: Parsers = {
    **OF_DEMAND,
    "maxElements": ("max_elements", count),
    "deadline": ("deadline", seconds),
    "untilComplete": ("until_complete", flag),
}


@define(frozen=True, kw_only=True)
class DemandOptions:
    """What a batch asks for (docs/spark-demand.md has what each is for). It is pickled to every task."""

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
        """What the subscriber is opened with."""
        limits = Limits(max_element=self.max_element_bytes)
        return StreamsOptions(tls=self.tls, plaintext=self.tls is None, limits=limits)


def demand_options(options: Mapping[str, str]) -> DemandOptions:
    """From Spark's options. Raises ValueError, naming the option."""
    given = parse(options, BATCH, READER)
    remote, tls = where_published(given)
    made = DemandOptions(remote=remote, tls=tls, **given)
    if made.max_elements is None and made.deadline is None and not made.until_complete:
        raise ValueError(
            "nothing ends this batch if a publisher does not: give maxElements (of each publisher) or deadline "
            "(seconds), or untilComplete=true where every publisher is known to complete"
        )
    return made


def where_published(given: dict[str, Any]) -> tuple[Remote, TLS | None]:
    """Takes the options that say whom to dial. Raises ValueError, also where it is not said what to subscribe to."""
    if "publishers" not in given:
        raise ValueError(f"{READER} needs the option publishers: the names to subscribe to, with commas between them")
    return where(given, READER, "publisher", StreamsOptions)
