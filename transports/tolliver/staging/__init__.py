"""Messages on disk, in segment files for any number of readers.

Messages are acknowledged once they are in files, so the receiver never waits for the programs that process them. A copy
of a message is recognized, so each message is in the stage once (docs/staging.md). `Stager` receives; `StageWriter` and
`StageFolder` manage the files. `tolliver stage` and Spark's streams use this package.
"""

from __future__ import annotations

from .._extras import needed, needs_posix

needed("blocking", "attrs")
needs_posix("a stage")

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
