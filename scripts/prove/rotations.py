"""Rotations of short-lived certificates under a load of reliable messages, and losses counted.

    python -m scripts.prove.rotations [ROTATIONS] [--lifetime SECONDS]     100 rotations, and certificates of 60 s

A sender and two services of `tolliver run` change their certificates: by `reload_tls()`, by a script that exchanges
files and sends SIGHUP, and as in a volume of Kubernetes, with `reload_every`. Each connection lives for 2.5
seconds, and a rotation is over when each was made anew with what is valid now. Exit status 1 if a message was lost, or
if no certificate ended on the way where there was time for it.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from pathlib import Path

from tests.deploy.rotating import rotate


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rotations", type=int, nargs="?", default=100)
    parser.add_argument("--lifetime", type=float, default=60.0, help="seconds that a certificate is valid")
    chosen = parser.parse_args()
    logging.getLogger("tolliver").setLevel("ERROR")  # else each certificate is told to end soon
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        figures = rotate(Path(directory), chosen.rotations, chosen.lifetime)
    seconds = time.monotonic() - began
    print(
        f"result: rotations | {figures.rotations:,} rotations of three instances under {figures.messages:,} messages, "
        f"{figures.ended:,} certificates of each over | {figures.lost:,} lost, {figures.twice:,} twice, {seconds:.0f} s"
    )
    return 0 if not figures.lost and (figures.ended or seconds < chosen.lifetime) else 1


if __name__ == "__main__":
    sys.exit(main())
