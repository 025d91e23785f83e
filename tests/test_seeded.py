"""Histories of the real asyncio adapter under a seeded loop: they keep their promises, and one seed is one trace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def histories(hashes: str) -> str:
    command = [sys.executable, "-m", "scripts.prove.loop", "4"]
    environment = os.environ | {"PYTHONHASHSEED": hashes}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_one_seed_is_one_trace_in_which_all_promises_hold() -> None:
    said = histories("1")
    assert "0 broken" in said
    assert histories("2") == said
