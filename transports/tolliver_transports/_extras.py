"""Extras of the distribution: a door says which one it needs where that is not installed."""

from __future__ import annotations

from importlib.util import find_spec


def needed(extra: str, *modules: str) -> None:
    """Raises ModuleNotFoundError, with what to install, where one of the modules is missing."""
    for module in modules:
        if find_spec(module) is None:
            raise ModuleNotFoundError(
                f"the module {module} is missing: pip install 'tolliver-proto[{extra}]'", name=module
            )
