"""A fault of a peer that a conformance kit should find: data.

The idea: a fault is a statement or an expression of our own implementation with another in its place, as a planted bug
is (`scripts/planted`). So each peer with a fault is a whole one, with one thing wrong on the wire.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from scripts.planted.bug import Bug
from scripts.planted.bugs import BUGS

Protocol = Literal["messages", "streams"]
Role = Literal["listen", "dial", "cross"]
"""The end that shows the fault: one that listens, one that dials, one that does both so that dials cross."""

BOTH: tuple[Role, ...] = ("listen", "dial")
LISTEN: tuple[Role, ...] = ("listen",)
DIAL: tuple[Role, ...] = ("dial",)
CROSS: tuple[Role, ...] = ("cross",)


class Edit(NamedTuple):
    """Part of a fault: in `function` of `file`, `bad` stands in place of `good`, as in `Bug`."""

    file: str
    function: str
    good: str
    bad: str


class Fault(NamedTuple):
    """`wrong` says what the peer does wrong, against `ruling`; `edits` make it so, one after the other."""

    name: str
    ruling: str
    protocol: Protocol
    roles: tuple[Role, ...]
    wrong: str
    edits: tuple[Edit, ...]

    @property
    def bugs(self) -> list[Bug]:
        """The edits as bugs to be planted. No test of ours is asked whether it sees them."""
        return [Bug(self.name, *edit, tests=()) for edit in self.edits]


def known(name: str) -> tuple[Edit, ...]:
    """The edit of a planted bug, which is a fault on the wire, too. Raises StopIteration where there is none."""
    bug = next(one for one in BUGS if one.name == name)
    return (Edit(bug.file, bug.function, bug.good, bug.bad),)
