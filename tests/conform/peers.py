"""Peers of the contract in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

PROJECT = Path(__file__).parents[2]
_PATIENCE = 60.0  # seconds


def start(arguments: Sequence[str], project: Path = PROJECT) -> subprocess.Popen[str]:
    """A peer of this copy of the project. `arguments` are those of `tests.conform.contract`."""
    places = (project, project / "transports")
    return subprocess.Popen(
        [sys.executable, "-m", "tests.conform.contract", *arguments],
        cwd=project,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))},
        stdout=subprocess.PIPE,
        text=True,
    )


@contextmanager
def peer(arguments: Sequence[str], project: Path = PROJECT) -> Iterator[str]:
    """The address that the peer says, which it listens on or dials."""
    with start(arguments, project) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address, f"it ended with {process.wait(_PATIENCE)} before it said its address"
            yield address
        finally:
            process.terminate()
            try:
                process.wait(_PATIENCE)
            finally:
                process.kill()
