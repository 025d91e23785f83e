"""Report on the Reactive Streams conformance kit, over three layers (V24).

    python -m scripts.prove.tck [options of pytest, such as -n 2]

The names are those of the JVM's kit. The layers are the bare engine, two engines in memory (bytes whole, one by one,
cut by chance), and each adapter on real sockets. Tests say which names they stand for (the property `tck`), the kit's
list says which there are (`tests/reactive/kit.py`): a name that is missing in a layer, or red there, fails the report.
If a layer cannot show a rule, the list says why. A test that counts elements counts ten times as many as in `make
test`.
"""

from __future__ import annotations

import os
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping

import pytest

from tests.adapters.kinds import KINDS
from tests.reactive import kit

TESTS = [
    "tests/reactive/test_rules.py",
    *(f"tests/adapters/test_streams_{part}.py" for part in ("publisher", "subscriber", "relay")),
]
EXCUSED: dict[str, Mapping[str, str]] = {"engine": kit.NOT_ON_ONE_ENGINE, "pair": kit.NOT_IN_A_PAIR}
LAYERS = [*EXCUSED, *KINDS]
NUMBERS = {"ok": "passed", "RED": "failed", "MISSING": "have no test", "-": "are not for their layer"}


class Results:
    """Results of each name in each layer. A plugin of pytest."""

    def __init__(self) -> None:
        self.rules: dict[str, str] = {}
        self.passed: defaultdict[tuple[str, str], list[bool]] = defaultdict(list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            for name, value in report.user_properties:
                if name == "tck" and isinstance(value, list):
                    self._add(report.passed, *value)

    def _add(self, passed: bool, layer: str, rule: str, *names: str) -> None:
        layer = {"bare": "engine", "pair": "pair"}.get(layer.split()[0], layer)
        for name in names:
            self.rules.setdefault(name, rule)
            self.passed[name, layer].append(passed)

    def verdict(self, name: str, layer: str) -> str:
        results = self.passed.get((name, layer))
        if results:
            return "ok" if all(results) else "RED"
        return "-" if name in EXCUSED.get(layer, ()) else "MISSING"


def report(results: Results) -> bool:
    """Prints the table; whether all is well."""
    print(f"\n{kit.VERSION}; '-': the layer cannot show it, see tests/reactive/kit.py\n")
    print(f"{'rule':5}", *(f"{layer:>{_width(layer)}}" for layer in LAYERS), " name")
    found: Counter[str] = Counter()
    for verification, names in kit.KIT.items():
        print(f"\n{verification}")
        for name in names:
            if name in kit.TESTED or name in kit.UNTESTED:
                verdicts = [results.verdict(name, layer) for layer in LAYERS]
                _line(kit.rule_of(name) or results.rules.get(name, ""), verdicts, name)
                found.update(verdicts)
    good = {name for name in (*kit.TESTED, *kit.UNTESTED) if all(_fine(results.verdict(name, one)) for one in LAYERS)}
    print(f"\n{len(good & {*kit.TESTED})} of {len(kit.TESTED)} required, optional and stochastic tests of the kit,")
    print(f"{len(good & {*kit.UNTESTED})} of {len(kit.UNTESTED)} rules that it leaves untested")
    strange = sorted(results.rules.keys() - {*kit.TESTED, *kit.UNTESTED})
    for name in strange:
        print(f"the kit has no test of the name {name}")
    figures = ", ".join(f"{found[verdict]} {words}" for verdict, words in NUMBERS.items())
    print(
        f"result: V24 | {len(kit.TESTED)} tests and {len(kit.UNTESTED)} untested rules of the kit, "
        f"{found.total()} cells of {len(LAYERS)} layers | {figures}, "
        f"by {sum(map(len, results.passed.values())):,} results"
    )
    return len(good) == len(kit.TESTED) + len(kit.UNTESTED) and not strange


def _line(rule: str, verdicts: list[str], name: str) -> None:
    cells = (f"{verdict:>{_width(layer)}}" for verdict, layer in zip(verdicts, LAYERS, strict=True))
    print(f"{rule:5}", *cells, f" {name}")


def _width(layer: str) -> int:
    return max(len(layer), len("MISSING"))


def _fine(verdict: str) -> bool:
    return verdict in ("ok", "-")


def main() -> int:
    results = Results()
    os.environ.setdefault("TOLLIVER_ELEMENTS", "100000")  # of rule 3.3
    status = pytest.main([*TESTS, "-q", "--no-header", *sys.argv[1:]], plugins=[results])
    return 0 if report(results) and not status else 1


if __name__ == "__main__":
    sys.exit(main())
