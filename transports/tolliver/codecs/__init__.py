"""Codecs: typed values as bodies of messages and elements of streams.

Pass one to `instance.channel(name, codec=...)`: calls then take values instead of bytes, and a delivery has a `.value`.
Any object with `encode(value) -> bytes` and `decode(bytes) -> value` is a codec, too; docs/patterns.md has examples. A
codec's library is loaded when the codec is created.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._extras import door

if TYPE_CHECKING:
    from ._bodies import TypedDelivery, TypedHandler, decoding
    from ._cloudevents import CloudEvents
    from ._codec import AnyCodec, Codec, MessageClass
    from ._headers import Headed, Headers
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
            "._headers": "Headed, Headers",
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
    "Headed",
    "Headers",
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
