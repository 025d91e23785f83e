"""Simulated networks of streams: the names of `tolliver_proto.reactive.testing`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tolliver_proto.reactive.testing import *
else:
    from .._same import same

    __getattr__, __dir__, __all__ = same("tolliver_proto.reactive.testing", globals())
