"""Simulated network for your own programs.

All of it is `tolliver_proto.testing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._extras import door

if TYPE_CHECKING:
    from tolliver_proto.testing import (
        App,
        ProgramNet,
        Report,
        SimFailure,
        Weather,
        rehearse,
    )
else:
    __getattr__, __dir__ = door(
        __name__,
        globals(),
        {
            "tolliver_proto.testing": "App, ProgramNet, Report, SimFailure, Weather, rehearse",
        },
    )

__all__ = [
    "App",
    "ProgramNet",
    "Report",
    "SimFailure",
    "Weather",
    "rehearse",
]
