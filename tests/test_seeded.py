"""Histories of the real asyncio adapter under a seeded loop: they keep their promises, and one seed is one trace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.seeded.world import Socket, network, world

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


def test_what_is_written_in_order_arrives_in_order() -> None:
    """Also what arrives at one moment, which is `now` and a delay for each of them."""
    for seed in range(40):
        world.begin(seed)
        network.begin()
        one, other = Socket(), Socket()
        one.peer, other.peer = other, one
        written = came = b""
        for number in range(200):
            world.now += world.rng.random() / 100
            piece = number.to_bytes(2)
            written += piece[: one.send(piece)]
            world.run_due()
            came += bytes(other.came)
            other.came.clear()
        world.now += 1
        world.run_due()
        assert came + bytes(other.came) == written, seed
