"""Peer of the contract in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

PROJECT = Path(__file__).parents[2]
_PATIENCE = 60.0  # seconds


@contextmanager
def peer(arguments: Sequence[str], project: Path = PROJECT) -> Iterator[str]:
    """The address that it says, which it listens on or dials. `arguments` are those of `tests.conform.contract`."""
    command = [sys.executable, "-m", "tests.conform.contract", *arguments]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True) as process:
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
