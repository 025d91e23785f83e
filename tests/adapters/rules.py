"""Rules of Reactive Streams, as far as an adapter shows them.

The names are those of the JVM's conformance kit. As in `RULES` of `tests/reactive/test_rules.py`, a rule is a small
scenario, here on a `Stage` of one kind of adapter. Each file of scenarios has its table, and its one test plays them
all; what a report needs to know goes with each result as the property `tck`: the layer, the rule, and the names of the
kit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest

from .kinds import KINDS
from .streams import FORMS, Stage

Scenario = Callable[[Stage], None]


class Rule(NamedTuple):
    rule: str
    kit: tuple[str, ...]


class Case(NamedTuple):
    scenario: Scenario
    rules: list[Rule]
    kinds: tuple[str, ...]


class Rules(dict[Scenario, Case]):
    """Scenarios, in the order in which they stand in their file."""

    def __call__(self, number: str, *kit: str, kinds: Iterable[str] = KINDS) -> Callable[[Scenario], Scenario]:
        """The scenario shows this rule, under these names of the kit. Several may stand above one scenario."""

        def add(scenario: Scenario) -> Scenario:
            case = self.setdefault(scenario, Case(scenario, [], tuple(kinds)))
            case.rules.insert(0, Rule(number, kit))
            return scenario

        return add

    def params(self, own: Iterable[str] = ()) -> list[Any]:
        """Of `kind`, `form` and `case`; `own` are the kinds that play it with sources of their own form as well.

        The first kind alone is not left to `make tck`: engines show the same rules, and no kind has one of its own.
        """
        return [
            pytest.param(
                *(kind, form, case),
                id=f"{case.rules[0].rule}-{case.scenario.__name__}-{kind}-{form}",
                marks=[pytest.mark.tck] * (kind != case.kinds[0]),
            )
            for case in self.values()
            for kind in case.kinds
            for form in FORMS[: 1 + (kind in own)]
        ]


def play(case: Case, stage: Stage, record: Callable[[str, object], None]) -> None:
    for one in case.rules:
        record("tck", [stage.world.kind, one.rule, *one.kit])
    case.scenario(stage)
