"""Strict JSON, for plain values and for typed bodies.

Nothing is decoded that could not be encoded (P-45).
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn


def dumps(value: object) -> bytes:
    """Encode compact JSON. Raises TypeError, ValueError, RecursionError."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def loads(body: bytes) -> Any:
    """Decode JSON. Raises ValueError, RecursionError."""
    value = json.loads(body.decode(), parse_constant=_refuse, parse_float=_finite)
    if b"\\u" in body:
        dumps(value)  # refuses lone surrogates, which JSON can escape but UTF-8 cannot encode
    return value


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text:.40} is out of range")
    return number


def name_of(kind: object) -> str:
    """Name of the type `kind`, for texts."""
    return kind.__name__ if isinstance(kind, type) and "[" not in repr(kind) else f"{kind!r:.100}"
