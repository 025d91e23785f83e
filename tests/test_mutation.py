"""The sample of mutants is the same each time, and each of it is another program (scripts/mutation.py)."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("cosmic_ray", reason="dependency group mutation")

from scripts import mutation
from scripts.coverage_core import ROOT
from scripts.prove.page import page

FILE = "tolliver_proto/_wire/state.py"
SOURCE = (ROOT / FILE).read_text("utf-8")


@pytest.fixture
def one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """All mutants take minutes to find."""
    monkeypatch.setattr(mutation, "files", lambda: iter([FILE]))


@pytest.mark.usefixtures("one_file")
def test_the_sample_is_the_same_each_time_and_leaves_out_what_is_known() -> None:
    every = mutation.mutants()
    some = [mutant for mutant, _ in mutation.sample(every, (), 5)]
    assert some == [mutant for mutant, _ in mutation.sample(mutation.mutants(), (), 5)]
    others = [mutant for mutant, _ in mutation.sample(every, {some[0].key, some[3].key}, 3)]
    assert others == [some[1], some[2], some[4]]


@pytest.mark.usefixtures("one_file")
def test_a_mutant_changes_its_line_alone() -> None:
    for mutant, text in mutation.sample(mutation.mutants(), (), 5):
        before, after = (source.splitlines() for source in (SOURCE, text))
        assert before != after
        assert {*before} - {*after} <= {before[mutant.line - 1]}


PROGRAM = f"""
from scripts import mutation

class These(mutation.Reach):
    def __init__(self):
        pass

    def tests(self, mutant):
        return ["tests/wire/test_versions.py"]

mutant = mutation.Mutant("", {FILE!r}, 1, "", 0)
source = (mutation.ROOT / mutant.file).read_text("utf-8")
for text in (source, source + "raise ImportError"):
    [(run, outcome)] = mutation.outcomes([(mutant, text)], These(), 1)
    print(outcome, mutation.is_sound(run))
"""


def test_a_mutant_is_killed_by_a_test_that_sees_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "None True\nstatus 4 True\n"


def test_survivors_stand_on_the_page() -> None:
    alive = mutation.change(mutation.Mutant("", FILE, 1, "", 0), "a | b")
    shown = page({}, [{"file": FILE, "before": "a | b", "after": "a & b", "said": ""}])
    assert alive["after"] == "a | b"
    assert shown.endswith(f"| `{FILE}` | `a \\| b` | `a & b` | not looked at yet |\n")
