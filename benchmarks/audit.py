"""Seconds of an audit, beside a program that only counts the frames of the same recordings.

    python benchmarks/audit.py [--messages 100000] [--repetitions 3] [--spark] [--directory DIR]

Two instances of this process send and handle so many messages of 100 bytes over mutual TLS, and both record. Then
`tolliver audit RECORDINGS --html` and the counting program run in turn, and with `--spark` a program that has Spark
write the same report, each as a process of its own. Figures are medians, ratios those of the same round. The exit
status is 1 where the command takes longer than 15 s, or 15 s for each 100,000 of more messages; a message that counts
as lost ends it with an error.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tolliver.blocking import TLS, Delivery, InstanceOptions, create_instance
from tolliver.certs import make_ca, make_certificate

HOST, BATCH, BODY, WAIT = "127.0.0.1", 500, 100, 120.0
AHEAD = 50_000  # messages that wait at most: the quota is twice that
AIM = 15.0 / 100_000  # seconds for a message
COUNTING = """
import sys
from pathlib import Path
from tolliver_proto import Decoder
from tolliver_proto.recording import Block, read_blocks
frames = 0
for path in Path(sys.argv[1]).rglob("*.rec"):
    for block in read_blocks([path.read_bytes()]):
        assert isinstance(block, Block)
        decoder = Decoder(block.header.revision)
        decoder.feed(block.payload)
        while decoder.next_frame() is not None:
            frames += 1
print(frames)
"""
BY_SPARK = """
import sys
from tolliver.spark.audit import audit
from tolliver.spark.local import local_session
with local_session(1) as spark, audit(spark, [sys.argv[1]]) as found:
    found.write_html(sys.argv[2])
    sys.exit(found.lost)
"""


def options(directory: Path, name: str, listen: str | None = None) -> InstanceOptions:
    tls = TLS(directory / f"{name}.pem", directory / f"{name}.key", directory / "ca.pem")
    recordings = directory / "recordings" / name
    return InstanceOptions(database=directory / f"{name}.db", tls=tls, listen=listen, record=recordings)


def handled(delivery: Delivery) -> None:
    """As each message is acknowledged."""


def record(directory: Path, messages: int) -> Path:
    """Recordings of both ends, each in a directory of its own."""
    make_ca(directory)
    for name in ("alice", "bob"):
        make_certificate(directory, name)
    with (
        create_instance(options(directory, "bob", f"{HOST}:0")) as bob,
        create_instance(options(directory, "alice")) as alice,
    ):
        bob.register_callback("readings", "", handled)
        bob.subscribe("readings")
        alice.new_connection(f"{HOST}:{bob.port}")
        alice.wait_subscribed("readings", timeout=WAIT)
        for first in range(0, messages, BATCH):
            batch = range(first, min(first + BATCH, messages))
            receipt = alice.send_many([("readings", f"k{at % 100}", bytes(BODY)) for at in batch])
            if first % AHEAD == 0:
                alice.wait_acked(receipt, timeout=WAIT)
        alice.wait_acked(receipt, timeout=WAIT)
        alice.flush(timeout=WAIT)
    return directory / "recordings"


def timed(*command: object) -> tuple[float, str]:
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, *map(str, command)], check=True, capture_output=True, text=True)
    return time.perf_counter() - begun, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--spark", action="store_true", help="have Spark make the same report, too")
    parser.add_argument("--directory", type=Path, default=None, help="where files go (default: a temporary one)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.directory) as name:
        recordings, page = record(Path(name), chosen.messages), Path(name) / "report.html"
        commands: dict[str, tuple[object, ...]] = {
            "frames counted": ("-c", COUNTING, recordings),
            "audited by the command": ("-m", "tolliver.cli", "audit", recordings, "--html", page),
        }
        if chosen.spark:
            commands["audited by Spark"] = ("-c", BY_SPARK, recordings, page)
        taken: dict[str, list[float]] = {what: [] for what in commands}
        said = dict[str, str]()
        for _ in range(chosen.repetitions):
            for what, command in commands.items():
                seconds, said[what] = timed(*command)
                taken[what].append(seconds)
    longest = AIM * max(chosen.messages, 100_000)
    counts, frames = taken["frames counted"], int(said["frames counted"])
    print(said["audited by the command"], end="")
    print(f"{chosen.messages:,} messages, recorded by both ends, {frames:,} frames")
    for what, one in taken.items():
        ratio = statistics.median(audit / count for audit, count in zip(one, counts, strict=True))
        print(f"  {what:<24}{statistics.median(one):>6.1f} s{ratio:>7.1f} times as long as counting")
    print(f"  the aim of an audit by the command is {longest:.1f} s")
    raise SystemExit(statistics.median(taken["audited by the command"]) > longest)


if __name__ == "__main__":
    main()
