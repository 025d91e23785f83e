"""Lines of `tolliver --version`: the layouts that this version knows."""

from __future__ import annotations

from collections.abc import Iterator

from tolliver_proto import Revision, __version__, build_info
from tolliver_proto.recording import GROUP_LAYOUT, LAYOUT_VERSION

from .._options.kinds import LAYOUTS
from .._store.layout import LAYOUT
from .._store.migration import STEPS


def lines() -> Iterator[str]:
    """One line for each format, the layout that is written first. Where there can be no stage, it has no line."""
    yield f"tolliver {__version__}"
    yield f"build: {'compiled' if build_info().compiled else 'pure Python'}"
    usual = next(name for name, revision in LAYOUTS.items() if revision is Revision.DRAFT_2)
    yield f"wire: layout {_first(usual, *LAYOUTS)}"
    yield f"database: layout {_first(LAYOUT, *STEPS)}"
    try:
        from ..staging._folder import LAYOUT as STAGE
    except ModuleNotFoundError:
        pass
    else:
        yield f"stage: layout {_first(STAGE, *range(1, STAGE))}"
    yield f"recordings: layout {_first(GROUP_LAYOUT, LAYOUT_VERSION)}"


def _first(written: object, *read: object) -> str:
    """The layout that is written, and the others that are read."""
    others = ", ".join(str(one) for one in read if one != written)
    return f"{written}, and {others}" if others else str(written)
