"""`tolliver run` with a file: does it matter how the keys of neighbouring messages differ?

    python benchmarks/running.py [--messages 20000] [--repetitions 3] [--directory DIR]

A sender stores messages of 100 bytes in batches of 1,000, on loopback without TLS, and waits until the service has
written and acknowledged all of them: each line is on the disk by then. The yardstick is one key for all. Beside it, in
the same round: two keys in turn, a key for each message, and two tables on one file, with a channel each, in turn. A
row has messages a second and the ratio to the yardstick of its round, medians both. Give a directory on the disk that
is meant: syncing is most of what differs.
"""

from __future__ import annotations

import argparse
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tolliver.blocking import InstanceOptions, create_instance

BATCH = 1000
BODY = bytes(100)
PATIENCE = 60.0  # seconds for its start
CONFIG = """
listen = "127.0.0.1:0"
database = "run.db"
plaintext = true

[[deliver]]
channel = "one"
file = "lines.jsonl"

[[deliver]]
channel = "other"
file = "lines.jsonl"
"""
NAMES: dict[str, Callable[[int], tuple[str, str]]] = {
    "one key": lambda _: ("one", "k"),
    "two keys in turn": lambda number: ("one", f"k{number % 2}"),
    "a key each": lambda number: ("one", f"k{number}"),
    "two tables on one file": lambda number: (("one", "other")[number % 2], "k"),
}


@contextmanager
def service(directory: Path) -> Iterator[str]:
    """Its address."""
    (directory / "run.toml").write_text(CONFIG)
    command = [sys.executable, "-m", "tolliver.cli", "run", str(directory / "run.toml")]
    said = directory / "said.txt"
    with said.open("wb") as out, subprocess.Popen(command, stderr=out) as process:
        try:
            deadline = time.monotonic() + PATIENCE
            while (found := re.search(r"listening on ([^\s;]+)", said.read_text())) is None:
                assert process.poll() is None, said.read_text()
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield found[1]
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 0, said.read_text()
        finally:
            process.kill()


def rate(directory: Path, count: int, name: Callable[[int], tuple[str, str]]) -> float:
    """Messages a second. Fails where the file has another number of lines."""
    with service(directory) as address:
        options = InstanceOptions(database=directory / "sender.db", plaintext=True, remotes=[address])
        with create_instance(options) as sender:
            for channel in ("one", "other"):
                sender.wait_subscribed(channel, timeout=PATIENCE)
            begun = time.perf_counter()
            batches = range(0, count, BATCH)
            for receipt in [
                sender.send_many([(*name(number), BODY) for number in range(first, first + BATCH)]) for first in batches
            ]:
                sender.wait_acked(receipt)
            took = time.perf_counter() - begun
    with (directory / "lines.jsonl").open("rb") as lines:
        assert sum(1 for _ in lines) == count
    return count / took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--directory", type=Path)
    args = parser.parse_args()
    print(f"Python {platform.python_version()}, {platform.machine()}, {args.messages:,} messages")
    rates: dict[str, list[float]] = {said: [] for said in NAMES}
    for _ in range(args.repetitions):
        for said, name in NAMES.items():
            with tempfile.TemporaryDirectory(dir=args.directory) as directory:
                rates[said].append(rate(Path(directory), args.messages // BATCH * BATCH, name))
    yardstick = rates["one key"]
    for said, found in rates.items():
        ratio = statistics.median(one / of for one, of in zip(found, yardstick, strict=True))
        print(f"{said:24} {statistics.median(found):10,.0f} a second  {ratio:5.2f}")


if __name__ == "__main__":
    main()
