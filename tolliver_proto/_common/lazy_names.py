"""Public names of a package, each loaded when it is first used (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, namespace: dict[str, Any], homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Returns `__getattr__` and `__dir__` of a package.

    `homes` maps each module to its names, written as in an import statement ("State, Signal as Sign"). A name that was
    used once is in the package's `namespace` from then on.
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
