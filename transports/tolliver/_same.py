"""Modules under a second name (PEP 562).

Each public name is the one of its home, loaded when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def same(
    home: str, namespace: dict[str, Any], *doors: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a module that shows the public names of another one, its home.

    `doors` are modules of its own beside them. They are no part of `__all__`: each asks for its extra.
    """
    module, here = import_module(home), namespace["__name__"]
    public: list[str] = list(module.__all__)

    def __getattr__(name: str) -> Any:
        if name in doors:
            return import_module(f"{here}.{name}")
        if name not in public:
            raise AttributeError(f"module {here!r} has no attribute {name!r}")
        found = namespace[name] = getattr(module, name)
        return found

    def __dir__() -> list[str]:
        return sorted({*namespace, *public, *doors})

    return __getattr__, __dir__, public
