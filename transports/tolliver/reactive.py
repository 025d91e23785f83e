"""Names for programs with streams, in addition to an adapter's.

They are defined in `tolliver_proto.reactive`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._extras import door

if TYPE_CHECKING:
    from tolliver_proto.reactive import (
        UNBOUNDED,
        ConnectionClosed,
        Extension,
        Form,
        Kind,
        Limits,
        StreamError,
        VersionMismatch,
    )
else:
    __getattr__, __dir__ = door(
        __name__,
        globals(),
        {
            "tolliver_proto.reactive": (
                "UNBOUNDED, ConnectionClosed, Extension, Form, Kind, Limits, StreamError, VersionMismatch"
            ),
        },
    )

__all__ = [
    "UNBOUNDED",
    "ConnectionClosed",
    "Extension",
    "Form",
    "Kind",
    "Limits",
    "StreamError",
    "VersionMismatch",
]
