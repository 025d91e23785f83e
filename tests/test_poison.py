"""A message whose handler ends the process: it becomes a dead letter, and what is behind it is handled (T-45, T-47).

`scripts/prove/kills.py` lets more of them die, on every adapter.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.poison import ADAPTERS

ROOT = Path(__file__).parent.parent
SHORT = ("asyncio", "blocking")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks, and ends processes by signals")
@pytest.mark.parametrize(
    ("adapter", "deaths"),
    [
        *((adapter, 3) for adapter in SHORT),
        *(pytest.param(adapter, 30, marks=pytest.mark.thorough) for adapter in ADAPTERS),
    ],
)
def test_a_message_that_ends_its_process_becomes_a_dead_letter(tmp_path: Path, adapter: str, deaths: int) -> None:
    command = [sys.executable, "-m", "tests.poison", str(tmp_path), str(deaths), "1", adapter]
    # The limit is far above what it takes; the loop inside has its own.
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=400)
    result = json.loads(done.stdout)
    assert not result["failed"], (result, done.stderr)
    assert deaths <= result["kills"] <= 2 * deaths
