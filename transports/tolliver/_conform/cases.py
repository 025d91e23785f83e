"""Cases as data: what is expected, by which rulings, and a script."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum
from typing import Generic, TypeVar

S = TypeVar("S")


class Level(StrEnum):
    """Levels of RFC 2119."""

    MUST = "must"
    SHOULD = "should"
    MAY = "may"


class Role(StrEnum):
    """Side that the kit plays."""

    DIAL = "dial"
    LISTEN = "listen"
    BOTH = "cross"
    """It dials and listens, in one case."""


EITHER = frozenset((Role.DIAL, Role.LISTEN))
DIAL, LISTEN, BOTH = (frozenset((role,)) for role in Role)


class Place(IntEnum):
    """Places in the order of a run. A peer that was refused may not dial again for minutes."""

    USUAL = 0
    MAY_REFUSE = 1
    REFUSES = 2
    ENDS_ALL = 3


class Verdict(Enum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Failed(Exception):
    """The peer did something else than was expected."""

    def __init__(self, expected: str, seen: str) -> None:
        super().__init__(f"expected {expected}, saw {seen}")
        self.expected, self.seen = expected, seen


class Skipped(Exception):
    """The case cannot be run here; the text says why."""


@dataclass(frozen=True)
class Case(Generic[S]):
    """One case. `text` is the sentence for a reader: what is expected. `roles` are those that it is run in."""

    id: str
    rulings: tuple[str, ...]
    level: Level
    text: str
    script: Callable[[S], None]
    roles: frozenset[Role]
    short: bool
    place: Place


@dataclass(frozen=True)
class Result:
    """Outcome of one case in one role. `expected` and `seen` are of the step that failed; `seen` of a skipped one
    is the reason."""

    id: str
    rulings: tuple[str, ...]
    level: Level
    text: str
    role: Role
    verdict: Verdict
    seconds: float
    expected: str = ""
    seen: str = ""


class Book(Generic[S]):
    """The cases of one family, in order. Ids are a prefix and the number that a case is given, so that it stays."""

    def __init__(self, prefix: str, roles: frozenset[Role] = EITHER) -> None:
        self.cases: list[Case[S]] = []
        self._prefix, self._roles = prefix, roles

    def case(
        self,
        number: int,
        rulings: str,
        level: Level,
        text: str,
        *,
        roles: frozenset[Role] | None = None,
        short: bool = False,
        place: Place = Place.USUAL,
    ) -> Callable[[Callable[[S], None]], Callable[[S], None]]:
        """Decorator of a script."""

        def add(script: Callable[[S], None]) -> Callable[[S], None]:
            made = Case(
                f"{self._prefix}-{number:02}", tuple(rulings.split()), level, text, script, roles or self._roles, short,
                place,
            )  # fmt: skip
            self.cases.append(made)
            return script

        return add


def chosen(cases: Iterable[Case[S]], only: Iterable[str], short: bool) -> list[Case[S]]:
    """Those whose id begins with one of `only` (empty: all), and with `short` one of each kind. In the order of a run.
    Raises ValueError for a word of `only` that begins no id.
    """
    cases, words = list(cases), tuple(only)
    for word in words:
        if not any(case.id.startswith(word) for case in cases):
            raise ValueError(f"no case is called {word}: --list has them")
    taken = (case for case in cases if (not words or case.id.startswith(words)) and (case.short or not short))
    return sorted(taken, key=lambda case: case.place)
