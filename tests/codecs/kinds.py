"""Types that the tests of codecs encode."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TypedDict

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


class Sample(msgspec.Struct):
    at: datetime
    values: dict[str, int]
    raw: bytes = b""
