"""Kills of real processes with SIGKILL (V7).

TOLLIVER_KILLS sets how many; `scripts/soak.py` runs more and prints.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
KILLS = int(os.environ.get("TOLLIVER_KILLS", "20"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks, and kills with SIGKILL")
def test_what_send_returned_for_survives_any_kill(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.killing", str(tmp_path), str(KILLS), "1"]
    # The limit is far above what it takes; the loop inside has its own.
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=400 + KILLS)
    result = json.loads(done.stdout)
    assert result["drained"], done.stderr
    assert result["kills"] == KILLS
    assert result["messages"] > 0
    assert (result["lost"], result["unexpected"]) == (0, 0)
