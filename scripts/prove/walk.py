"""Walk through pages: what they have a reader type, on machines of their own.

    python -m scripts.prove.walk [PAGE ...]       all walks, or those of these pages; needs Linux, root and `ip`

A walk is one page, or several that go on from each other. A machine is a network namespace with a host name, an
/etc/hosts and a directory of its own. Blocks `sh` are typed on the machine that the last "On **NAME**" before them
names. The last line of one may be a command that serves, which goes on beside the others. A block `text` behind it
holds lines of its output, `...` for anything. `<!-- walk: stop NAME -->` is Ctrl-C there, `kill NAME` pulls the plug of
its service, and `init NAME` types `tolliver init`. Exit status 1 if a page is not true.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
WALKS = (
    ("two-machines.md", "config-and-service.md", "watch-it.md", "backup.md"),
    ("operations.md",),
    ("service.md",),
)
PATIENCE = 120.0  # seconds for one block
_SERVES = re.compile(r"tolliver (run|listen(?!.*--count)|stage) |python bob\.py$")
_UNSAID = {"init": "tolliver init"}
"""Lines that a page before has had a reader type."""
_PARTS = re.compile(
    r"On \*\*(?P<machine>\w+)\*\*|^<!-- walk: (?P<word>stop|kill|init) (?P<whom>\w+) -->$"
    r"|^```sh\n(?P<typed>.*?)^```$|^```text\n(?P<said>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_ENTER = 'mount --bind "$1" /etc/hosts && hostname "$2" && shift 2 && exec "$@"'
_SHELL = """#!{python}
import pathlib, subprocess, sys
host, *command = sys.argv[1:]
sys.exit(subprocess.call(command, cwd=pathlib.Path({root!r}, host.partition(".")[0])))
"""
_COPY = """#!{python}
import pathlib, shutil, sys
*files, place = sys.argv[1:]
host, _, folder = place.partition(":")
to = pathlib.Path({root!r}, host.partition(".")[0], folder)
for file in files:
    if to.is_dir() or not folder.endswith("/"):
        shutil.copy(file, to)
    else:
        sys.exit(f"scp: {{place}}: No such directory")
"""


class Step(NamedTuple):
    """A part of a page: a block that is typed on a machine, with lines of its output, or what befalls its service."""

    page: str
    machine: str
    typed: str
    said: list[str]
    line: int


def steps(page: Path) -> list[Step]:
    found: list[Step] = []
    machine, text = "", page.read_text("utf-8")
    for part in _PARTS.finditer(text):
        line = text[: part.start()].count("\n") + 1
        if part["machine"]:
            machine = part["machine"]
        elif part["word"]:
            found.append(Step(page.name, part["whom"], _UNSAID.get(part["word"], part["word"]), [], line))
        elif part["typed"]:
            if machine:
                found.append(Step(page.name, machine, part["typed"], [], line))
        elif found and not found[-1].said:
            found[-1].said.extend(part["said"].splitlines())
    return found


def obstacle() -> str | None:
    """Why there can be no such machines here; None where there can."""
    if not sys.platform.startswith("linux"):
        return "network namespaces are Linux's"
    if os.geteuid() != 0:
        return "network namespaces are for root"
    for program in ("ip", "unshare", "mount", "hostname"):
        if shutil.which(program) is None:
            return f"there is no {program}"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--uts", "true"], capture_output=True, text=True, check=False
    )
    return f"unshare says: {tried.stderr.strip()}" if tried.returncode else None


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Machines:
    """Two machines at most, which see each other and nothing else."""

    def __init__(self, root: Path, names: Sequence[str]) -> None:
        self.root = root
        self._spaces = {name: f"tolliver-{os.getpid()}-{name}" for name in names}
        self._hosts = root / "hosts"
        lines = [f"10.211.0.{number} {name}.example {name}" for number, name in enumerate(names, 1)]
        self._hosts.write_text("\n".join(["127.0.0.1 localhost", "::1 localhost", *lines, ""]))
        programs = root / "programs"
        programs.mkdir()
        for name in names:
            (root / name).mkdir()
        for program, text in (("scp", _COPY), ("ssh", _SHELL)):
            _program(programs / program, text.format(python=sys.executable, root=str(root)))
        for program, module in (("tolliver", "-m tolliver.cli "), ("python", "")):
            _program(programs / program, f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {module}"$@"\n')
        self._env = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "transports"))),
        }

    def up(self) -> None:
        spaces = list(self._spaces.values())
        for space in spaces:
            _ip("netns", "add", space)
            _ip("-n", space, "link", "set", "lo", "up")
        if len(spaces) == 2:
            _ip("-n", spaces[0], "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", spaces[1])
            for number, space in enumerate(spaces, 1):
                _ip("-n", space, "addr", "add", f"10.211.0.{number}/24", "dev", "eth0")
                _ip("-n", space, "link", "set", "eth0", "up")

    def down(self) -> None:
        for space in self._spaces.values():
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)

    def start(self, machine: str, typed: str, output: Path) -> subprocess.Popen[bytes]:
        within = ["unshare", "--mount", "--uts", "sh", "-c", _ENTER, "sh", str(self._hosts), machine]
        with output.open("wb") as into:  # the child has its own
            return subprocess.Popen(
                ["ip", "netns", "exec", self._spaces[machine], *within, "sh", "-eu", "-c", typed],
                cwd=self.root / machine,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=into,
                stderr=subprocess.STDOUT,
            )


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@contextmanager
def machines(names: Sequence[str]) -> Iterator[Machines]:
    with tempfile.TemporaryDirectory() as folder:
        made = Machines(Path(folder), names)
        try:
            made.up()
            yield made
        finally:
            made.down()


class Untrue(Exception):
    """A page that does not say what happens."""


class Walk:
    """The steps of a walk, one after the other."""

    def __init__(self, on: Machines, ends: ExitStack) -> None:
        self._on = on
        self._ends = ends
        self._serving: dict[str, subprocess.Popen[bytes]] = {}
        self._count = 0

    def take(self, step: Step) -> None:
        if step.typed in ("stop", "kill"):
            service = self._serving.pop(step.machine)
            service.send_signal(signal.SIGINT if step.typed == "stop" else signal.SIGKILL)
            status = service.wait(PATIENCE)
            self._demand(step, status == (0 if step.typed == "stop" else -signal.SIGKILL), f"its status is {status}")
            return
        self._count += 1
        output = self._on.root / f"output-{self._count}"
        *before, last = step.typed.splitlines()
        serves = _SERVES.match(last) is not None
        typed = "\n".join([*before, f"exec {last}"]) if serves else step.typed
        process = self._on.start(step.machine, typed, output)
        self._ends.callback(_end, process)
        if serves:
            self._serving[step.machine] = process
            if last.startswith("tolliver"):
                self._until(step, process, output)
        else:
            status = process.wait(PATIENCE)
            self._demand(step, status == 0, f"exit status {status}:\n{output.read_text()}")
        for line in step.said:
            pattern = ".*".join(map(re.escape, line.split("...")))
            said = output.read_text()
            self._demand(step, re.search(f"^{pattern}$", said, re.MULTILINE) is not None, f"no {line!r} in:\n{said}")

    def _until(self, step: Step, process: subprocess.Popen[bytes], output: Path) -> None:
        deadline = time.monotonic() + PATIENCE
        while "Ctrl-C ends" not in output.read_text():
            self._demand(step, process.poll() is None and time.monotonic() < deadline, output.read_text())
            time.sleep(0.05)

    def _demand(self, step: Step, holds: bool, otherwise: str) -> None:
        if not holds:
            raise Untrue(f"{step.page}, line {step.line}, on {step.machine}: {step.typed.strip()}\n{otherwise}")

    def end(self) -> None:
        """Services that the pages leave running end in order."""
        for service in self._serving.values():
            service.send_signal(signal.SIGTERM)
        for name, service in self._serving.items():
            if service.wait(PATIENCE) != 0:
                raise Untrue(f"the service on {name} ended with {service.returncode}")


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()


def walk(pages: Sequence[Path]) -> int:
    """The number of their steps. Raises Untrue."""
    taken = [step for page in pages for step in steps(page)]
    with ExitStack() as ends:
        on = ends.enter_context(machines(list(dict.fromkeys(step.machine for step in taken))))
        with ExitStack() as processes:
            walking = Walk(on, processes)
            for step in taken:
                walking.take(step)
            walking.end()
    return len(taken)


def main(names: Sequence[str]) -> int:
    chosen = [pages for pages in WALKS if not names or {*pages} & {*names}]
    count = sum(map(len, chosen))
    if (reason := obstacle()) is not None:
        print(f"result: pages | 0 of {count} pages | not run here: {reason}")
        return 0
    try:
        taken = sum(walk([ROOT / "docs" / name for name in pages]) for pages in chosen)
    except Untrue as error:
        print(error)
        return 1
    print(f"result: pages | {count} pages | {taken} steps, each as the page says")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
