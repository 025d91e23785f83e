"""Messages on disk, in segments for any number of readers.

Messages are acknowledged once they stand in files, so a receiver is done with each at once, whatever becomes of those
who work on them. It remembers what it has had, so each message stands in the stage once (docs/staging.md). `Stager`
receives, `StageWriter` and `StageFolder` have the files. The `tolliver stage` command and Spark's streams use it.
"""

from __future__ import annotations

from .._extras import needed

needed("blocking", "attrs")

from ._errors import StageFull, StageInUse, StageLost, UnknownStage
from ._folder import Mark, Position, StageFolder, Stretch
from ._options import FolderOptions, StageOptions
from ._stager import Stager
from ._writer import StageWriter

__all__ = [
    "FolderOptions",
    "Mark",
    "Position",
    "StageFolder",
    "StageFull",
    "StageInUse",
    "StageLost",
    "StageOptions",
    "StageWriter",
    "Stager",
    "Stretch",
    "UnknownStage",
]
