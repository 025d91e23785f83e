"""Upgrade and downgrade: an older commit beside today's, by the commands of `tolliver`.

    python -m scripts.prove.upgrade [COMMIT]      needs git with that commit

The older program and today's talk over mutual TLS, and each goes on with the other's recordings, and with its stage
when the database in it is moved away. A database of before the first release is none of today's: each refuses the
other's, of which no byte may change, and the one that wrote it delivers what waits, which is the way out. Exit status 1
if a message is lost, or a database is touched.
"""

from __future__ import annotations

import argparse
import hashlib
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

from tolliver.staging import StageFolder

ROOT = Path(__file__).resolve().parents[2]

COMMIT = "78f10927"  # the last one whose databases are of before the first release
REFUSED = ("is of a version of tolliver before the first release", "is the database of another application")
PATIENCE = 120.0  # seconds for one command
LINES = 500  # messages of each step
NOWHERE = ("--connect", "127.0.0.1:9", "--no-wait", "--timeout", 0.1)


class Program:
    """`tolliver` of one version, of the sources in a folder."""

    def __init__(self, name: str, source: Path) -> None:
        self.name = name
        homes = ("tolliver", "tolliver_transports")  # the second one until both became one
        self._module = next(f"{home}.cli" for home in homes if (source / "transports" / home / "cli.py").exists())
        self._env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(source), str(source / "transports")))}

    def _command(self, *words: object) -> list[str]:
        return [sys.executable, "-P", "-m", self._module, *map(str, words)]

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
        """A file of lines, after what waits in the database; returns what it says. Raises RuntimeError."""
        who = ("--certs", ".", "--name", "sender", "--database", "sender.db", "--retry-interval", 1)
        done = self.call(folder, "send", "c", "k", *who, *more)
        if done.returncode:
            raise RuntimeError(f"{self.name} send: {done.stderr}")
        return done.stdout

    def leaves(self, folder: Path, database: str) -> bool:
        """True if it refuses that database, says why, and leaves it as it is."""
        before = digests(folder, database)
        who = ("--certs", ".", "--name", "sender", "--database", database, *NOWHERE)
        done = self.call(folder, "send", "c", "k", "x", *who)
        return done.returncode == 1 and any(map(done.stderr.count, REFUSED)) and digests(folder, database) == before

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


def digests(folder: Path, database: str) -> dict[str, str]:
    """Of the files of a database; the lock has nothing in it."""
    files = [file for file in folder.glob(f"{database}*") if file.suffix != ".lock"]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def checkout(commit: str, folder: Path) -> Program:
    """The older program."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x"], cwd=folder, input=archive, check=True)
    return Program(f"tolliver of {commit}", folder)


def bodies(folder: Path) -> int:
    """Different messages that listeners have printed."""
    lines = (folder / "listen-out.txt").read_text().splitlines()
    return len({json.loads(line)["body"] for line in lines})


def exchange(one: Program, other: Program, folder: Path) -> Counter[str]:
    """`one` sends to `other`, which goes on with its files."""
    counts: Counter[str] = Counter()
    names = ("certs", ".", "receiver", "sender")
    if one.call(folder, *names).returncode:
        raise RuntimeError(f"{one.name}: no certificates")
    for number, step in enumerate(("wire", "away", "after a refusal")):
        text = "".join(f"{step} {each}\n" for each in range(LINES))
        (folder / f"lines-{number}.txt").write_text(text)
    receiver = ("--certs", ".", "--name", "receiver", "--listen", "127.0.0.1:0", "--json", "--record", "recorded")
    with other.serving(folder, "listen", "--channel", "c", *receiver) as address:
        one.send(folder, "--file", "lines-0.txt", "--connect", address)
    counts["messages by wire"] = bodies(folder)
    one.send(folder, "--file", "lines-1.txt", *NOWHERE)
    counts["databases refused and left as they were"] = other.leaves(folder, "sender.db")
    with other.serving(folder, "listen", "--channel", "c", *receiver) as address:
        one.send(folder, "--file", "lines-2.txt", "--connect", address)
    counts["by the version that wrote the database"] = bodies(folder) - counts["messages by wire"]
    for program in (one, other):
        done = program.call(folder, "decode", "--json", "recorded", "--direction", "in", "--channel", "c")
        counts["read from recordings"] += sum('"frame": "message"' in line for line in done.stdout.splitlines())
    for program in (one, other):
        for file in (folder / "staged").glob("node.db*"):  # the stager's database, which each makes again
            file.unlink()
        with program.serving(
            folder, "stage", "staged", "--certs", ".", "--name", "receiver", "--listen", "127.0.0.1:0"
        ) as address:
            fresh = ("--certs", ".", "--name", "sender", "--database", f"{program is one}.db")
            done = program.call(folder, "send", "c", "k", *fresh, "--file", "lines-0.txt", "--connect", address)
            if done.returncode:
                raise RuntimeError(f"{program.name}: {done.stderr}")
    counts["staged"] = _staged(folder / "staged")
    return counts


def _staged(folder: Path) -> int:
    head = StageFolder(folder).head()
    return 0 if head is None else head.frames


ASKED = {
    "messages by wire": LINES,
    "by the version that wrote the database": 2 * LINES,
    "databases refused and left as they were": 1,
    "read from recordings": 6 * LINES,
    "staged": 2 * LINES,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", nargs="?", default=COMMIT)
    commit = parser.parse_args().commit
    known = subprocess.run(["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=ROOT, check=False)
    if known.returncode:
        print(f"result: upgrade | nothing | not run: this checkout has no commit {commit}")
        return 0
    wrong = 0
    today = Program("today's tolliver", ROOT)
    with tempfile.TemporaryDirectory() as folder:
        place = {name: Path(folder) / name for name in ("older", "upgrade", "downgrade")}
        for each in place.values():
            each.mkdir()
        older = checkout(commit, place["older"])
        for way, one, other in (("upgrade", older, today), ("downgrade", today, older)):
            try:
                counts = exchange(one, other, place[way])
            except RuntimeError as error:
                print(error, file=sys.stderr)
                print(f"result: upgrade | {commit}, {way} | failed: {str(error).splitlines()[-1][:200]}")
                wrong += 1
                continue
            wrong += sum(counts[name] != asked for name, asked in ASKED.items())
            shown = ", ".join(f"{counts[name]:,} of {asked:,} {name}" for name, asked in ASKED.items())
            print(f"result: upgrade | {commit}, {way} | {shown}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
