"""Proof of `tolliver run` under load: kills, restarts, full disks, changes of the file, and a copy that is put back.

    python -m scripts.prove.run_proof [STEPS] [--seed N]      100 steps by default

A sender of this process sends all the time, on six channels, which a `tolliver run` takes to a file, by a second table
and another name to the same file, to a command, a socket, a function and a stage; a process beside it appends to the
file, too, under its lock. The function ends in odd ways at first tries: SystemExit, KeyboardInterrupt, CancelledError.
Every step something befalls the service. At the end all that was sent drains, and what `send` returned for must stand
in its place. Exit status 1 if a message is missing, or one came that was never sent, if the file has a NUL in it, or if
the process ended with another status than it should.

Then a file alone that rotates: three processes append to it as a `tolliver run` does, while no file of theirs may grow
beyond a little more than it has, and are killed three times as often as there are steps. Every line that was said to be
on the disk must stand there, or in a file that was put aside, none of which is larger than it may be.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from tolliver.blocking import TLS, Instance, InstanceOptions, create_instance
from tolliver.certs import make_ca, make_certificate
from tolliver.staging import StageFolder

from tolliver_proto import Limits, Message, TolliverError, decode
from tolliver_proto.recording import Block, read_blocks

ROOT = Path(__file__).resolve().parents[2]

PATIENCE = 300.0  # seconds for what must come
PLACES = ("file", "twin", "command", "socket", "function", "stage")
RARE = 50  # a command is a process: one message of so many
FILE = """
listen = "{address}"
database = "hub.db"
log_level = "{level}"

[tls]
cert = "hub.pem"
key = "hub.key"
ca = "ca.pem"

[[deliver]]
channel = "file"
file = "file.jsonl"

[[deliver]]
channel = "twin"
file = "twin.jsonl"

[[deliver]]
channel = "command"
command = ["sh", "-c", 'cat >> command.txt']
concurrency = 4

[[deliver]]
channel = "socket"
socket = "unix:hub.sock"
concurrency = 64

[[deliver]]
channel = "function"
python = "taking:take"

[[deliver]]
channel = "stage"
stage = "staged"
"""
TAKING = """
import asyncio, itertools, pathlib
PLACE = pathlib.Path(__file__).with_name("function.txt")
ODD = itertools.cycle((SystemExit, KeyboardInterrupt, asyncio.CancelledError))
async def take(delivery):
    if delivery.attempt == 1 and delivery.message_id % 97 == 0:
        raise next(ODD)
    with PLACE.open("ab", 0) as out:
        out.write(delivery.body)
"""
BESIDE = """
import fcntl, sys, time
number = 0
while True:
    with open(sys.argv[1], "ab", 0) as out:
        fcntl.flock(out, fcntl.LOCK_EX)
        out.write(b'"beside-%d"\\n' % number)
    number += 1
    time.sleep(0.01)
"""


APPENDS = """
import os, random, resource, sys
from pathlib import Path
from uuid import UUID
from tolliver.anyio import Run
from tolliver_proto import Delivery, Message
from tolliver._cli.appending import append
path, name, number, rng = Path(sys.argv[1]), sys.argv[2], 0, random.Random(sys.argv[2])
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
peer = UUID("01890000-0000-7000-8000-000000000001")
while True:
    bodies = [b"%s-%d" % (name.encode(), number + one) for one in range(3)]
    run = [Delivery(1, peer, Message("c", "k", body, 7)) for body in bodies]
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + rng.randrange(1200), hard))
        append(path, [run], rotate_size=20_000)
    except OSError:
        continue
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    os.write(1, b"".join(body + b"\\n" for body in bodies))
    number += 3
"""


class Hub:
    """A `tolliver run`, over its lives."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self._folder = folder
        self._rng = rng
        with socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{reserved.getsockname()[1]}"
        self.config = folder / "hub.toml"
        self.write("warning")
        self._output = folder / "said.txt"
        self.start()
        self._backup()

    def write(self, level: str) -> None:
        self.config.write_text(FILE.format(address=self.address, level=level))

    def start(self) -> None:
        before = self._said()
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                self._command("run", self.config), cwd=self._folder, env=_ENV, stderr=output, stdout=output
            )
        _await(lambda: self._said() > before or self._process.poll() is not None, "it does not start")
        if self._process.poll() is not None:
            raise RuntimeError(f"it ended with status {self._process.returncode}:\n{self.words()}")

    def _command(self, *words: object) -> list[str]:
        return [sys.executable, "-m", "tolliver.cli", *map(str, words)]

    def _said(self) -> int:
        """Number of times that it was ready."""
        return self._output.read_bytes().count(b"Ctrl-C ends") if self._output.exists() else 0

    def words(self) -> str:
        """The last that it said."""
        return self._output.read_text("utf-8", "replace")[-4000:]

    def _backup(self) -> None:
        self._call("backup", "hub.db", "copy.db")

    def _call(self, *words: object) -> None:
        done = subprocess.run(
            self._command(*words), cwd=self._folder, env=_ENV, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{words}: {done.stderr}")

    # Its misfortunes.

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self.start()

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        if self._process.wait(PATIENCE) != 0:
            raise RuntimeError(f"SIGTERM: it ended with status {self._process.returncode}:\n{self.words()}")
        self.start()

    def fill(self) -> None:
        """No file of it may grow beyond a little more than the longest of what it writes now, as on a full disk."""
        sizes = [path.stat().st_size for path in self._folder.rglob("*") if path.is_file()]
        _, hard = resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (max(sizes) // 2 + self._rng.randrange(999), hard))
        time.sleep(self._rng.uniform(0.2, 1.5))
        if self._rng.random() < 0.5:
            self.kill()
        else:
            resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (hard, hard))
            if self._process.poll() is not None:
                raise RuntimeError(f"full disk: it ended with status {self._process.returncode}:\n{self.words()}")

    def reload(self) -> None:
        self.write(self._rng.choice(("warning", "info", "error")))
        self._process.send_signal(signal.SIGHUP)

    def restore(self) -> None:
        self._process.kill()
        self._process.wait()
        for name in ("hub.db", "hub.db-wal", "hub.db-shm"):
            (self._folder / name).unlink(missing_ok=True)
        shutil.copy(self._folder / "copy.db", self._folder / "hub.db")
        self._call("outbox", "restored", "hub.db")
        self.start()
        (self._folder / "copy.db").unlink()
        self._backup()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


_ENV = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "transports"))),
    "PYTHONDONTWRITEBYTECODE": "",
}


class Server(threading.Thread):
    """The program behind the socket: it writes each message down and answers, and sometimes leaves before."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(daemon=True)
        self._rng = random.Random(seed)
        self._place = folder / "socket.txt"
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / "hub.sock"))
        self._listening.listen()

    def run(self) -> None:
        while True:
            ours, _ = self._listening.accept()
            with suppress(OSError), ours, ours.makefile("rb") as lines, self._place.open("ab", 0) as out:
                for line in lines:
                    if not line.endswith(b"\n") or self._rng.random() < 0.002:  # torn, as it was killed meanwhile
                        break
                    out.write(base64.b64decode(json.loads(line)["body"]))
                    ours.sendall(b"ok\n")


class Sender(threading.Thread):
    """The load: batches on all channels, one after the other. `sent` has what `send_many` returned for."""

    def __init__(self, instance: Instance) -> None:
        super().__init__(daemon=True)
        self._instance = instance
        self._stopping = threading.Event()
        self.sent: list[tuple[str, bytes]] = []
        self.failure: TolliverError | None = None

    def run(self) -> None:
        number = 0
        try:
            while not self._stopping.wait(0.002):
                batch = []
                for channel in PLACES:
                    if channel != "command" or number % RARE == 0:
                        batch.append((channel, f"k{number % 7}", b"%s-%d\n" % (channel.encode(), number)))
                self._instance.send_many(batch, require_recipients=1)
                self.sent += [(channel, body.rstrip()) for channel, _, body in batch]
                number += 1
                if self._instance.stats().pending > 500:
                    self._stopping.wait(0.1)
        except TolliverError as error:
            self.failure = error

    def stop(self) -> None:
        self._stopping.set()
        self.join()
        if self.failure is not None:
            raise RuntimeError(f"the sender failed: {self.failure}")


def arrived(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Channel and body of all that stands in the five places. A line that is torn counts as none."""
    for line in _lines(folder / "file.jsonl"):
        with suppress(ValueError):
            one = json.loads(line)
            if isinstance(one, dict):  # else it is of the process beside
                yield one["channel"], base64.b64decode(one["body"]).rstrip()
    for place in ("command", "socket", "function"):
        for line in _lines(folder / f"{place}.txt"):
            yield place, line
    stage = StageFolder(folder / "staged")
    head = stage.head()
    for file, start, end in stage.ranges(stage.first(), head) if head is not None else ():
        for block in read_blocks([Path(file).read_bytes()[start:end]], start):
            if isinstance(block, Block):
                frames = decode(block.payload, block.header.revision)
                yield from (("stage", frame.body.rstrip()) for frame in frames if isinstance(frame, Message))


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines() if path.exists() else []


def _await(comes: Callable[[], object], otherwise: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not comes():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{otherwise} within {PATIENCE:g} s")
        time.sleep(0.02)


def prove(folder: Path, steps: int, seed: int) -> Counter[str]:
    """Counts of what befell it, of `messages`, and of those that are `lost`, `unexpected` and `duplicates`."""
    rng = random.Random(seed)
    make_ca(folder)
    for name in ("hub", "sender"):
        make_certificate(folder, name)
    (folder / "taking.py").write_text(TAKING)
    (folder / "file.jsonl").touch(0o600)
    (folder / "twin.jsonl").hardlink_to(folder / "file.jsonl")
    Server(folder, seed).start()
    counts: Counter[str] = Counter()
    hub = Hub(folder, rng)
    beside = subprocess.Popen([sys.executable, "-c", BESIDE, str(folder / "file.jsonl")])
    try:
        options = InstanceOptions(
            database=folder / "sender.db",
            tls=TLS(folder / "sender.pem", folder / "sender.key", folder / "ca.pem"),
            remotes=[hub.address],
            retry_interval=0.5,
            limits=Limits(resend_max=2.0, redial_max=1.0),
        )
        with create_instance(options) as instance:
            for channel in PLACES:
                instance.wait_subscribed(channel, timeout=PATIENCE)
            sender = Sender(instance)
            sender.start()
            befalls = (hub.kill, hub.stop, hub.fill, hub.reload, hub.restore)
            for number in range(steps):
                time.sleep(rng.uniform(0.05, 1.0))
                befall = befalls[number] if number < len(befalls) else rng.choice(befalls)
                befall()
                counts[befall.__name__] += 1
            time.sleep(rng.uniform(0.05, 1.0))
            sender.stop()
            _await(lambda: instance.stats().pending == 0, f"what was sent does not drain: {instance.stats()}")
        hub.stop()
    finally:
        hub.end()
        beside.kill()
        beside.wait()
    came, sent = Counter(arrived(folder)), set(sender.sent)
    missing = sent - came.keys()
    for channel, body in sorted(missing)[:5]:
        print(f"lost: {channel} {body!r}", file=sys.stderr)
    counts["messages"] = len(sent)
    counts["lost"] = len(missing)
    counts["unexpected"] = sum(1 for one in came if one not in sent and not _is_torn(one, sent))
    counts["duplicates"] = came.total() - len(came)
    counts["NULs"] = (folder / "file.jsonl").read_bytes().count(0)
    counts["twice staged"] = sum(number - 1 for (place, _), number in came.items() if place == "stage")
    return counts


def prove_file(folder: Path, kills: int, seed: int) -> Counter[str]:
    """Counts of `lines` that were on the disk, and of those that are `lost`, and of NULs."""
    rng, path = random.Random(seed), folder / "lines.jsonl"
    path.touch(0o600)
    said: list[Path] = []

    def begin() -> tuple[subprocess.Popen[bytes], Path]:
        """A writer, and where it says what it has written."""
        place = folder / f"said-{len(said)}.txt"
        said.append(place)
        command = [sys.executable, "-c", APPENDS, str(path), f"{seed}.{len(said)}"]
        with place.open("wb") as out:
            return subprocess.Popen(command, stdout=out, env=_ENV), place

    writers = [begin() for _ in range(3)]
    try:
        for _ in range(kills):
            number = rng.randrange(len(writers))
            process, place = writers[number]
            _await(lambda: place.stat().st_size or process.poll() is not None, "nothing is written")  # noqa: B023
            time.sleep(rng.uniform(0.0, 0.2))
            if process.poll() is not None:
                raise RuntimeError(f"a writer ended with status {process.returncode}")
            process.kill()
            process.wait()
            writers[number] = begin()
    finally:
        for process, _ in writers:
            process.kill()
            process.wait()
    files, there = [*folder.glob("lines*.jsonl")], set()
    for line in (line for one in files for line in _lines(one)):
        with suppress(ValueError):
            there.add(base64.b64decode(json.loads(line)["body"]))
    ours = {line for one in said for line in one.read_bytes().split(b"\n")[:-1]}
    too_large = sum(one.stat().st_size > 20_000 for one in files)
    nuls = sum(one.read_bytes().count(0) for one in files)
    return Counter(lines=len(ours), files=len(files), lost=len(ours - there), too_large=too_large, NULs=nuls)


def _is_torn(one: tuple[str, bytes], sent: set[tuple[str, bytes]]) -> bool:
    """A line of our own programs that a full disk cut off: they do not mend it, as `tolliver` does its own."""
    return one[0] in ("command", "function") and any(one[1].endswith(body) for place, body in sent if place == one[0])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", type=int, nargs="?", default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counts = prove(Path(folder), options.steps, options.seed)
    with tempfile.TemporaryDirectory() as folder:
        file = prove_file(Path(folder), 3 * options.steps, options.seed)
    befell = ", ".join(f"{counts[name]} {name}" for name in ("kill", "stop", "fill", "reload", "restore"))
    print(
        f"result: run | {befell} | {counts['messages']:,} messages, {counts['lost']} lost, {counts['unexpected']} "
        f"unexpected, {counts['NULs']} NULs, {counts['twice staged']} twice staged, {counts['duplicates']:,} duplicates"
    )
    print(
        f"result: run | {3 * options.steps} kills of three writers of one file | {file['lines']:,} lines, a full disk, "
        f"{file['files']} files in turn, {file['too_large']} too large, {file['lost']} lost, {file['NULs']} NULs"
    )
    bad = [counts[name] for name in ("lost", "unexpected", "NULs", "twice staged")]
    return 1 if any(bad) or file["lost"] or file["NULs"] or file["too_large"] else 0


if __name__ == "__main__":
    sys.exit(main())
