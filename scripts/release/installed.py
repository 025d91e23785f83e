"""First message of README, with a wheel that is installed into an empty environment.

The wheel is installed without an index, so it must need nothing. The environment of this process then lends it the
libraries of the extra `cli`, and not its own tolliver.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from socket import create_server

_PORT = "7011"
"""Port of the programs that `tolliver init` writes."""
_SECONDS = 60


class Failed(Exception):
    """A command of the first message ended with an error, which this says."""


def run(*command: str | Path, cwd: Path) -> str:
    """Standard output of a command. Raises Failed, OSError, and TimeoutExpired."""
    parts = [str(part) for part in command]
    done = subprocess.run(parts, cwd=cwd, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode:
        raise Failed(f"{' '.join(parts)}: {done.stdout}{done.stderr}")
    return done.stdout


def installed(wheel: Path, home: Path) -> Path:
    """The folder of programs of a new environment that has the wheel. Raises Failed."""
    run(sys.executable, "-m", "venv", "--without-pip", home, cwd=wheel.parent)
    python = home / "bin/python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "--quiet")
    run(*pip, "install", "--no-index", wheel.resolve(), cwd=home)
    where = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home).strip()
    Path(where, "lent.pth").write_text(sysconfig.get_path("purelib"))
    return home / "bin"


def problems(wheel: Path) -> Iterator[str]:
    """One, if the first message does not come to bob's handler."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            said = _said(wheel, Path(folder))
        except (Failed, OSError, subprocess.TimeoutExpired) as error:
            yield f"the first message failed with the installed wheel: {error}"
            return
    if said != "first hello":
        yield f"the first message of the installed wheel is {said!r}"


def _said(wheel: Path, folder: Path) -> str:
    """The line that bob prints."""
    programs, demo = installed(wheel, folder / "env"), folder / "demo"
    where = run(programs / "python", "-c", "import tolliver; print(tolliver.__file__)", cwd=folder)
    if not where.startswith(str(folder)):
        raise Failed(f"tolliver was not imported from the wheel, but from {where}")
    run(programs / "tolliver", "init", demo, cwd=folder)
    with create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    for program in ("alice.py", "bob.py"):
        (demo / program).write_text((demo / program).read_text("utf-8").replace(_PORT, port), "utf-8")
    with subprocess.Popen([programs / "python", "bob.py"], cwd=demo, stdout=subprocess.PIPE, text=True) as bob:
        try:
            run(programs / "python", "alice.py", "hello", cwd=demo)
            assert bob.stdout
            return bob.stdout.readline().strip()
        finally:
            bob.terminate()
