"""The benchmark that has others beside ours: its table, its ratios, and who is left out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import peers
from benchmarks._peers import brokers, rows
from benchmarks._peers.report import circumstances, data_of, is_met, lines_of, ratio, words
from benchmarks._peers.rows import ROWS, Aim, Contestant, Row, at_least, at_most
from benchmarks._peers.running import ROOT, Bench, Failed, Result, Table, run


def row_of(*contestants: Contestant) -> Row:
    return Row("work", "Some work", "messages/s", "rate", "bare", contestants, more_is_better=True)


BARE, OURS = Contestant("bare", "bare:store"), Contestant("tolliver, asyncio", "ours:count")


def told(**figures: list[dict[str, float]]) -> Callable[[Contestant], dict[str, float]]:
    """A measurement that gives these figures, one after the other."""
    left = {name: iter(given) for name, given in figures.items()}
    return lambda contestant: next(left[contestant.name.split(",")[0]])


def rates(*values: float) -> list[dict[str, float]]:
    return [{"rate": value} for value in values]


def test_contestants_take_turns_and_the_median_of_the_runs_counts() -> None:
    lines: list[str] = []
    row = row_of(BARE, OURS)
    table = run([row], told(bare=rates(100, 10, 1000), tolliver=rates(50, 20, 100)), 3, lines.append)
    turns = [f"work, run {turn} of 3: {name}" for turn in (1, 2, 3) for name in (BARE.name, OURS.name)]
    assert lines == turns
    ours = table.result(row, OURS.name)
    assert ours is not None
    assert ours.median("rate") == 50
    assert ratio(table, ours) == 0.5, "of the ratios 0.5, 2 and 0.1: each to the yardstick of the same run"


def test_a_ratio_needs_its_yardstick() -> None:
    row = row_of(OURS)
    table = run([row], told(tolliver=rates(50)), 1)
    assert ratio(table, table.results[0]) is None


@pytest.mark.parametrize(
    ("aim", "met"),
    [
        (at_least(50), True),
        (at_least(51), False),
        (at_least(0.5, "bare"), True),
        (at_least(0.6, "bare"), False),
        (at_least(1, "nobody"), None),
        (at_most(50), True),
        (at_most(49), False),
        (at_most(7, "p99"), True),
        (at_most(2.5, "p99", "p50"), False),
        (at_most(4, "p99", "p50"), True),
    ],
    ids=lambda value: words(value) if isinstance(value, Aim) else None,
)
def test_an_aim_is_a_number_or_so_many_times_another_figure(aim: Aim, met: bool | None) -> None:
    bare = Result(row_of(), BARE, rates(100))
    ours = Result(bare.row, replace(OURS, aims=(aim,)), [{"rate": 50, "p50": 2, "p99": 7}])
    assert is_met(Table([bare, ours]), ours, aim) is met


def test_who_is_not_installed_is_left_out_by_name_and_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(brokers, "BESIDE_PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    packageless = Contestant("packageless", "bare:store", needs=("no_such_package",))
    brokerless = Contestant("brokerless", "bare:store", broker="mosquitto")
    broken = Contestant("broken", "bare:no_such_program")
    row = row_of(packageless, brokerless, broken)
    with Bench(0.01) as bench:
        table = run([row], bench.measure, 2)
    assert table.results == []
    reasons = {one.contestant: one.reason for one in table.left_out}
    assert reasons["packageless"] == "the module no_such_package is not installed"
    assert reasons["brokerless"] == "mosquitto is not on PATH"
    assert "bare:no_such_program has ended (1): AttributeError" in reasons["broken"]
    said = lines_of(data_of(table, circumstances(0.01, 2, ())))
    assert "- left out of work: brokerless: mosquitto is not on PATH" in said


def test_who_fails_once_is_left_out_of_the_row_and_the_others_stay() -> None:
    def measure(contestant: Contestant) -> dict[str, float]:
        seen.append(contestant.name)
        if contestant is OURS and len(seen) > 2:
            raise Failed("it has ended")
        return {"rate": 1}

    seen: list[str] = []
    table = run([row_of(BARE, OURS)], measure, 3)
    assert [result.contestant.name for result in table.results] == ["bare"]
    assert [(one.contestant, one.reason) for one in table.left_out] == [(OURS.name, "it has ended")]
    assert seen.count(OURS.name) == 2, "it is not tried again"


def test_fairness_is_left_out_under_nice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.nice", lambda _more: 10)
    table = run([rows.fairness()], told(), 1)
    assert table.results == []
    assert {one.reason for one in table.left_out} == {"it says nothing under nice"}


def test_the_json_file_has_what_the_table_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of both ends, ours over TLS."""
    monkeypatch.chdir(tmp_path)
    whole = rows.fire()
    monkeypatch.setattr(peers, "ROWS", (replace(whole, contestants=whole.contestants[:2]),))
    file = tmp_path / "peers.json"
    lines: list[str] = []
    monkeypatch.setattr("builtins.print", lambda *values, **_how: lines.extend(str(values[0]).split("\n")))
    peers.main(["--seconds", "0.05", "--runs", "1", "--only", "fire", "--json", str(file)])
    data = json.loads(file.read_text("utf-8"))
    assert lines[: len(lines_of(data))] == lines_of(data)
    assert lines[-1].startswith("again: python benchmarks/peers.py --seconds 0.05")
    (row,) = data["rows"]
    bare, ours = row["contestants"]
    assert (bare["name"], ours["name"]) == (row["yardstick"], "tolliver, asyncio")
    assert bare["ratio"] == 1
    assert ours["ratio"] == pytest.approx(ours["value"] / bare["value"])
    assert any("| **tolliver, asyncio**" in line and "at least 500,000: " in line for line in lines)
    assert {"date", "commit", "versions", "load", "seconds", "runs"} <= data.keys()
    assert [path.name for path in tmp_path.iterdir()] == ["peers.json"], "it leaves nothing behind"


def test_who_is_ours_and_what_counts_is_in_the_table() -> None:
    row = row_of(replace(BARE, note="alone"), OURS)
    figures: list[dict[str, float]] = [{"rate": 1234567, "p99": 12.345}]
    table = run([row], told(bare=rates(2469134), tolliver=figures), 1)
    data: dict[str, Any] = data_of(table, circumstances(1, 1, (0, 1)))
    lines = lines_of(data)
    bare, ours = ([cell.strip() for cell in line.split("|")[1:6]] for line in lines[2:4])
    assert bare == ["work, messages/s", "bare", "2,470,000", "yardstick", ""]
    assert ours == ["", "**tolliver, asyncio**", "1,230,000", "0.5", "p99 12.3 us"]
    assert "- alone: bare (work)" in lines


def test_every_row_has_its_yardstick_and_its_programs() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    for row in ROWS:
        names = [one.name for one in row.contestants]
        assert len(set(names)) == len(names)
        assert row.yardstick in names
        for contestant in row.contestants:
            assert {aim.of for aim in contestant.aims} <= {*names, ""}
            for program in filter(None, (contestant.here, contestant.there, contestant.flood)):
                module, _, function = program.partition(":")
                text = (ROOT / "benchmarks" / "_peers" / f"{module}.py").read_text("utf-8")
                assert f"\ndef {function}(" in text or f"\nasync def {function}(" in text, program


def test_rows_are_chosen_by_name_or_by_its_beginning() -> None:
    assert [row.name for row in peers.chosen(["many-1000"])] == ["many-1000"]
    assert [row.name for row in peers.chosen(["many", "fire"])] == ["fire", "many-1000", "many-10000"]
    assert peers.chosen([]) == [*ROWS]
    with pytest.raises(ValueError, match="no row begins with 'nothing': give some of fire, one"):
        peers.chosen(["nothing"])


def test_it_is_a_command() -> None:
    said = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "peers.py", "--list"], capture_output=True, text=True, check=True
    )
    assert [line.split()[0] for line in said.stdout.splitlines()] == [row.name for row in ROWS]
