"""Runs of `tolliver`, within the test or as a process, which the zygote forks.

Every wait has a bound, and no process outlives its test.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import termios
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from tolliver._cli.commands import app
from typer.main import get_command
from typer.testing import CliRunner

from tests import zygote

SECONDS = 60.0
COMMAND = (sys.executable, "-m", "tolliver.cli")


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.01)


def unread(process: subprocess.Popen[bytes]) -> int:
    """Bytes in the pipe of its standard input."""
    assert process.stdin is not None
    count = array("i", [0])
    fcntl.ioctl(process.stdin, termios.FIONREAD, count)
    return count[0]


class Result(NamedTuple):
    """The outcome of a command."""

    exit_code: int
    stdout: str
    stderr: str


@cache
def command_line() -> Callable[..., object]:
    """All commands, made once: `CliRunner.invoke` makes them for each run, which takes longer than most runs do."""
    return get_command(app).main


def tolliver(*arguments: object, stdin: bytes = b"") -> Result:
    """The command, in this process. An exception that the command did not foresee is raised here."""
    with CliRunner().isolation(stdin) as (stdout, stderr, _):
        with pytest.raises(SystemExit) as ended:
            command_line()([str(argument) for argument in arguments], "tolliver")
        sys.stdout.flush()
        sys.stderr.flush()
        code = ended.value.code or 0
        assert isinstance(code, int), code
        return Result(code, stdout.getvalue().decode(), stderr.getvalue().decode())


def run_process(
    *arguments: object,
    command: Sequence[str] = COMMAND,
    stdin: bytes = b"",
    seconds: float = SECONDS,
    **environment: str,
) -> Result:
    """The command as a process, to its end."""
    env = {**os.environ, **environment}
    ended = zygote.run(
        [*command, *map(str, arguments)], input=stdin, capture_output=True, timeout=seconds, check=False, env=env
    )
    return Result(ended.returncode, ended.stdout.decode(), ended.stderr.decode())


def on_a_read_only_disk(directory: Path, *arguments: object) -> Result:
    """The command as a process that has this directory read-only; root, who may write everything, cannot there."""
    made = ("unshare", "-rm", "sh", "-c", 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"')
    if shutil.which("unshare") is None or subprocess.run((*made, str(directory), "true"), check=False).returncode:
        pytest.skip("this machine gives a process no mounts of its own")
    command = (*made, str(directory), *COMMAND, *map(str, arguments))
    ended = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)  # no fork of the zygote's
    return Result(ended.returncode, ended.stdout.decode(), ended.stderr.decode())


class Listener:
    """A running `tolliver listen`, or another command that runs until Ctrl-C."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path, errors: Path) -> None:
        self.process = process
        self._output = output
        self._errors = errors
        deadline = time.monotonic() + SECONDS
        while "Ctrl-C ends" not in errors.read_text():  # its last word before it is ready
            assert process.poll() is None, errors.read_text()
            assert time.monotonic() < deadline, errors.read_text()
            time.sleep(0.01)
        self.words = errors.read_text()
        found = re.search(r"listening on ([^\s;]+)", self.words)
        self.address = found.group(1) if found else ""

    def lines(self) -> list[str]:
        """The lines that it has printed so far."""
        return self._output.read_text().splitlines()

    def until_said(self, text: str, times: int = 1) -> list[str]:
        """The lines on its standard error, as soon as the text is in them, so many times."""
        deadline = time.monotonic() + SECONDS
        while (said := self._errors.read_text()).count(text) < times:
            assert time.monotonic() < deadline, said
            time.sleep(0.01)
        return said.splitlines()

    def interrupt(self) -> int:
        """Ctrl-C; returns the exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(SECONDS)


@contextmanager
def listener(output: Path, who: Sequence[object], *arguments: object) -> Iterator[Listener]:
    """`tolliver listen` with its standard output in a file, and its standard error in one beside it."""
    with running(output, "listen", *who, *arguments) as listening:
        yield listening


@contextmanager
def running(output: Path, *arguments: object, stdin: int = subprocess.DEVNULL) -> Iterator[Listener]:
    """A command that says when it is ready; see `listener`."""
    errors = output.with_suffix(".err")
    with (
        output.open("wb") as file,
        errors.open("wb") as error_file,
        zygote.Process([*COMMAND, *map(str, arguments)], stdin=stdin, stdout=file, stderr=error_file) as process,
    ):
        try:
            yield Listener(process, output, errors)
        finally:
            process.kill()
