"""A bug to be planted: what a good test must see (V4).

The idea: a bug is data, a place in the source and what stands there instead. The place must be there exactly once, so a
change of the source that moves it makes the bug fail loudly instead of planting nothing.
"""

from __future__ import annotations

from typing import NamedTuple


class Bug(NamedTuple):
    """`good` is the place in `file`, `bad` what stands there instead; `tests` are those that see it, and few."""

    name: str
    file: str
    good: str
    bad: str
    tests: tuple[str, ...]
