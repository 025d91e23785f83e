"""Option tables of the data sources, and their common parser.

Spark passes options as text, does not keep the case of their names, and shows them in query plans. So a table maps each
name to a field and a parser. Values are parsed once, on the driver; an unknown option is refused before a task runs;
secrets are given as paths of files. Whitespace around a value is ignored, except in paths and names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

MOST = 2**63 - 1
"""Largest whole number, as for Spark's own options."""

_DIGITS = len(str(MOST))
_OF_SPARK = frozenset(("checkpointlocation", "queryname"))  # Spark passes these to source and sink, too
_NOTHING: Mapping[str, str] = MappingProxyType({})


_LEAVE = "leave it out"
_CHANNELS = (("channels", "publishers"), "each row has its channel in a column of this name")
_BEGIN = (("startingOffsets", "timeFrom"), "there is no past to begin in, leave it out")
_END = (("timeTo", "maxElements", "deadline"), _LEAVE)
_GROUP = (("consumer",), f"there are no groups, {_LEAVE}")
_TLS = (("tls.cert", "tls.key", "tls.ca"), _LEAVE)
_NO_BROKER = ((), f"there is no broker to ask, {_LEAVE}")

KAFKA: Mapping[str, tuple[tuple[str, ...], str]] = {
    "subscribe": _CHANNELS,
    "assign": _CHANNELS,
    "topic": _CHANNELS,
    "subscribePattern": (("channelPattern", "publishers"), "each row has its channel in a column of this name"),
    "startingOffsets": _BEGIN,
    "startingTimestamp": _BEGIN,
    "startingOffsetsByTimestamp": _BEGIN,
    "startingOffsetsByTimestampStrategy": _BEGIN,
    "endingOffsets": _END,
    "endingTimestamp": _END,
    "endingOffsetsByTimestamp": _END,
    "maxOffsetsPerTrigger": (("maxRowsPerTrigger", "maxElements"), f"a batch is one trigger, {_LEAVE}"),
    "minOffsetsPerTrigger": (("minRowsPerTrigger",), f"nothing waits for rows here, {_LEAVE}"),
    "maxTriggerDelay": ((), f"nothing waits for rows here, {_LEAVE}"),
    "maxRecordsPerPartition": (("minPartitions", "rowsPerSend"), _LEAVE),
    "includeHeaders": ((), f"headers are in the body, where a codec puts them, {_LEAVE}"),
    "failOnDataLoss": (("mode",), f"nothing is read again, {_LEAVE}"),
    "groupIdPrefix": _GROUP,
    "kafka.group.id": _GROUP,
    "kafka.bootstrap.servers": (("listen", "connect"), "recordings are files, load() takes their path"),
    "kafka.security.protocol": _TLS,
    "kafka.ssl.*": _TLS,
    "kafka.*": _NO_BROKER,
    "kafkaConsumer.*": _NO_BROKER,
    "fetchOffset.*": _NO_BROKER,
}
"""Options of Spark's Kafka connector: our options for each, and the advice for a reader that has none of these."""


class Option(NamedTuple):
    """An option of a data source: the field that it sets, and its parser. `read` raises ValueError with advice."""

    field: str
    read: Callable[[str], Any]


Table = Mapping[str, Option]
"""Options by name, as users write them, in any case."""


def parse(
    options: Mapping[str, str], known: Table, reader: str, refused: Mapping[str, str] = _NOTHING
) -> dict[str, Any]:
    """Values of options by field. `known` has the options that `reader`, a data source's reader or writer, takes;
    `refused` maps options that users may try here to what they should do instead.

    Raises ValueError, which names the option, its text and what to give, or lists the options that `reader` knows.
    """
    by_lower = {name.lower(): name for name in known}
    instead = {name.lower(): remedy for name, remedy in refused.items()}
    values = {}
    for given, text in options.items():
        lower = given.lower()
        if lower in by_lower:
            name = by_lower[lower]
            try:
                values[known[name].field] = known[name].read(text)
            except ValueError as error:
                raise ValueError(f"the option {name} is {text!r:.100}: {error}") from error
        elif lower not in _OF_SPARK:
            remedy = instead.get(lower) or _of_kafka(lower, known) or f"it knows {', '.join(known)}"
            raise ValueError(f"{reader} has no option {given!r}: {remedy}")
    return values


def _of_kafka(lower: str, known: Table) -> str | None:
    """Advice for an option of Kafka's connector; None for a name that Kafka does not have either."""
    for name, (ours, otherwise) in KAFKA.items():
        stem = name.lower().removesuffix("*")
        if lower == stem or (name.endswith("*") and lower.startswith(stem)):
            there = [one for one in ours if one in known]
            return f"that is Kafka's; {'give ' + ' or '.join(there) if there else otherwise}"
    return None


# Parsers.


def text(given: str) -> str:
    if not given.strip():
        raise ValueError("give a text")
    return given


def path(given: str) -> str:
    if not given.strip():
        raise ValueError("give a path")
    return given


def one_of(values: Mapping[str, Any]) -> Callable[[str], Any]:
    def read(given: str) -> Any:
        word = given.strip().lower()
        if word not in values:
            *others, last = values
            raise ValueError(f"give {', '.join(others)} or {last}")
        return values[word]

    return read


flag = one_of({"true": True, "false": False})


def whole(least: int = 1, most: int = MOST, of: str = "") -> Callable[[str], int]:
    def read(given: str) -> int:
        digits = given.strip()
        number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS else -1
        if not least <= number <= most:
            raise ValueError(f"give a whole number{of} from {least} {'on' if most == MOST else f'to {most}'}")
        return number

    return read


count = whole()
size = whole(of=" of bytes")


def seconds(given: str) -> float:
    try:
        number = float(given)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ValueError("give a positive number of seconds")
    return number


def uuid(given: str) -> UUID:
    try:
        return UUID(given.strip())
    except ValueError:
        raise ValueError("give the UUID of an instance, such as 01890000-0000-7000-8000-000000000001") from None


def names(given: str) -> tuple[str, ...]:
    """Parse a comma-separated list of names, or a JSON list of any names."""
    if given.lstrip().startswith("["):
        return json_names(given)
    return tuple(part.strip() for part in given.split(",") if part.strip())


def some_names(given: str) -> tuple[str, ...]:
    """Like `names`, but refuses an empty list, which would ask for everything."""
    found = names(given)
    if not found:
        raise ValueError("give one name at least, or leave the option out")
    return found


def json_names(given: str) -> tuple[str, ...]:
    try:
        found = json.loads(given)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise ValueError('give names with commas between them, or a JSON list such as ["a", "b,c"]')
    return tuple(found)


SECURITY: Table = {
    "tls.cert": Option("cert", path),
    "tls.key": Option("key", path),
    "tls.ca": Option("ca", path),
    "plaintext": Option("plaintext", flag),
}
"""For `_peer`, which takes them."""
