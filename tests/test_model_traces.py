"""Traces of simulated nodes are held to the model: clean ones are accepted, and a step less, or twice, is refused.

In the size of a release: `python -m model.trace --schedules 20000`, `python -m scripts.planted --traces 100`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from model import machine
from model.checking import model
from model.machine import STEPS, Refused, Step, accept
from model.paths import walked
from model.trace import SHORT, refusal, written

SEED = 28  # with commits, acks, a crash and copies


@pytest.fixture(scope="module")
def trace() -> list[Step]:
    steps, said = written(SEED, SHORT)
    assert not said
    return steps


def renumbered(steps: list[Step]) -> list[Step]:
    return [{**step, "step": number} for number, step in enumerate(steps, 1)]


def test_clean_traces_are_accepted() -> None:
    assert [why for seed in range(1, 41) if (why := refusal(seed)[1])] == []


def test_every_action_of_the_model_has_a_function() -> None:
    after = model().split("Next ==")[1].split("Spec ==")[0]
    actions = set(re.findall(r"\b([A-Z]\w+)(?=\(\w\)|\b)(?! *\\in)", after)) - {"Messages", "E"}
    assert len(actions) > 25
    assert {name for name in actions if not callable(getattr(machine, name, None))} == set()


@pytest.mark.parametrize("do", ["Send", "Write", "Sync", "Learn", "Return", "Settle", "GetAck", "Receive", "Handle"])
def test_without_one_step_of_its_kind_a_trace_is_refused(trace: list[Step], do: str) -> None:
    """The first of them, and the numbers of the steps tell nothing."""
    first = next(at for at, step in enumerate(trace) if step["do"] == do)
    with pytest.raises(Refused, match=r"step \d+: \w+ of n\d: \w+: "):
        accept(renumbered([*trace[:first], *trace[first + 1 :]]))


@pytest.mark.parametrize("do", ["Send", "Write", "Sync", "Learn", "Return", "Settle", "GetAck", "Receive", "Handle"])
def test_with_a_step_twice_a_trace_is_refused(trace: list[Step], do: str) -> None:
    first = next(at for at, step in enumerate(trace) if step["do"] == do)
    with pytest.raises(Refused):
        accept(renumbered([*trace[: first + 1], *trace[first:]]))


def test_any_step_that_is_missing_is_told_by_its_number(trace: list[Step]) -> None:
    for at in range(0, len(trace), 7):
        with pytest.raises(Refused):
            accept([*trace[:at], *trace[at + 1 :]])


@pytest.mark.parametrize(
    ("do", "change", "promise"),
    [
        ("Send", {"id": 77}, "SentIsOnDisk"),
        ("Transmit", {"message": 1}, "IdsAreOne"),
        ("Settle", {"id": 77}, "Settle"),
        ("HandOut", {"message": 1}, "Receive"),
        ("Sync", {"commit": 77}, "Sync"),
        ("Write", {"changes": []}, "Write"),
    ],
)
def test_another_value_in_a_step_is_refused(trace: list[Step], do: str, change: Step, promise: str) -> None:
    of = [at for at, step in enumerate(trace) if step["do"] == do and (step.get("id", 0) is not None)]
    at = next((at for at in of if trace[at].get("changes", [["rows"]])[0][0] == "rows"), of[0])
    with pytest.raises(Refused, match=promise):
        accept([*trace[:at], {**trace[at], **change}, *trace[at + 1 :]])


def test_what_is_no_trace_is_refused() -> None:
    traces: list[list[Step]] = [[], [{}], [{"do": "Nothing", "node": "n0"}], [{"step": 1, "do": "Open", "node": "n0"}]]
    for steps in traces:
        with pytest.raises(Refused):
            accept(steps)


def test_a_file_is_written_and_taken(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"

    def called(*words: object) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "model.trace", *map(str, words)], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout

    assert called(7, path)[0] == 0
    status, said = called(path)
    assert (status, said.split()[0]) == (0, "accepted:")
    lines = path.read_text().splitlines(keepends=True)
    synced = next(at for at, line in enumerate(lines) if '"Sync"' in line)
    path.write_text("".join((*lines[:synced], *lines[synced + 1 :])))
    status, said = called(path)
    assert status == 1
    assert said.startswith("refused: step ")


def test_every_move_from_every_state_is_made_on_real_nodes() -> None:
    states, transitions, made = walked(1, 0)
    assert 30 < states < transitions
    assert made.keys() == {
        *("Connect", "Send", "Write Sync", "Return", "Receive", "Handle", "RSync", "Settle", "GetAck"),
    }


@pytest.mark.thorough
def test_every_trouble_comes_in_every_state() -> None:
    assert walked(1, 1)[2].keys() >= {"Kill", "RKill", "Open", "ROpen", "Cut", "Fail", "Refuse", "RRefuse"}


def test_every_step_has_an_action() -> None:
    assert STEPS.keys() >= {"Send", "Kill", "Open"}
