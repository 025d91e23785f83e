"""The command of CI: a failure of the suite is tried once more and alone, a failure of any other part stands."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).parents[1] / ".ci" / "run"
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
