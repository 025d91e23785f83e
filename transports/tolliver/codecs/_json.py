"""JSON bodies: plain values with the standard library, types with msgspec.

Both are strict (P-45): UTF-8 only, no NaN or infinity, and nothing is decoded that could not be encoded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from ._strict_json import dumps, loads, name_of

T = TypeVar("T")
_PLAIN = frozenset({object, dict, list, str, int, float, bool, type(None)})


class Json(Generic[T]):
    """Codec for JSON in UTF-8.

    - `Json()`: any JSON value, as `json.loads` returns it.
    - `Json(dict)`, `list`, `str`, `int`, `float`, `bool`: only values of that type.
    - `Json(Reading)`: a dataclass, TypedDict, NamedTuple, attrs or msgspec class, or a type such as `list[Reading]`.
      Decoded values are validated and created. Needs the extra `msgspec`.
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
            from ._msgspec import Msgspec  # imported late: most programs never need it

            typed = Msgspec(kind)
            self._encode, self._decode = typed.encode, typed.decode

    def encode(self, value: T, /) -> bytes:
        return self._encode(value)

    def decode(self, body: bytes, /) -> T:
        return self._decode(body)  # type: ignore[no-any-return]  # checked against the type

    def __reduce__(self) -> tuple[Any, ...]:
        return Json, (self._kind,)

    def __repr__(self) -> str:
        return f"Json({'' if self._kind is object else name_of(self._kind)})"


class _Plain:
    """JSON's own values, of one type or any."""

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
