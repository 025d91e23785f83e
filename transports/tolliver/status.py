"""The status of an instance: the names of `tolliver_transports.status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tolliver_transports.status import *
else:
    from ._same import same

    __getattr__, __dir__, __all__ = same("tolliver_transports.status", globals())
