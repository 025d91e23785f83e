"""PySpark data sources, sink and audit: the names of `tolliver_transports.spark`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tolliver_transports.spark import *
else:
    from ._same import same

    __getattr__, __dir__, __all__ = same("tolliver_transports.spark", globals())
