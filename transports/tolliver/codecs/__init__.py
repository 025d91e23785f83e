"""Codecs: typed values as bodies of messages and elements of streams.

Give one to `instance.channel(name, codec=...)`: values go in where bytes did, and `.value` of a delivery is one. Any
object with `encode(value) -> bytes` and `decode(bytes) -> value` is a codec, too; docs/patterns.md shows them at work.
The libraries behind them are loaded when a codec is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._extras import door

if TYPE_CHECKING:
    from ._bodies import TypedDelivery, TypedHandler, decoding
    from ._cloudevents import CloudEvents
    from ._codec import AnyCodec, Codec, MessageClass
    from ._json import Json
    from ._msgspec import Msgspec
    from ._protobuf import Protobuf, ProtobufTypes
    from ._requests import TypedReply, TypedRequest, answering
    from ._retained import TypedRetainedValue
else:
    __getattr__, __dir__ = door(
        __name__,
        globals(),
        {
            "._bodies": "TypedDelivery, TypedHandler, decoding",
            "._codec": "AnyCodec, Codec, MessageClass",
            "._cloudevents": "CloudEvents",
            "._json": "Json",
            "._msgspec": "Msgspec",
            "._protobuf": "Protobuf, ProtobufTypes",
            "._requests": "TypedReply, TypedRequest, answering",
            "._retained": "TypedRetainedValue",
        },
    )


__all__ = [
    "AnyCodec",
    "CloudEvents",
    "Codec",
    "Json",
    "MessageClass",
    "Msgspec",
    "Protobuf",
    "ProtobufTypes",
    "TypedDelivery",
    "TypedHandler",
    "TypedReply",
    "TypedRequest",
    "TypedRetainedValue",
    "answering",
    "decoding",
]
