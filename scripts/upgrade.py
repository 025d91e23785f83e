"""Upgrade and downgrade: the wheel of an older commit, in an environment of its own, beside today's.

    python scripts/upgrade.py [COMMIT] [--kills N]      needs git with that commit, and a package index for pip

The older program and today's talk over mutual TLS, and each goes on with the other's database, stage and recordings.
How many of the recorded messages the older one can read is told. Then both talk through kills, as scripts/exchange.py
has it. Exit status 1 if a message is lost.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "transports")]

from tolliver_transports.staging import StageFolder  # noqa: E402  # the line above comes first

from scripts.exchange import one_round  # noqa: E402  # as above

COMMIT = "37bef2d"
PATIENCE = 120.0  # seconds for one command
LINES = 500  # messages of each step


class Program:
    """`tolliver` of one version."""

    def __init__(self, name: str, python: Path | str, path: str) -> None:
        self.name = name
        self._python = str(python)
        self._env = {**os.environ, "PYTHONPATH": path}

    def _command(self, *words: object) -> list[str]:
        return [self._python, "-P", "-m", "tolliver_transports.cli", *map(str, words)]

    def call(self, folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._command(*words),
            cwd=folder,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def send(self, folder: Path, *more: object) -> str:
        """A file of lines, or what waits; returns what it says. Raises RuntimeError."""
        who = ("--certs", ".", "--name", "sender", "--database", "sender.db", "--retry-interval", 1)
        done = self.call(folder, "send", "c", "k", *who, *more)
        if done.returncode:  # an older one has not all of these options
            done = self.call(folder, "send", "c", "k", *who[:-2], *more)
        if done.returncode:
            raise RuntimeError(f"{self.name} send: {done.stderr}")
        return done.stdout

    @contextmanager
    def serving(self, folder: Path, *words: object) -> Iterator[str]:
        """A command that runs until Ctrl-C; its address."""
        said = folder / f"{words[0]}-said.txt"
        out = folder / f"{words[0]}-out.txt"
        with said.open("wb") as errors, out.open("ab") as output:
            process = subprocess.Popen(self._command(*words), cwd=folder, env=self._env, stdout=output, stderr=errors)
        try:
            deadline = time.monotonic() + PATIENCE
            while "Ctrl-C ends" not in said.read_text():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{self.name} {words}: {said.read_text()}")
                time.sleep(0.05)
            yield said.read_text().partition("listening on ")[2].split()[0].rstrip(";")
            process.send_signal(signal.SIGINT)
            if process.wait(PATIENCE) != 0:
                raise RuntimeError(f"{self.name} {words}: {said.read_text()}")
        finally:
            process.kill()
            process.wait()


def build(commit: str, folder: Path) -> Program:
    """The older program, in an environment of its own."""
    source = folder / "source"
    source.mkdir()
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x"], cwd=source, input=archive, check=True)
    _quiet(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, source)
    (wheel,) = folder.glob("*.whl")
    _quiet(sys.executable, "-m", "venv", folder / "older")
    python = folder / "older" / "bin" / "python"
    _quiet(python, "-m", "pip", "install", "-q", f"{wheel}[cli,blocking]")
    return Program(f"tolliver of {commit}", python, "")


def _quiet(*words: object) -> None:
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr[-2000:]}")


def site_of(program: Program) -> Path:
    (site,) = Path(program._python).parents[1].glob("lib/python*/site-packages")
    return site


def bodies(folder: Path) -> int:
    """Different messages that listeners have printed."""
    lines = (folder / "listen-out.txt").read_text().splitlines()
    return len({json.loads(line)["body"] for line in lines})


def exchange(one: Program, other: Program, today: Program, folder: Path) -> Counter[str]:
    """`one` begins, `other` goes on with all of its files."""
    counts: Counter[str] = Counter()
    names = ("certs", ".", "receiver", "sender")
    if one.call(folder, *names).returncode:
        raise RuntimeError(f"{one.name}: no certificates")
    for number, step in enumerate(("wire", "away", "taken over")):
        text = "".join(f"{step} {each}\n" for each in range(LINES))
        (folder / f"lines-{number}.txt").write_text(text)
    receiver = ("--certs", ".", "--name", "receiver", "--listen", "127.0.0.1:0", "--json", "--record", "recorded")
    with other.serving(folder, "listen", "--channel", "c", *receiver) as address:
        one.send(folder, "--file", "lines-0.txt", "--connect", address)
    counts["wire"] = bodies(folder)
    away = ("--connect", "127.0.0.1:9", "--no-wait", "--timeout", 0.1)
    one.send(folder, "--file", "lines-1.txt", *away)
    with one.serving(folder, "listen", "--channel", "c", *receiver) as address:  # each has the other's database now
        other.send(folder, "--file", "lines-2.txt", "--connect", address)
    counts["store"] = bodies(folder) - counts["wire"]
    for program, name in ((today, "recording"), (one if other is today else other, "recording read by the older")):
        done = program.call(folder, "decode", "--json", "recorded", "--direction", "in", "--channel", "c")
        counts[name] = sum('"frame": "message"' in line for line in done.stdout.splitlines())
    for program in (one, other):
        with program.serving(
            folder, "stage", "staged", "--certs", ".", "--name", "receiver", "--listen", "127.0.0.1:0"
        ) as address:
            fresh = ("--certs", ".", "--name", "sender", "--database", f"{program is one}.db")
            done = program.call(folder, "send", "c", "k", *fresh, "--file", "lines-0.txt", "--connect", address)
            if done.returncode:
                raise RuntimeError(f"{program.name}: {done.stderr}")
    counts["stage"] = _staged(folder / "staged")
    return counts


def _staged(folder: Path) -> int:
    head = StageFolder(folder).head()
    return 0 if head is None else head.frames


ASKED = {"wire": LINES, "store": 2 * LINES, "recording": 3 * LINES, "stage": 2 * LINES}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", nargs="?", default=COMMIT)
    parser.add_argument("--kills", type=int, default=50)
    options = parser.parse_args()
    known = subprocess.run(["git", "cat-file", "-e", f"{options.commit}^{{commit}}"], cwd=ROOT, check=False)
    if known.returncode:
        print(f"result: upgrade | nothing | not run: this checkout has no commit {options.commit}")
        return 0
    missing = 0
    today = Program("today's tolliver", sys.executable, os.pathsep.join((str(ROOT), str(ROOT / "transports"))))
    with tempfile.TemporaryDirectory() as folder:
        older = build(options.commit, Path(folder))
        for way, one, other in (("upgrade", older, today), ("downgrade", today, older)):
            place = Path(folder) / way
            place.mkdir()
            try:
                counts = exchange(one, other, today, place)
            except RuntimeError as error:
                print(error, file=sys.stderr)
                print(f"result: {way} | {options.commit} | failed: {str(error).splitlines()[-1][:200]}")
                missing += 1
                continue
            lost = sum(asked - counts[name] for name, asked in ASKED.items())
            missing += abs(lost)
            shown = ", ".join(f"{counts[name]:,} of {asked:,} by {name}" for name, asked in ASKED.items())
            shown += f"; of the recordings the older one reads {counts['recording read by the older']:,}"
            print(f"result: {way} | from the wheel of {options.commit}, or back to it | {shown}", flush=True)
        total: Counter[str] = Counter()
        for seed in range(-(-options.kills // 25)):
            total += one_round(site_of(older), seed, 25)
    print(
        f"result: upgrade | {total['kills']} kills beside the wheel of {options.commit} | {total['messages']:,} "
        f"messages, {total['lost']} lost, {total['unexpected']} unexpected, {total['failed']} rounds failed"
    )
    return 1 if missing or any(total[name] for name in ("lost", "unexpected", "failed")) else 0


if __name__ == "__main__":
    sys.exit(main())
