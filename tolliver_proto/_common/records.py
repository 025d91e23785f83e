"""Slotted dataclasses that are quick to load.

The standard decorator compiles six functions for each class; for the seventy classes of the core that took a fifth of
its loading time. The decorators here have only the constructor compiled. Comparing, hashing and showing are written
once, and are given the names of the fields.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

_T = TypeVar("_T")
_MOST = 1000  # characters of a value that `repr` shows


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[_T]) -> type[_T]:
    """Makes a slotted dataclass that is frozen for the type checker alone: never change an instance."""
    return finished(_slotted(cls))


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[_T]) -> type[_T]:
    """Makes a slotted dataclass that is frozen at run time, for values that programs make and keep."""
    return finished(_slotted(cls, frozen=True))


def option(takes: str, help: str, sentence: str = "", *, default: Any = MISSING, factory: Any = MISSING) -> Any:
    """A field of `options`, with metadata from which flags, keys of a file and tables of the pages are made.

    `takes` is the kind of its values with their unit, `help` one line, and `sentence` a user's words that the option
    answers. An option without a sentence is for programs alone: it is no flag and no key.
    """
    told = {"takes": takes, "help": help, "sentence": sentence}
    made: Any = field(
        default=default, default_factory=factory, hash=None if factory is MISSING else False, metadata=told
    )
    return made


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field, option))
def options(cls: type[_T]) -> type[_T]:
    """Makes a frozen slotted dataclass whose arguments are given by keyword."""
    return finished(_slotted(cls, frozen=True, kw_only=True))


def _slotted(cls: type[_T], **options: bool) -> type[_T]:
    """Makes the dataclass without its compiled properties, and gives these back: Python 3.13.1 and later look into the
    function of each property, which only an interpreted one lets them.
    """
    compiled = {name: one for name, one in vars(cls).items() if isinstance(one, property) and _is_compiled(one)}
    for name in compiled:
        delattr(cls, name)
    made = dataclass(slots=True, eq=False, repr=False, **options)(cls)
    for name, one in compiled.items():
        setattr(made, name, one)
    return made


def _is_compiled(one: property) -> bool:
    return not hasattr(one.fget, "__code__")


def finished(cls: type[_T]) -> type[_T]:
    known: tuple[Any, ...] = fields(cls)  # type: ignore[arg-type]  # it is a dataclass by now
    compared = _values(*(one.name for one in known if one.compare))
    hashed = _values(*(one.name for one in known if (one.compare if one.hash is None else one.hash)))
    shown = [one.name for one in known if one.repr]

    def __eq__(self: Any, other: object) -> bool:
        return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(hashed(self))

    def __repr__(self: Any) -> str:
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={_shown(getattr(self, name))}' for name in shown)})"

    for method in (__eq__, __hash__, __repr__):
        if method.__name__ not in cls.__dict__:
            method.__qualname__ = f"{cls.__qualname__}.{method.__name__}"
            setattr(cls, method.__name__, method)
    return cls


def _shown(value: Any) -> str:
    """Returns the `repr` of a field, cut if it is a text or a body: a peer may have made it long (D-14)."""
    if type(value) not in (str, bytes):
        return repr(value)
    text = repr(value[:_MOST])
    return text if len(text) <= _MOST else f"{text[:_MOST]}... ({len(value)} in all)"


def _values(*names: str) -> Callable[[Any], Any]:
    return attrgetter(*names) if len(names) > 1 else lambda one: tuple(getattr(one, name) for name in names)
