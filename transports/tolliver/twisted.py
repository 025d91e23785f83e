"""Messages and streams on Twisted: the names of `tolliver_transports.twisted`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tolliver_transports.twisted import *
else:
    from ._same import same

    __getattr__, __dir__, __all__ = same("tolliver_transports.twisted", globals())
