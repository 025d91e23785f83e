"""Stager in a process of its own, until it is killed.

python -m tests.staging.receiver DIRECTORY ADDRESS CERT KEY CA

It says that it is ready, and then says no more. With a line on standard input it leaves, without closing anything.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tolliver.blocking import TLS
from tolliver.staging import StageOptions, Stager

if __name__ == "__main__":
    directory, address, *files = sys.argv[1:]
    stager = Stager(
        StageOptions(
            directory=Path(directory),
            listen=address,
            tls=TLS(*map(Path, files)),
            subscriptions=(("news", ""),),
            segment_bytes=20_000,
        )
    )
    stager.start()
    print("ready", flush=True)  # noqa: T201  # its only output
    sys.stdin.readline()
