"""Extra that a door needs, and its names (PEP 562).

Each name is loaded when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def needed(extra: str, *modules: str) -> None:
    """Raises ModuleNotFoundError, with what to install, where one of the modules is missing."""
    for module in modules:
        if not _is_there(module):
            raise ModuleNotFoundError(
                f"the module {module} is missing: pip install 'tolliver-proto[{extra}]'", name=module
            )


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a package above it is missing
        return False


def door(
    package: str, namespace: dict[str, Any], homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package, from each module to its names there, as an import statement has
    them. A name that was asked for is the package's own from then on."""
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
