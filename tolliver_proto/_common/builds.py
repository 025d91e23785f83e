"""Choice between compiled modules and their sources.

A wheel with compiled modules has the source of each beside it, and Python takes the compiled one. `choose` is called
before the first module of a package is loaded. With TOLLIVER_PURE=1 it puts a finder in front of all others, which
finds sources alone; with TOLLIVER_REQUIRE_COMPILED=1 it refuses to run on sources. Nothing else reads the environment
here, and a process keeps what it began with.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import FileFinder, ModuleSpec

PURE, REQUIRE_COMPILED = "TOLLIVER_PURE", "TOLLIVER_REQUIRE_COMPILED"
_PACKAGES = ("tolliver_proto.", "tolliver.")
_PROBE = "tolliver_proto._wire.frames"  # every compiled build has compiled it


class SourceFinder:
    """A meta path finder for modules of these packages that finds their sources, also where they are compiled."""

    def __init__(self) -> None:
        self._folders: dict[str, FileFinder] = {}

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        if path is None or not name.startswith(_PACKAGES):
            return None
        from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader

        for folder in path:
            if folder not in self._folders:
                self._folders[folder] = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))
            if (found := self._folders[folder].find_spec(name)) is not None:
                return found
        return None


def choose() -> None:
    """Obeys the two variables. Raises ImportError if they ask for what is not installed, or for both."""
    pure, required = _asked(PURE), _asked(REQUIRE_COMPILED)
    if pure and required:
        raise ImportError(f"{PURE} and {REQUIRE_COMPILED} are both set: unset one of them")
    if pure:
        sys.meta_path.insert(0, SourceFinder())
    if required and not is_compiled():
        raise ImportError(
            f"{REQUIRE_COMPILED} is set, and tolliver_proto has no compiled modules for this Python: "
            "install the wheel that `make compiled` builds, or unset the variable"
        )


def is_compiled() -> bool:
    """True if the modules of these packages that have a compiled form are loaded from it."""
    from importlib.machinery import ExtensionFileLoader
    from importlib.util import find_spec

    found = find_spec(_PROBE)
    return found is not None and isinstance(found.loader, ExtensionFileLoader)


def _asked(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")
