"""Two connected instances, and a simulated network, for tests of programs.

`pair` needs the anyio adapter, and `relay` sends the rows of an outbox in a simulated world. Everything else is defined
in `tolliver_proto.testing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._extras import door

if TYPE_CHECKING:
    from tolliver_proto.testing import (
        App,
        ProgramNet,
        Report,
        SimFailure,
        Weather,
        rehearse,
    )

    from ._pair import pair
    from ._relay import SimulatedRelay, relay
else:
    __getattr__, __dir__ = door(
        __name__,
        globals(),
        {
            "tolliver_proto.testing": "App, ProgramNet, Report, SimFailure, Weather, rehearse",
            "._pair": "pair",
            "._relay": "SimulatedRelay, relay",
        },
    )

__all__ = [
    "App",
    "ProgramNet",
    "Report",
    "SimFailure",
    "SimulatedRelay",
    "Weather",
    "pair",
    "rehearse",
    "relay",
]
