"""Calls of our functions for one message: as many as benchmarks/calls.json says, or fewer.

`python benchmarks/calls.py --renew` writes that file, after a change that makes them fewer.
"""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks.calls import LIMITS, SCENES


def test_a_message_costs_no_more_calls_than_before() -> None:
    # In a process of its own: tests leave timers and threads behind, whose calls would count.
    count = "import anyio, json; from benchmarks import calls; "
    count += "print(json.dumps({name: anyio.run(calls.scene, name).total() for name in calls.SCENES}))"
    done = subprocess.run([sys.executable, "-c", count], cwd=LIMITS.parents[1], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found, limits = json.loads(done.stdout), json.loads(LIMITS.read_text())
    assert limits.keys() == SCENES.keys()
    more = {name: f"{found[name]} calls, at most {limits[name]}" for name in limits if found[name] > limits[name]}
    assert not more, f"{more}: `python benchmarks/calls.py --only {' '.join(more)} --functions` lists them"
