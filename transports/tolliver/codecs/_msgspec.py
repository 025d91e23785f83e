"""JSON and MessagePack bodies of typed values, with msgspec.

msgspec validates and creates decoded values.
"""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar, get_origin, is_typeddict, overload

from .._extras import needed
from ._strict_json import dumps, name_of

T = TypeVar("T")
Format = Literal["json", "msgpack"]


class Msgspec(Generic[T]):
    """Codec for a msgspec Struct, a dataclass, or any other type that msgspec supports, as JSON or MessagePack.

    Decoding validates a body against the type. Needs the extra `msgspec`. Raises TypeError if msgspec does not support
    the type, ValueError for another format.
    """

    @overload
    def __init__(self, kind: type[T], format: Format = "json") -> None: ...

    @overload
    def __init__(self: Msgspec[Any], kind: object, format: Format = "json") -> None: ...

    def __init__(self, kind: Any, format: Format = "json") -> None:
        needed("msgspec", "msgspec")
        import msgspec

        if format not in ("json", "msgpack"):
            raise ValueError(f"format is {format!r:.100}: give 'json' or 'msgpack'")
        self._kind, self._format = kind, format
        self._instance_of = _class_of(kind)
        self._encode: Any
        self._decode: Any
        if format == "json":
            self._encode, self._decode = msgspec.json.Encoder().encode, msgspec.json.Decoder(kind).decode
        else:
            self._encode, self._decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(kind).decode
        self._to_builtins = msgspec.to_builtins

    def encode(self, value: T, /) -> bytes:
        if self._instance_of is not None and not isinstance(value, self._instance_of):
            raise TypeError(f"the value is a {type(value).__name__}, not a {name_of(self._kind)}")
        body: bytes = self._encode(value)
        if self._format == "json" and b"null" in body:
            dumps(self._to_builtins(value))  # checks for NaN and infinity, which msgspec silently writes as null
        return body

    def decode(self, body: bytes, /) -> T:
        return self._decode(body)  # type: ignore[no-any-return]  # checked against the type

    def __reduce__(self) -> tuple[Any, ...]:
        return Msgspec, (self._kind, self._format)

    def __repr__(self) -> str:
        return f"Msgspec({name_of(self._kind)}{'' if self._format == 'json' else f', {self._format!r}'})"


def _class_of(kind: Any) -> type | None:
    """Class of which each value of the type `kind` must be an instance; None if the type has no such class."""
    if not isinstance(kind, type) or get_origin(kind) is not None or is_typeddict(kind):
        return None
    return None if kind.__module__ == "builtins" else kind
