"""Exchange with an older version: messages both ways through kills, then its files in the hands of today's.

    python scripts/exchange.py CHECKOUT [KILLS] [--seed N]     a checkout of an older commit; 800 kills by default

A node of that checkout and one of today's talk over mutual TLS, with a database each, and either is killed at random
moments. Then the older one is closed or killed, and today's goes on with its files: its database and its outbox, or its
stage. It is killed as often again, in the midst of the migration, too. At the end all outboxes drain, and what was sent
is compared with what was handled or staged; recordings of either version are read; and the older program is given the
files of today's, which it refuses, and of which no byte may change.

A round has 50 kills. Its seed decides who is the older, who listens, who is a stager, the draft, and how the older one
ends. Exit status 1 if a message was lost, came that was never sent, or stands twice in a stage, or if a file is not
taken or not refused as said above.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "transports")]

from tolliver_transports.certs import make_ca, make_certificate  # noqa: E402  # the line above comes first
from tolliver_transports.staging import StageFolder, UnknownStage  # noqa: E402  # as above

from scripts.proving.exchanged import Options  # noqa: E402  # as above
from tests.lists import whole_lines  # noqa: E402  # as above
from tolliver_proto import Message, decode  # noqa: E402  # as above
from tolliver_proto.recording import SUFFIX, Block, Direction, read_blocks  # noqa: E402  # as above

ROUND = 50  # kills
LIVES = (0.02, 0.2, 0.5, 1.0, 2.0)  # seconds from one kill to the next, at most: the first ends in an opening
PATIENCE = 120.0  # seconds for what must come
OPENINGS = {"exchange": "open_instance", "send": "open_instance", "stage": "open_stage"}


class Side:
    """A name, its files, and the version that has them now."""

    def __init__(self, options: Options, life: str, checkout: Path) -> None:
        self.options = options
        self.life = life
        self.take_over(checkout)

    def take_over(self, checkout: Path) -> None:
        paths = os.pathsep.join((str(checkout), str(checkout / "transports")))
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                ROOT / "scripts" / "proving" / "exchanged.py",
                checkout,
                json.dumps(self.options._asdict()),
            ],
            env={**os.environ, "PYTHONPATH": paths},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def do(self, word: str) -> None:
        """Begin or end a life. Raises RuntimeError where it says that it could not."""
        write, read = _pipes(self._process)
        write.write(f"{word}\n")
        write.flush()
        answer = read.readline()
        if answer != "\n":
            raise RuntimeError(f"{self.options.name}, {word}: {answer.strip() or 'it is gone'}")

    def leave(self) -> None:
        """End its process, so that another version can have the files."""
        for pipe in _pipes(self._process):
            pipe.close()
        self._process.wait()

    def path(self, what: str) -> Path:
        return Path(self.options.directory) / f"{self.options.name}{what}"

    def names(self, what: str) -> list[str]:
        return [line.decode() for line in whole_lines(self.path(f".{what}"))]

    def arrived(self) -> list[str]:
        """Names of the messages that it handled, or that stand in its stage."""
        return list(self._staged()) if self.life == "stage" else self.names("handled")

    @property
    def receives(self) -> bool:
        return self.life != "send"

    def _staged(self) -> Iterator[str]:
        try:
            folder = StageFolder(self.path(".stage"))
        except UnknownStage:  # it has not been made yet
            return
        head = folder.head()
        if head is None:
            return
        for file, start, end in folder.ranges(folder.first(), head):
            yield from _names_in(Path(file).read_bytes()[start:end], whole=True)

    def recorded(self) -> list[str]:
        """Names of messages that came in, by its recordings. A kill may have cut off the end of each."""
        files = sorted(self.path(".recordings").glob(f"*{SUFFIX}"))
        return [name for file in files for name in _names_in(file.read_bytes(), whole=False)]

    def digests(self) -> dict[str, str]:
        """Of every file of a database or a stage."""
        found = [self.path(".db"), self.path(".db-wal"), *self.path(".stage").rglob("*")]
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in found if path.is_file()}


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def _names_in(data: bytes, *, whole: bool) -> Iterator[str]:
    for block in read_blocks([data]):
        if not isinstance(block, Block):
            assert not whole, block
            return
        if block.header.direction is Direction.IN:
            frames = decode(block.payload, block.header.revision)
            yield from (frame.body.split()[0].decode() for frame in frames if isinstance(frame, Message) and frame.body)


class Exchange:
    """Round of one seed."""

    def __init__(self, directory: Path, older: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.older = older
        stages, listens, self.closes, older_first = (bool(seed >> bit & 1) for bit in range(4))
        make_ca(directory)
        with socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{reserved.getsockname()[1]}"
        revision, dedupe = self.rng.choice((1, 2)), self.rng.choice((0, 10_000))
        lives = {"one": "send", "two": "stage"} if stages else dict.fromkeys(("one", "two"), "exchange")
        self.sides: list[Side] = []
        for name, life in lives.items():
            make_certificate(directory, name)
            options = Options(str(directory), name, address, listens is (name == "one"), dedupe, revision)
            self.sides.append(Side(options, life, older if older_first is (name == "one") else ROOT))
        self.oldest = self.sides[not older_first]
        ways = " and ".join(f"{side.options.name} {side.life}s" for side in self.sides)
        self.shown = f"draft {revision}, {ways}, {self.oldest.options.name} is older and is "
        self.shown += "closed" if self.closes else "killed"

    def run(self, kills: int) -> Counter[str]:
        try:
            for side in self.sides:
                side.do(side.life)
            self._await_messages()
            self._kill(kills // 2)
            self.oldest.do("close" if self.closes else "kill")
            self.oldest.leave()
            self.oldest.take_over(ROOT)
            self.oldest.do(self.oldest.life)
            self._kill(kills - kills // 2)
            self._await_messages()
            self._drain()
            counts = Counter(kills=kills, taken=self._taken())
            return counts + self._compared()
        finally:
            for side in self.sides:
                side.leave()

    def _kill(self, kills: int) -> None:
        for _ in range(kills):
            time.sleep(self.rng.uniform(0, self.rng.choice(LIVES)))
            side = self.rng.choice(self.sides)
            side.do("kill")
            side.do(side.life)

    def _await_messages(self) -> None:
        """More than have arrived, at each who receives: so both versions were at work."""
        before = {side: len(side.arrived()) for side in self.sides if side.receives}
        _await(lambda: all(len(side.arrived()) > count for side, count in before.items()), "no message comes")

    def _drain(self) -> None:
        for side in self.sides:
            if side.life != "stage":
                side.do("close")
                side.do("drain")
        senders = [side for side in self.sides if side.life != "stage"]
        _await(lambda: all(side.path(".drained").exists() for side in senders), "an outbox does not drain")
        for side in self.sides:
            side.do("close" if self.closes else "kill")

    def _compared(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        one, two = self.sides
        for sender, receiver in ((one, two), (two, one)):
            about_to, returned = set(sender.names("about to")), set(sender.names("returned"))
            arrived, recorded = Counter(receiver.arrived()), set(receiver.recorded())
            counts["messages"] += len(returned)
            counts["lost"] += len(returned - set(arrived))
            counts["unexpected"] += len(set(arrived) - about_to) + len(recorded - about_to)
            counts["recorded"] += len(recorded)
            counts["twice staged" if receiver.life == "stage" else "duplicates"] += arrived.total() - len(arrived)
        return counts

    def _taken(self) -> int:
        """Files of today's that the older program did not refuse, or of which a byte changed."""
        taken = 0
        for side in self.sides:
            before = side.digests()
            side.leave()
            side.take_over(self.older)
            side.do(OPENINGS[side.life])
            _await(lambda: side.names("told"), "the older program says nothing")  # noqa: B023  # called here
            [told] = side.names("told")
            if told == "opened" or side.digests() != before:
                changed = [name for name, digest in side.digests().items() if before.get(name) != digest]
                print(f"{side.options.name}: {told}; changed: {changed}", file=sys.stderr)
                taken += 1
        return taken


def _await(comes: Callable[[], object], otherwise: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not comes():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{otherwise} within {PATIENCE:g} s")
        time.sleep(0.05)


def one_round(older: Path, seed: int, kills: int) -> Counter[str]:
    with tempfile.TemporaryDirectory() as directory:
        exchange = Exchange(Path(directory), older, seed)
        try:
            counts = exchange.run(kills)
        except RuntimeError as error:
            print(f"seed {seed}: {error}", file=sys.stderr)
            counts = Counter(failed=1)
    print(f"seed {seed}: {exchange.shown}: {dict(counts)}", flush=True)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="of the older commit, such as git worktree makes it")
    parser.add_argument("kills", type=int, nargs="?", default=800)
    parser.add_argument("--seed", type=int, default=0, help="of the first round")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + -(-options.kills // ROUND))
    total: Counter[str] = Counter()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for counts in pool.map(lambda seed: one_round(options.checkout.resolve(), seed, ROUND), seeds):
            total += counts
    print(
        f"result: exchange | {total['kills']:,} kills | {total['messages']:,} messages, {total['lost']} lost, "
        f"{total['unexpected']} unexpected, {total['duplicates']:,} duplicates, {total['twice staged']} twice staged, "
        f"{total['recorded']:,} recorded, {total['taken']} files taken by the older, {total['failed']} rounds failed"
    )
    return 1 if any(total[name] for name in ("lost", "unexpected", "twice staged", "taken", "failed")) else 0


if __name__ == "__main__":
    sys.exit(main())
