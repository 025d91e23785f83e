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
            remedy = instead.get(lower) or f"it knows {', '.join(known)}"
            raise ValueError(f"{reader} has no option {given!r}: {remedy}")
    return values


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
