"""Cases of `vectors/`, as they are read from their files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

VECTORS = Path(__file__).parents[1] / "vectors"
Case = dict[str, Any]


def cases(protocol: str, kind: str) -> list[Case]:
    return list(json.loads((VECTORS / protocol / f"{kind}.json").read_text("utf-8"))["cases"])


def named(case: Case) -> str:
    return str(case["id"])


def number(value: int | str | None) -> int | None:
    """A number of 2^53 and above is text, as JSON in other languages has no room for it."""
    return int(value) if isinstance(value, str) else value


# Bytes arrive whole, or one at a time: what is read is the same.

Pieces = Callable[[bytes], list[bytes]]


def whole(data: bytes) -> list[bytes]:
    return [data]


def single_bytes(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


cut = pytest.mark.parametrize("pieces", [whole, single_bytes], ids=["whole", "byte by byte"])
