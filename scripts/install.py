"""Progress bar over an installation by pip or apt-get.

    python scripts/install.py pip '.[cli]' --group demo    into the environment of this Python
    python scripts/install.py apt PACKAGE                  with apt-get, as root

It needs the standard library alone, as nothing is installed yet. Off a terminal it says what it does and no more; where
the installation fails, all that the installer said is shown.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from threading import Event, Thread

_WIDTH = 30
_MIB = 2**20
_RAW = (24, 1)  # the first pip that says how far a download is


class Step:
    """Progress of an installer, from what it says line by line."""

    def __init__(self) -> None:
        self.words = "looking up"
        self.share: float | None = None
        """Of the file, or of all; None where nobody knows."""
        self._packages = 0
        self._file = ""

    def read(self, line: str) -> None:
        said = line.strip()
        if found := re.match(r"Progress (\d+) of (\d+)", said):
            done, total = map(int, found.groups())
            self.share = done / total if total else None
            self.words = f"{self._file} {done / _MIB:,.1f} of {total / _MIB:,.1f} MiB"
        elif found := re.match(r"(?:Downloading|Using cached) (\S+)", said):
            self._file = found[1].rpartition("/")[2]
            self.words, self.share = self._file, None
        elif said.startswith(("Collecting ", "Requirement already satisfied")):
            self._packages += 1
            self.words, self.share = f"{self._packages} packages looked up", None
        elif found := re.match(r"Building (?:editable|wheel) for (\S+)", said):
            self.words, self.share = f"building {found[1]}", None
        elif said.startswith("Installing collected packages"):
            self.words, self.share = f"installing {said.count(',') + 1} packages", None
        elif found := re.match(r"(?:dlstatus|pmstatus):[^:]*:([\d.]+):(.*)", said):
            half = 0.0 if said.startswith("dl") else 50.0  # half of it is downloading
            self.words, self.share = found[2], (half + float(found[1]) / 2) / 100


def bar(share: float | None, seconds: float) -> str:
    """Filled so far; or, where nobody knows how far it is, something that moves."""
    if share is not None:
        filled = round(_WIDTH * min(share, 1.0))
        return "#" * filled + "." * (_WIDTH - filled)
    place = int(4 * seconds) % _WIDTH
    return "".join("#" if (place - number) % _WIDTH < 3 else "." for number in range(_WIDTH))


def command(kind: str, what: Sequence[str]) -> list[str]:
    if kind == "apt":
        return ["apt-get", "install", "-y", "-q", "--no-install-recommends", "-o", "APT::Status-Fd=1", *what]
    numbers = tuple(int(part) for part in version("pip").split(".")[:2] if part.isdigit())
    shown = "raw" if numbers >= _RAW else "off"
    pip = [sys.executable, "-m", "pip", "--no-color", "install", "--disable-pip-version-check"]
    return [*pip, "--progress-bar", shown, "--editable", *what]


def run(arguments: Sequence[str], title: str) -> int:
    """Runs it; returns its status."""
    begun, step, over, said = time.monotonic(), Step(), Event(), []
    terminal = sys.stdout.isatty()
    print(f"{title} ...", flush=True)

    def show() -> None:
        while not over.wait(0.2):
            seconds = time.monotonic() - begun
            text = f"[{bar(step.share, seconds)}] {seconds:4.0f} s  {step.words}"
            print("\r\x1b[2K" + text[: os.get_terminal_size().columns - 1], end="", flush=True)

    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        watcher = Thread(target=show, daemon=True)
        if terminal:
            watcher.start()
        assert process.stdout
        for line in process.stdout:
            said.append(line)
            step.read(line)
    over.set()
    if terminal:
        watcher.join()
        print("\r\x1b[2K", end="")
    if process.returncode:
        print("".join(said))
    print(f"{title}: {'failed' if process.returncode else 'done'}, {time.monotonic() - begun:.0f} s", flush=True)
    return process.returncode


if __name__ == "__main__":
    sys.exit(run(command(sys.argv[1], sys.argv[2:]), f"installing {' '.join(sys.argv[2:])}"))
