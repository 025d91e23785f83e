"""A private CA and certificates in PEM files: the names of `tolliver_transports.certs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tolliver_transports.certs import *
else:
    from ._same import same

    __getattr__, __dir__, __all__ = same("tolliver_transports.certs", globals())
