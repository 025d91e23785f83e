"""A bug to be planted: what a good test must see (V4).

The idea: a bug is data, a statement or an expression of a function and what stands there instead.
"""

from __future__ import annotations

from typing import NamedTuple


class Bug(NamedTuple):
    """`good` stands in `function` of `file`, `bad` takes its place; `tests` are those that see it, and few.

    `function` is a name without its class ("acknowledge"; or a class's own), "" what is in none. `good` is
    one or more statements, or one expression; how it is indented, broken into lines and commented does not matter.
    """

    name: str
    file: str
    function: str
    good: str
    bad: str
    tests: tuple[str, ...]
