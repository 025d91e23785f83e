"""The simulator for your own programs: the names of `tolliver_proto.testing`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tolliver_proto.testing import *
else:
    from ._same import same

    __getattr__, __dir__, __all__ = same("tolliver_proto.testing", globals())
