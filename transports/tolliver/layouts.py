"""Wire layouts and sets of ids: the names of `tolliver_proto.layouts`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tolliver_proto.layouts import *
else:
    from ._same import same

    __getattr__, __dir__, __all__ = same("tolliver_proto.layouts", globals())
