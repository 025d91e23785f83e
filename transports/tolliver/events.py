"""Events of an instance and of streams: the names of `tolliver_transports.events`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tolliver_transports.events import *
else:
    from ._same import same

    __getattr__, __dir__, __all__ = same("tolliver_transports.events", globals())
