"""Reactive Streams over a network, without I/O: the names of `tolliver_proto.reactive`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tolliver_proto.reactive import *

    from . import testing as testing
else:
    from .._same import same

    __getattr__, __dir__, __all__ = same("tolliver_proto.reactive", globals(), "testing")
