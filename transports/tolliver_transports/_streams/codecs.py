"""From an application's objects to the bytes of a stream's elements, and back.

The idea: a codec is any object with `encode` and `decode`; a protobuf message class is taken as it is. Without one,
elements are bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Codec(NamedTuple):
    """Two functions; None where nothing is to be done."""

    encode: Callable[[Any], bytes] | None = None
    decode: Callable[[bytes], Any] | None = None


def codec_of(codec: Any) -> Codec:
    """The functions of an object or of a protobuf message class; None is bytes as they are. Raises TypeError."""
    if codec is None:
        return Codec()
    if isinstance(codec, type) and hasattr(codec, "SerializeToString") and hasattr(codec, "FromString"):
        return Codec(codec.SerializeToString, codec.FromString)
    encode, decode = getattr(codec, "encode", None), getattr(codec, "decode", None)
    if isinstance(codec, type) or not callable(encode) or not callable(decode):
        raise TypeError(
            f"codec is {codec!r:.100}: give an object with encode(value) -> bytes and decode(bytes) -> value, or a "
            "protobuf message class"
        )
    return Codec(encode, decode)
