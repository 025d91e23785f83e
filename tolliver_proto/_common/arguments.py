"""Checks of arguments that a program gives.

A wrong argument is refused in the call, before anything changes: TypeError for a value of another type, ValueError for
one out of range. The text names the argument, shows the value, and says what to give. A bool is no number here.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from types import UnionType
from typing import Any, TypeVar
from uuid import UUID

from .errors import LocalProtocolError
from .owner_ids import is_owner

MOST = 2**63 - 1
"""The largest number that a store takes."""
Unchecked = Any
"""An argument as a program gave it, for a function that refuses what is wrong itself. A compiled function refuses a str
or bytes or number that is declared as such before its first line, and with less to say."""
_LONGEST = 2.0**53  # seconds

T = TypeVar("T")


def check_type(name: str, value: Any, kind: type | UnionType, give: str) -> None:
    """Raises TypeError for a value that is not of the type `kind`; the text names the argument, `name`, and says to
    `give` another.
    """
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{name}={value!r:.100}: give {give}")


def check_count(name: str, value: Any, least: int = 0, most: int = MOST) -> None:
    """Raises TypeError for a value of the argument `name` that is no whole number, ValueError for one below `least` or
    above `most`.
    """
    check_type(name, value, int, f"a number, {least} or more")
    if not least <= value <= most:
        bound = f"{least} or more" if value < least else f"at most {most}"
        raise ValueError(f"{name}={value!r:.100}: give a number, {bound}")


def check_seconds(name: str, value: Any, *, is_endless: bool = False, or_zero: bool = False) -> None:
    """Raises TypeError, and ValueError for a time, given as the argument `name`, that is not above 0. `is_endless`
    accepts infinity, `or_zero` 0.
    """
    give = f"seconds, {'0 or more' if or_zero else 'above 0'}"
    check_type(name, value, int | float, give)
    if not (0 < value <= _LONGEST or (or_zero and value == 0) or (is_endless and value == inf)):
        raise ValueError(f"{name}={value!r:.100}: give {give}")


def check_timeout(value: Any) -> None:
    """Raises TypeError, and ValueError for NaN. A negative time is an expired timeout; None means no timeout."""
    if value is not None:
        check_type("timeout", value, int | float, "seconds, or None")
        if value != value:
            raise ValueError("timeout=nan: give seconds, or None")


def check_peer(name: str, value: Any, or_owner: bool = False) -> None:
    """Raises TypeError for a value of the argument `name` that is no UUID, and LocalProtocolError for that of a queue
    or of the last values, unless `or_owner` allows it.
    """
    check_type(name, value, UUID, "the UUID of a peer")
    if is_owner(value) and not or_owner:
        raise LocalProtocolError("no_peer", f"{name}={value}: this UUID owns jobs or last values, give that of a peer")


def listed(name: str, values: Iterable[T]) -> tuple[T, ...]:
    """The values of an iterable, given as the argument `name`, as a tuple. Raises TypeError for any other object, and
    for text and bytes.
    """
    check_type(name, values, Iterable, "a list")
    if isinstance(values, str | bytes):
        raise TypeError(f"{name}={values!r:.100}: give a list")
    return tuple(values)
