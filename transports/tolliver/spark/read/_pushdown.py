"""Push-down of Spark's filters to blocks and messages.

A filter is accepted only if it can be applied exactly, so that Spark need not apply it again; others are returned.
Block headers have sender and times, so such filters avoid reading what they drop.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from ._batches import Match, Wanted
from ._options import nanoseconds

_NAMES = ("channel", "key")
_MICROSECOND = 1000  # nanoseconds: the resolution of Spark's timestamps


def narrowed(wanted: Wanted, condition: Filter) -> Wanted | None:
    """The filter `wanted` with this condition of Spark added; None if Spark must apply the condition."""
    [column, *deeper] = getattr(condition, "attribute", ("", ""))
    if deeper:
        return None
    if isinstance(condition, IsNotNull):
        return wanted if column in (*_NAMES, "received_at") else None
    if column in _NAMES:
        match = _match(condition)
        if match is None:
            return None
        if column == "key":
            return replace(wanted, keys=(*wanted.keys, match))
        return replace(wanted, channels=(*wanted.channels, match))
    if column == "sender":
        match = _match(condition)
        return replace(wanted, senders=(*wanted.senders, match.names)) if match and not match.prefixes else None
    return _between(wanted, condition) if column == "received_at" else None


def _match(condition: Filter) -> Match | None:
    match condition:
        case EqualTo(value=str(name)):
            return Match(frozenset((name,)))
        case In(value=[*names]) if all(isinstance(name, str) for name in names):
            return Match(frozenset(names))
        case StringStartsWith(value=str(prefix)):
            return Match(prefixes=(prefix,))
    return None


def _between(wanted: Wanted, condition: Any) -> Wanted | None:
    when = getattr(condition, "value", None)
    if not isinstance(when, datetime) or when.tzinfo is None:
        return None
    at = nanoseconds(when)
    after = at + _MICROSECOND
    bounds = {
        EqualTo: (at, after),
        GreaterThanOrEqual: (at, wanted.until),
        GreaterThan: (after, wanted.until),
        LessThan: (wanted.since, at),
        LessThanOrEqual: (wanted.since, after),
    }.get(type(condition))
    if bounds is None:
        return None
    return replace(wanted, since=max(wanted.since, bounds[0]), until=min(wanted.until, bounds[1]))
