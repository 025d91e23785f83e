"""Power failures of a store, on all cores (V8).

    python scripts/power_loss.py [IMAGES] [--synchronous FULL|NORMAL|OFF] [--seed N]     10,000 images by default

With FULL, as the product has it, exit status 1 if a message was lost, or a commit was there by half. NORMAL and OFF are
the control: there exit status 1 means that nothing was lost, so that this script would not see it. Needs a C compiler.

Many uses of a store each give an account of what they asked of the disk (`tests/store/power.py`), and each account many
disks that a power failure at a random moment may leave.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent)]  # the images are made beside the tests that use them

from tests.store.given import MEMORY_DISK  # noqa: E402  # the line above comes first
from tests.store.power import Verdict, compiler, images  # noqa: E402  # as above

PORTION = 200


def some(synchronous: str, seed_and_count: tuple[int, int]) -> tuple[int, list[Verdict]]:
    seed, count = seed_and_count
    with tempfile.TemporaryDirectory(dir=MEMORY_DISK) as directory:
        return seed, list(images(Path(directory).resolve(), seed, count, synchronous))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=int, nargs="?", default=10_000)
    parser.add_argument("--synchronous", choices=["FULL", "NORMAL", "OFF"], default="FULL")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    options = parser.parse_args()
    if compiler() is None:
        print("there is no C compiler (cc or gcc) to make the library that writes down what a store asks of the disk")
        return 1
    counts = [min(PORTION, options.images - start) for start in range(0, options.images, PORTION)]
    verdicts: list[Verdict] = []
    shown = 0
    began = time.monotonic()
    with ProcessPoolExecutor() as pool:
        for seed, found in pool.map(partial(some, options.synchronous), enumerate(counts, options.seed)):
            verdicts += found
            for verdict in found:
                if (verdict.lost or verdict.wrong) and shown < 3:
                    shown += 1
                    print(f"seed {seed}: {verdict.lost} lost; {verdict.wrong}", flush=True)
    lost, losing = sum(one.lost for one in verdicts), sum(bool(one.lost) for one in verdicts)
    wrong, back = sum(bool(one.wrong) for one in verdicts), sum(one.back for one in verdicts)
    print(f"{len(verdicts)} images in {time.monotonic() - began:.0f} s, first seed {options.seed}")
    print(
        f"result: V8 | {len(verdicts):,} images, synchronous {options.synchronous} | {lost:,} messages lost in "
        f"{losing:,} images, {wrong:,} images not whole, {back:,} messages back that had been removed"
    )
    good = not lost and not wrong
    return int(not good if options.synchronous == "FULL" else not losing)


if __name__ == "__main__":
    sys.exit(main())
