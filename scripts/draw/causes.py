"""Reference of the causes that `tolliver doctor` names, from their table."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from tolliver._cli.causes import ROWS, Grade

from scripts.pages import without_rulings

TEXT = """\
# Causes

A cause that [`tolliver doctor`](../troubles.md#doctor) names, as do `status` and `top` where an endpoint cannot be
reached: the check, the usual grade, the line that is shown, with the facts in capitals, and what to do.
"""
_FACT = re.compile(r"\{(?:\w+\.)?(\w+)[^}]*\}")


def rows() -> Iterator[str]:
    """The table of all causes. One that several checks find in the same words is one row."""
    checks: defaultdict[tuple[str, Grade, str, str], list[str]] = defaultdict(list)
    for name, (grade, text, remedy) in ROWS.items():
        check, cause, *_ = name.split(".")
        checks[cause, grade, text, remedy].append(check)
    yield "| cause | check | | said | what to do |"
    yield "|---|---|---|---|---|"
    for (cause, grade, *words), found in checks.items():
        said, remedy = (_FACT.sub(lambda fact: fact[1].upper(), without_rulings(text)) for text in words)
        yield f"| `{cause}` | {', '.join(found)} | {grade} | {said} | {remedy} |"


def page() -> str:
    """The page of the reference."""
    return "\n".join([TEXT, *rows(), ""])
