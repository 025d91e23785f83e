"""The command of CI: a failure of the suite is tried once more and alone, a failure of any other part stands."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RUN = ROOT / ".ci" / "run"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKEFILE = """\
.PHONY: test suite core check again
test:
\t@$(MAKE) --no-print-directory --jobs=3 --keep-going --output-sync=target suite core check
suite core check again:
\t@echo "$@ was run"; test ! -e $@.fails
"""


@pytest.mark.parametrize(
    ("failing", "passes", "tried_again"),
    [
        (set(), True, False),
        ({"suite"}, True, True),
        ({"suite", "again"}, False, True),
        ({"core"}, False, False),
        ({"check"}, False, False),
        ({"suite", "core"}, False, False),
    ],
)
def test_what_failed_of_the_suite_alone_is_tried_again(
    failing: set[str], passes: bool, tried_again: bool, tmp_path: Path
) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(RUN, tmp_path / ".ci" / "run")
    (tmp_path / "Makefile").write_text(MAKEFILE)
    for part in failing:
        (tmp_path / f"{part}.fails").touch()
    ended = subprocess.run(
        ["bash", str(tmp_path / ".ci" / "run")], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode == 0) is passes, ended.stdout + ended.stderr
    assert "suite was run" in ended.stdout
    assert ("again was run" in ended.stdout) is tried_again


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_names_what_is_there(workflow: Path) -> None:
    """Neither runs here: paths, targets, extras and groups are all that can be held."""
    text = workflow.read_text("utf-8")
    commands = "\n".join(re.findall(r"^      - run: (.+)$", text, re.MULTILINE))
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras = [extra for names in re.findall(r'"\.\[([^]]+)\]"', commands) for extra in names.split(",")]
    assert {*extras} <= {*settings["project"]["optional-dependencies"]}
    assert {*re.findall(r"--group (\S+)", commands)} <= {*settings["dependency-groups"]}
    assert [path for path in re.findall(r"\btests/\S+", commands) if not (ROOT / path).exists()] == []
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = re.findall(r"\bmake ([a-z]+)", commands)
    assert targets
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []
