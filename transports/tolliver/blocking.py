"""Messages and streams on threads: the names of `tolliver_transports.blocking`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tolliver_transports.blocking import *
else:
    from ._same import same

    __getattr__, __dir__, __all__ = same("tolliver_transports.blocking", globals())
