"""Kills of real processes with SIGKILL, and restarts, copies and other databases between them (V7).

TOLLIVER_KILLS sets how many; `scripts/prove/kills.py` runs more and prints.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SEED = "10"  # its first ten kills have every trouble between them
KILLS = int(os.environ.get("TOLLIVER_KILLS", "10"))
WORK_KILLS = 8
FOREIGN_KILLS = 3
BANK_KILLS = 5
LOCAL_KILLS = 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks, and kills with SIGKILL")
def test_what_send_returned_for_survives_any_kill(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.killing", str(tmp_path), str(KILLS), SEED]
    # The limit is far above what it takes; the loop inside has its own.
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=400 + KILLS)
    result = json.loads(done.stdout)
    assert not result["failed"], (result, done.stderr)
    assert result["kills"] >= KILLS
    assert result["messages"] > 0


SWALLOWED = """
import os, signal, time
from tests.killing import leaving_when_told

class Dropped:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0)  # the handler runs in here

def work():
    Dropped()
    time.sleep(60)

leaving_when_told(work)()
print("left")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="signals as POSIX has them")
def test_it_leaves_also_where_python_swallows_what_is_raised() -> None:
    """Out of destructors and of weak references' callbacks nothing is raised."""
    command = [sys.executable, "-c", SWALLOWED]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == "left\n", done.stdout + done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks, and kills with SIGKILL")
def test_no_job_is_lost_with_a_worker_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.work_kills", str(tmp_path), str(WORK_KILLS), "1"]
    # The limit is far above what it takes; the loop inside has its own.
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=400 + WORK_KILLS)
    result = json.loads(done.stdout)
    assert not result["failed"], (result, done.stderr)
    assert result["jobs"] > 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks, and kills with SIGKILL")
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, 8))])
def test_nothing_is_lost_between_us_and_another_program(tmp_path: Path, seed: int) -> None:
    """The seeds are all adapters, dialling and dialled, with Go as it is and Rust."""
    command = [sys.executable, "-m", "tests.foreign_kills", str(tmp_path), str(FOREIGN_KILLS), str(seed)]
    # The limit is far above what it takes; the loop inside has its own.
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=400 + FOREIGN_KILLS)
    result = json.loads(done.stdout)
    assert not result["failed"], (result, done.stderr)
    assert result["messages"] > 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks, and kills with SIGKILL")
@pytest.mark.parametrize("without", [(), ("without",)], ids=["with both boxes", "without the inbox"])
def test_transfers_between_two_banks_have_their_effect_once(without: tuple[str, ...], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.bank_kills", *without, str(tmp_path), str(BANK_KILLS), SEED]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    result = json.loads(done.stdout)
    assert not result["failed"], (result, done.stderr)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks, and kills with SIGKILL")
def test_what_local_programs_hand_over_is_handled_whoever_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.local_kills", str(tmp_path), str(LOCAL_KILLS), "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=400)
    result = json.loads(done.stdout)
    assert not result["failed"], (result, done.stderr)
    assert result["messages"] > 0
