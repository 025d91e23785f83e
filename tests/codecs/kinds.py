"""Types that the tests of codecs encode, and bodies that no codec should trip over."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, TypedDict

import msgspec


class Unit(StrEnum):
    PERCENT = "%"
    DEGREES = "C"


@dataclass
class Reading:
    percent: int
    exact: float = 0.0
    note: str | None = None
    unit: Unit = Unit.PERCENT
    parts: list[bytes] = field(default_factory=list)


class Place(TypedDict):
    name: str
    height: float


Sample: Any = msgspec.defstruct("Sample", [("at", datetime), ("values", dict[str, int]), ("raw", bytes, b"")])


DEEP = 100_000
HOSTILE = {
    "nothing": b"",
    "invalid utf-8": b'"\xff\xfe"',
    "utf-16": '{"percent": 1}'.encode("utf-16"),
    "deep lists": b"[" * DEEP,
    "deep objects": b'{"percent":' * DEEP,
    "a deep list, whole": b"[" * DEEP + b"]" * DEEP,
    "deep in a field": b'{"percent":1,"parts":' + b"[" * DEEP,
    "deep messagepack": b"\x91" * DEEP,
    "deep groups": b"\x0b" * DEEP,
    "a huge number": b"9" * 100_000,
    "a huge number in a field": b'{"percent":' + b"9" * 100_000 + b"}",
    "a huge float": b"1e999",
    "no number": b"NaN",
    "infinity": b'{"percent":-Infinity}',
    "a lone surrogate": b'{"percent":"\\ud800"}',
    "cut off": b'{"percent":',
    "more behind it": b'{"percent":1}}',
    "a length beyond the end": b"\x0a\xff\xff\xff\xff\x0f",
    "a map of four thousand million": b"\xdf\xff\xff\xff\xff",
    "a byte string of four thousand million": b"\xc6\xff\xff\xff\xff",
    "zeros": bytes(1000),
}
