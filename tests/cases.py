"""Cases of `vectors/`, as they are read from their files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).parents[1] / "vectors"
Case = dict[str, Any]


def cases(protocol: str, kind: str) -> list[Case]:
    return list(json.loads((VECTORS / protocol / f"{kind}.json").read_text("utf-8"))["cases"])


def named(case: Case) -> str:
    return str(case["id"])


def number(value: int | str | None) -> int | None:
    """A number of 2^53 and above is text, as JSON in other languages has no room for it."""
    return int(value) if isinstance(value, str) else value
