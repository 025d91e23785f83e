"""The processes of the demo, through all their runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

_PACKAGE = __name__.rpartition(".")[0]
_ROOT = Path(__file__).resolve().parents[2]


class DemoError(Exception):
    """The demo could not be played to its end."""


class Child:
    """A process of the demo, through all its runs. Only these are ever killed, each by its own pid."""

    def __init__(self, directory: Path, name: str, module: str, arguments: Sequence[object]) -> None:
        self.name = name
        self._directory = directory
        self._module = module
        self._arguments = arguments
        self._run = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._run += 1
        arguments = map(str, (self._directory.resolve(), self.name, self._run, *self._arguments))
        command = [sys.executable, "-m", f"{_PACKAGE}.{self._module}", *arguments]
        with self._words.open("wb") as words:
            # A session of its own: Ctrl-C is for the parent, which ends its children in order.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stderr=words, start_new_session=True, cwd=_ROOT
            )

    def kill(self) -> None:
        """SIGKILL to it and to all that it has started: no chance to say or save anything."""
        if self._process is not None:
            with suppress(psutil.NoSuchProcess):
                for one in (it := psutil.Process(self._process.pid), *it.children(recursive=True)):
                    with suppress(psutil.NoSuchProcess):
                        one.kill()
            self._process.wait()
            self._let_go()

    def stop(self, seconds: float) -> None:
        """Ask it to end in order, and wait for that."""
        process = self._process
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise DemoError(f"{self.name} does not end within {seconds:g} s: {self._last_words()}") from None
        self._let_go()
        if status:
            raise DemoError(f"{self.name} ended with status {status}: {self._last_words()}")

    def check(self) -> None:
        """Raises DemoError if it has ended by itself."""
        status = self._process.poll() if self._process is not None else None
        if status is not None:
            raise DemoError(f"{self.name} ended by itself with status {status}: {self._last_words()}")

    @property
    def alive(self) -> bool:
        return self._process is not None

    @property
    def _words(self) -> Path:
        return self._directory / f"{self.name}.{self._run}.err"

    def _last_words(self) -> str:
        words = self._words.read_text(errors="backslashreplace").strip()
        return f"{words.splitlines()[-1] if words else 'it said nothing'} (see {self._words})"

    def _let_go(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None
