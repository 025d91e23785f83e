"""Validators and converters common to all options. Each error has advice."""

from __future__ import annotations

import os
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attrs import Attribute

Validator = Callable[[Any, "Attribute[Any]", Any], None]


def told(takes: str, help: str, sentence: str) -> Mapping[str, str]:
    """Metadata of an option's field, from which its flag, its key in a file and the documentation are generated.

    `takes` is the kind of its values with their unit (`kinds`), `help` one line, and `sentence` a user's request that
    the option fulfils.
    """
    return {"takes": takes, "help": help, "sentence": sentence}


def check(predicate: Callable[[Any], bool], remedy: str, error: type[Exception] = ValueError) -> Validator:
    """A validator whose error names the option, its value and what to give instead."""

    def validate(instance: Any, attribute: Attribute[Any], value: Any) -> None:
        if not predicate(value):
            raise error(f"{type(instance).__name__}.{attribute.name.lstrip('_')} is {value!r}: {remedy}")

    return validate


def is_a(kind: type[Any] | types.UnionType, remedy: str) -> Validator:
    """A validator that a value is of the type `kind`; `remedy` says what to give. A bool is not accepted as a
    number.
    """
    return check(
        lambda value: isinstance(value, kind) and (kind is bool or not isinstance(value, bool)), remedy, TypeError
    )


flag = is_a(bool, "give True or False")


def as_path(value: str | os.PathLike[str]) -> Path:
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"a path must be a str or a PathLike, not {value!r}: give the file's name")
    if not os.fspath(value):
        raise ValueError("a path is empty: give the file's name")
    try:
        is_name = b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        is_name = False
    if not is_name:
        raise ValueError(f"a path is {value!r:.100}, which no file can have: give the file's name")
    return Path(value)
