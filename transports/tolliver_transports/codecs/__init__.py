"""Codecs: typed values as the bodies of messages and the elements of streams.

Give one as `codec=`: a value goes in where bytes did, and `.value` of a delivery is one. Any object with
`encode(value) -> bytes` and `decode(bytes) -> value` is a codec, too; docs/patterns.md shows them at work. The libraries
behind them are loaded when a codec is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._extras import door

if TYPE_CHECKING:
    from ._bodies import TypedDelivery, TypedHandler, decoding
    from ._codec import AnyCodec, Codec, MessageClass
    from ._json import Json
    from ._msgspec import Msgspec
else:
    __getattr__, __dir__ = door(
        __name__,
        globals(),
        {
            "._bodies": "TypedDelivery, TypedHandler, decoding",
            "._codec": "AnyCodec, Codec, MessageClass",
            "._json": "Json",
            "._msgspec": "Msgspec",
        },
    )


__all__ = [
    "AnyCodec",
    "Codec",
    "Json",
    "MessageClass",
    "Msgspec",
    "TypedDelivery",
    "TypedHandler",
    "decoding",
]
