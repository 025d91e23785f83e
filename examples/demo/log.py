"""Logs that survive the death of their writer.

A process that is killed keeps what it has handed to the kernel. So a line is written before the thing that it says
counts as done, with `write` and no buffer of ours. Each run of a process has a file of its own, so that a line torn by
SIGKILL can only be the last of a file, where it is passed over.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path


class Log:
    """One run's lines. Words are separated by a space and contain none."""

    def __init__(self, directory: Path, name: str, run: int) -> None:
        self._file = os.open(directory / f"{name}.{run}.log", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)

    def write(self, lines: Iterable[str]) -> None:
        data = memoryview("".join(f"{line}\n" for line in lines).encode())
        while data:
            data = data[os.write(self._file, data) :]


def read_lines(directory: Path, name: str) -> Iterator[list[str]]:
    """The words of each whole line, of all runs in turn."""
    for path in sorted(directory.glob(f"{name}.*.log"), key=lambda path: int(path.suffixes[-2][1:])):
        with path.open("r", encoding="utf-8") as file:
            yield from (line.split() for line in file if line.endswith("\n"))
