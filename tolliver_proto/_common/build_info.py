"""Facts about the build that runs."""

from __future__ import annotations

from .builds import is_compiled
from .records import frozen


@frozen
class BuildInfo:
    """Facts about the build of tolliver that this process runs."""

    compiled: bool
    """True if the hot modules are compiled; False if all modules are Python's own, as with TOLLIVER_PURE=1."""


def build_info() -> BuildInfo:
    """Returns which build runs: the compiled one or the pure one."""
    return BuildInfo(compiled=is_compiled())
