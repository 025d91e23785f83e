"""docs/proof.md says what was run, and the README quotes nothing else."""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path
from typing import cast

import psutil
import pytest

from scripts.prove import __main__ as proof
from scripts.prove.graph import Graph
from scripts.prove.page import Outcome, details, quoting
from scripts.prove.rows import ROWS, Row

ROOT = Path(__file__).resolve().parent.parent
FIGURE = re.compile(r"\d[\d,.]*\d|\d")


def test_every_row_of_the_list_is_there_once() -> None:
    names = [row.name for row in ROWS]
    assert names[:25] == [f"V{number}" for number in range(1, 26)]
    assert len(set(names)) == len(names)


def test_every_row_says_what_a_failure_would_be() -> None:
    assert [row.name for row in ROWS if not row.fails] == []


def test_the_commands_are_files_of_the_project() -> None:
    for row in ROWS:
        for command in (*row.commands, *row.full):
            program, *words = shlex.split(command)
            assert program == "python"
            place = words[1].replace(".", "/") if words[0] == "-m" else words[0].removesuffix(".py")
            assert any((ROOT / f"{place}{end}").is_file() for end in (".py", "/__main__.py")), command


def test_the_page_is_drawn_from_what_was_run() -> None:
    assert proof.PAGE.read_text() == proof.page(proof.load())
    for path in (proof.README, proof.FRONT):
        assert path.read_text() == quoting(path.read_text(), proof.load())


def test_a_row_is_a_line_and_the_reference_has_the_rest() -> None:
    lines = proof.PAGE.read_text().splitlines()
    assert max(map(len, lines)) < 400
    table = [line for line in lines if line.endswith(("| holds |", "**FAILED** |"))]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {7}
    assert len(table) == len(ROWS)
    assert details(proof.load()).count("\n## ") == len(ROWS)


def test_figures_of_all_adapters_are_the_least_and_the_most() -> None:
    said = [
        {"size": f"{size} runs, {kind}", "figures": f"messages: {ms} ms; messages: 0 lost; streams: {ms} ms"}
        for size, kind, ms in (("5", "asyncio", "12.5"), ("5", "trio", "9"))
    ]
    commands = [f"python -m x {kind} --size 5" for kind in ("asyncio", "trio")]
    outcome = {"passed": True, "commands": commands, "said": said, "date": "", "commit": "", "seconds": 1}
    text = details({"V1": cast("Outcome", outcome)})
    assert "- 5 runs, on 2 adapters: messages: 9 to 12.5 ms, 0 lost; streams: 9 to 12.5 ms\n" in text
    assert "`python -m x KIND --size 5`" in text
    said.append({"size": "1 more", "figures": "1 | 2"})
    shown = proof.page({"V1": cast("Outcome", outcome)})
    assert "| 5 runs, on 2 adapters | messages: 9 to 12.5 ms, 0 lost; streams: 9 to 12.5 ms; 1 more: 1 \\| 2 |" in shown


def test_what_failed_is_nowhere_quoted_without_saying_so() -> None:
    failed = {name: {**one, "passed": False} for name, one in proof.load().items()}
    for path in (proof.README, proof.FRONT):
        shown = quoting(path.read_text(), cast("dict[str, Outcome]", failed))
        assert shown.count("**FAILED**") == (7 if path == proof.README else 1)


def test_the_readme_quotes_only_figures_of_the_page() -> None:
    _, section = (ROOT / "README.md").read_text().split("## Reliability\n")
    section = section.split("\n## ")[0]
    known = set(FIGURE.findall(proof.PAGE.read_text()))
    quoted = set(FIGURE.findall(re.sub(r"\(docs/[^)]*\)", "", section)))
    assert quoted
    assert quoted <= known, f"{sorted(quoted - known)} are not in docs/proof.md"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("program", "passed", "figures"),
    [
        ("print('result: V0 | 3 runs | 0 lost')", True, "0 lost"),
        ("print('result: V0 | 3 runs | 1 lost'); raise SystemExit(1)", False, "1 lost"),
        ("print('all is well')", False, "it said nothing"),
    ],
)
def test_a_command_passes_if_it_says_so_and_says_what(program: str, passed: bool, figures: str) -> None:
    row = Row("V0", "nothing", "3 runs", (shlex.join(["python", "-c", program]),))
    outcome = proof.run(row)
    assert outcome["passed"] is passed
    assert [said["figures"] for said in outcome["said"]] == [figures]
    shown = proof.page({"V1": outcome})
    assert ("| holds |" in shown) is passed
    assert ("**FAILED**" in shown) is not passed


def test_numbers_over_time_are_a_line_of_the_page() -> None:
    said = Graph("memory, MiB", [float(number) for number in range(100)]).said()
    program = f"print({said!r}); print('result: V0 | 3 runs | 0 lost')"
    outcome = proof.run(Row("V0", "nothing", "3 runs", (shlex.join(["python", "-c", program]),)))
    assert outcome["graphs"] == [said]
    [line] = [line for line in details({"V1": outcome}).splitlines() if line.startswith("- memory, MiB: ")]
    bars = line.split("`")[1]
    assert (bars[0], bars[-1], len(bars)) == ("▁", "█", 48)
    assert line.endswith("` from 0 to 99")
    assert Graph.heard("graph: of nothing | ") is None
    assert Graph("flat", [5.0, 5.0]).drawn() == "flat: `▁▁` from 5 to 5"


@pytest.mark.thorough
def test_a_command_that_takes_too_long_ends_with_all_that_it_started(tmp_path: Path) -> None:
    script, started = tmp_path / "long.py", tmp_path / "started"
    program = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open({str(started)!r}, "w").write(str(child.pid))
time.sleep(600)
"""
    script.write_text(program)
    passed, said, _ = proof._called(f"python {script}", longest=3.0)
    assert (passed, said[0]["figures"]) == (False, "did not end within 3 s")
    child = int(started.read_text())
    for _ in range(600):
        if not psutil.pid_exists(child):
            break
        time.sleep(0.1)
    assert not psutil.pid_exists(child)


def test_what_runs_beside_the_others_comes_last() -> None:
    says = (shlex.join(["python", "-c", "print('result: V0 | 1 run | 0 lost')"]),)
    rows = [Row("long", "", "", says, beside=True), Row("one", "", "", says), Row("other", "", "", says)]
    outcomes = [(row.name, outcome["passed"]) for row, outcome in proof.run_all(rows)]
    assert outcomes == [("one", True), ("other", True), ("long", True)]


@pytest.mark.thorough
def test_a_row_that_was_run_in_full_is_not_less_than_asked() -> None:
    small, full = (shlex.join(["python", "-c", f"print('result: V7 | {size} kills | 0 lost')"]) for size in (5, 10_000))
    row = next(row for row in ROWS if row.name == "V7")._replace(commands=(small,), full=(full,))
    assert [said["size"] for said in proof.run(row)["said"]] == ["5 kills"]
    assert [said["size"] for said in proof.run(row, full=True)["said"]] == ["10000 kills"]
    real = next(row for row in ROWS if row.name == "V7")
    outcome = proof.run(row)
    for commands, smaller in ((real.commands, True), (real.full, False)):
        outcome["commands"] = [*commands]
        assert (f"- In that size: `{real.full[0]}`" in details({"V7": outcome})) is smaller
