"""Seconds of an audit, beside a program that only counts what the same recordings hold.

    python benchmarks/audit.py [--messages 100000] [--repetitions 3] [--directory DIR]

Two instances of this process send and handle so many messages of 100 bytes over mutual TLS, and both record. Then
`tolliver audit RECORDINGS --html` and the counting program run in turn, each as a process of its own, so the start of
Java and Spark is in both. Figures are medians, the ratio that of the same round. The exit status is 1 where the audit
takes longer than 15 s, or 15 s for each 100,000 of more messages; a message that counts as lost ends it with an error.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tolliver_transports.blocking import TLS, Delivery, InstanceOptions, create_instance
from tolliver_transports.certs import make_ca, make_certificate

HOST, BATCH, BODY, WAIT = "127.0.0.1", 500, 100, 120.0
AIM = 15.0 / 100_000  # seconds for a message
COUNTING = """
import sys
from tolliver_transports.spark.local import local_session
with local_session() as spark:
    print(spark.read.format("tolliver").option("recursiveFileLookup", "true").load(sys.argv[1]).count())
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
    parser.add_argument("--directory", type=Path, default=None, help="where files go (default: a temporary one)")
    chosen = parser.parse_args()
    audits, counts = list[float](), list[float]()
    with tempfile.TemporaryDirectory(dir=chosen.directory) as name:
        recordings = record(Path(name), chosen.messages)
        for _ in range(chosen.repetitions):
            taken, said = timed("-m", "tolliver_transports.cli", "audit", recordings, "--html", Path(name) / "r.html")
            audits.append(taken)
            taken, rows = timed("-c", COUNTING, recordings)
            counts.append(taken)
    ratio = statistics.median(audit / count for audit, count in zip(audits, counts, strict=True))
    longest = AIM * max(chosen.messages, 100_000)
    print(said, end="")
    print(f"{chosen.messages:,} messages, recorded by both ends, {int(rows):,} rows")
    print(f"  audited, with a report  {statistics.median(audits):>6.1f} s, of {longest:.1f}")
    print(f"  rows counted            {statistics.median(counts):>6.1f} s")
    print(f"  an audit takes {ratio:.1f} times as long as counting, starts of Java and Spark included")
    raise SystemExit(statistics.median(audits) > longest)


if __name__ == "__main__":
    main()
