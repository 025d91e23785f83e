"""Typed values as bodies and elements: the names of `tolliver_transports.codecs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tolliver_transports.codecs import *
else:
    from ._same import same

    __getattr__, __dir__, __all__ = same("tolliver_transports.codecs", globals())
