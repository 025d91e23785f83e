"""Lazy names of a package, and its extra (PEP 562).

Each name is loaded on first access.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def needed(extra: str, *modules: str) -> None:
    """Raises ModuleNotFoundError, with advice to install the extra, if one of the modules is missing."""
    for module in modules:
        if not _is_there(module):
            raise ModuleNotFoundError(
                f"the module {module} is missing: pip install 'tolliver-proto[{extra}]'", name=module
            )


def needs_posix(what: str) -> None:
    """Raises ModuleNotFoundError, with advice, if the system has no `fcntl`, and so lacks the signals and file calls
    that `what` is built on."""
    if not _is_there("fcntl"):
        raise ModuleNotFoundError(
            f"{what} needs the file locks and signals of POSIX, and this system ({sys.platform}) has none: take Linux "
            "or macOS for it, or an instance in a Python program, which needs neither",
            name="fcntl",
        )


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a parent package is missing
        return False


def door(
    package: str, namespace: dict[str, Any], homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for a package. `homes` maps each module to its names, as in an import statement.

    A name is stored in the package's namespace on first access.
    """
    places = {
        public: (home, name) for home, names in homes.items() for name, _, public in map(_parts, names.split(", "))
    }

    def __getattr__(public: str) -> object:
        if public not in places:
            raise AttributeError(f"module {package!r} has no attribute {public!r}")
        home, name = places[public]
        found = namespace[public] = getattr(import_module(home, package), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*namespace, *places})

    return __getattr__, __dir__


def _parts(name: str) -> tuple[str, str, str]:
    own, renamed, public = name.partition(" as ")
    return own, renamed, public or own
