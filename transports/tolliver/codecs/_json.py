"""JSON bodies: plain values by the standard library, types by msgspec.

Both are strict (P-45): UTF-8 alone, no NaN or infinity, and nothing is decoded that could not be encoded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from ._strict_json import dumps, loads, name_of

T = TypeVar("T")
_PLAIN = frozenset({object, dict, list, str, int, float, bool, type(None)})


class Json(Generic[T]):
    """JSON in UTF-8.

    - `Json()`: whatever JSON has, as `json.loads` makes it.
    - `Json(dict)`, `list`, `str`, `int`, `float`, `bool`: that kind of value alone.
    - `Json(Reading)`: a dataclass, TypedDict, NamedTuple, attrs or msgspec class, or a type of them as
      `list[Reading]`: what is decoded is checked and built. Needs the extra `msgspec`, and says so where it is missing.
    """

    @overload
    def __init__(self: Json[Any]) -> None: ...

    @overload
    def __init__(self, kind: type[T]) -> None: ...

    @overload
    def __init__(self: Json[Any], kind: object) -> None: ...

    def __init__(self, kind: Any = object) -> None:
        self._kind = kind
        if kind is None or (isinstance(kind, type) and kind in _PLAIN):
            plain = _Plain(type(None) if kind is None else kind)
            self._encode: Callable[[Any], bytes] = plain.encode
            self._decode: Callable[[bytes], Any] = plain.decode
        else:
            from ._msgspec import Msgspec  # which most programs never load

            typed = Msgspec(kind)
            self._encode, self._decode = typed.encode, typed.decode

    def encode(self, value: T, /) -> bytes:
        return self._encode(value)

    def decode(self, body: bytes, /) -> T:
        return self._decode(body)  # type: ignore[no-any-return]  # checked against the type

    def __repr__(self) -> str:
        return f"Json({'' if self._kind is object else name_of(self._kind)})"


class _Plain:
    """Values that JSON itself has, of one kind or any."""

    def __init__(self, kind: type) -> None:
        self._kind = kind

    def encode(self, value: object) -> bytes:
        self._check(value)
        return dumps(value)

    def decode(self, body: bytes) -> object:
        value = loads(body)
        self._check(value)
        return float(value) if self._kind is float else value

    def _check(self, value: object) -> None:
        kind = self._kind
        if kind is object or (isinstance(value, kind) and (kind is not int or not isinstance(value, bool))):
            return
        if kind is not float or not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"the value is {_article(type(value))}, not {_article(kind)}")


def _article(kind: type) -> str:
    return "None" if kind is type(None) else f"{'an' if kind is int else 'a'} {kind.__name__}"
