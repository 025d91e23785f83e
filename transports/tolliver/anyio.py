"""Messages and streams on asyncio and trio: the names of `tolliver_transports.anyio`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tolliver_transports.anyio import *
else:
    from ._same import same

    __getattr__, __dir__, __all__ = same("tolliver_transports.anyio", globals())
