"""Reading of what installers say, and their end."""

from __future__ import annotations

import sys

import pytest

from scripts.install import Step, bar, command, run

PIP = """\
Collecting rich>=13
  Downloading https://example.org/rich-14.whl.metadata (18 kB)
Progress 524288 of 1048576
Requirement already satisfied: attrs in /x
Building wheel for pyspark (pyproject.toml): started
Installing collected packages: rich, pyspark, psutil
"""
SAID = [
    ("1 packages looked up", None),
    ("rich-14.whl.metadata", None),
    ("rich-14.whl.metadata 0.5 of 1.0 MiB", 0.5),
    ("2 packages looked up", None),
    ("building pyspark", None),
    ("installing 3 packages", None),
]


def test_the_lines_of_pip() -> None:
    step, said = Step(), []
    for line in PIP.splitlines():
        step.read(line)
        said.append((step.words, step.share))
    assert said == SAID


@pytest.mark.parametrize(
    ("line", "share"), [("dlstatus:1:40.0:Retrieving file 2 of 5", 0.2), ("pmstatus:openjdk:20.0:Unpacking", 0.6)]
)
def test_the_lines_of_apt(line: str, share: float) -> None:
    step = Step()
    step.read(line)
    assert step.share == share


def test_a_bar_is_as_wide_whatever_is_known() -> None:
    bars = [bar(share, seconds) for share in (None, 0.0, 0.5, 1.0, 1.5) for seconds in (0.0, 3.3, 99.0)]
    assert {len(one) for one in bars} == {30}
    assert bar(1.0, 0).count("#") == 30
    assert bar(None, 1.0) != bar(None, 2.0)


@pytest.mark.parametrize("status", [0, 3])
def test_what_failed_is_shown(status: int, capfd: pytest.CaptureFixture[str]) -> None:
    program = f"print('the reason'); raise SystemExit({status})"
    assert run([sys.executable, "-c", program], "installing it") == status
    said = capfd.readouterr().out
    assert ("the reason" in said) == bool(status)
    assert ("installing it: failed" in said) == bool(status)


def test_pip_goes_into_this_environment() -> None:
    words = command("pip", [".[cli]", "--group", "demo"])
    assert words[0] == sys.executable
    assert words[-4:] == ["--editable", ".[cli]", "--group", "demo"]
