"""The sink of Spark: jobs that are killed and run again in another shape (T-72a).

    python -m scripts.prove.spark_shapes HOW [KILLS] [ROWS] [--seed N]     20 kills, 1,000,000 rows

A job sends numbers to a receiver that knows copies, and is killed with its JVM. It is run again, with files that are
split otherwise and other partitions, at random while the job before it goes on; the last run is let finish. HOW is
"any", batches with a writeId as they are; "stable", the same by `tolliver.spark.stable`; or "ids", a stream with
`idColumn`, which goes on from its checkpoint. In the end the receiver has handled each number; once, but for "any".
Exit status 1 if one is missing, or there twice where it must not be.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from tolliver import Policy
from tolliver.blocking import Delivery, Instance, InstanceOptions, create_instance

from tests.certificates import Certificates
from tests.spark.rig import Program

ROOT = Path(__file__).resolve().parents[2]

PATIENCE = 600.0  # seconds for one step
FILES = 12


def text_files(folder: Path, rows: int) -> None:
    folder.mkdir()
    for at in range(FILES):
        lines = "".join(f"{number}\n" for number in range(at + 1, rows + 1, FILES))
        (folder / f"{at:02}.txt").write_text(lines)


class Trial:
    """A receiver, and the lives of a job."""

    def __init__(self, directory: Path, how: str, rows: int, rng: random.Random) -> None:
        self.directory, self.how, self.rows, self.rng = directory, how, rows, rng
        (made := directory / "certificates").mkdir()
        self.certs = Certificates(made)
        self.handled: Counter[bytes] = Counter()
        self.beside = 0
        text_files(directory / "files", rows)

    def handle(self, delivery: Delivery) -> None:
        self.handled[delivery.body] += 1

    def receiver(self) -> Instance:
        """One that has room for all rows of all lives."""
        options = InstanceOptions(
            database=self.directory / "right.db",
            listen="127.0.0.1:0",
            tls=self.certs.tls("right"),
            policy=Policy(dedupe=10_000_000),
        )
        return create_instance(options)

    def run(self, right: Instance, kills: int) -> None:
        """All lives; none is left in the end."""
        with ExitStack() as self.lives:
            self._run(right, kills)

    def _run(self, right: Instance, kills: int) -> None:
        right.register_callback("rows", "", self.handle)
        right.subscribe("rows")
        older: Program | None = None
        waiting = self._life(right)
        for number in range(1, kills + 2):
            life, waiting = waiting, self._life(right) if number <= kills else waiting
            self._begin(life)
            if number > kills:
                assert life.says("done\n"), "the last run failed"
            else:
                self._some(right)
            if older is not None:
                older.kill()
            stays = number <= kills and self.how != "ids" and self.rng.random() < 0.5
            self.beside += stays
            older = life if stays else None
            if older is None:
                life.kill()
            print(f"life {number}: {len(self.handled):,} numbers, {right.stats()['duplicates']:,} copies", flush=True)

    def _life(self, right: Instance) -> Program:
        tls = self.certs.tls("job")
        paths = {"tls.cert": tls.cert, "tls.key": tls.key, "tls.ca": tls.ca}
        options = {"connect": f"127.0.0.1:{right.port}", "rowsPerSend": "200", "window": "1000", **paths}
        given = json.dumps({name: str(text) for name, text in options.items()})
        where = [str(self.directory / name) for name in ("files", "checkpoint")]
        life = Program(ROOT / "tests" / "spark" / "writing.py", self.how, given, *where)
        self.lives.callback(life.kill)
        return life

    def _begin(self, life: Program) -> None:
        size = (self.directory / "files" / "00.txt").stat().st_size
        shape = {
            "bytes": self.rng.randint(max(1, size // 8), 3 * size),
            "partitions": self.rng.choice((0, self.rng.randint(1, 12))),
        }
        life.go(json.dumps(shape))

    def _some(self, right: Instance) -> None:
        """Until so many more have come, new ones and copies."""
        most = self.rng.randint(1, max(1, self.rows // 2))
        before, end = self._come(right), time.monotonic() + PATIENCE / 10
        while self._come(right) < before + most and time.monotonic() < end:
            time.sleep(0.002)

    def _come(self, right: Instance) -> int:
        stats = right.stats()
        return stats["handled"] + stats["duplicates"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("how", choices=("any", "stable", "ids"))
    parser.add_argument("kills", type=int, nargs="?", default=20)
    parser.add_argument("rows", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as name:
        trial = Trial(Path(name), given.how, given.rows, random.Random(given.seed))
        with trial.receiver() as right:
            trial.run(right, given.kills)
            reused = right.stats()["ids_reused"]
    lost = sum(b"%d" % number not in trial.handled for number in range(1, given.rows + 1))
    twice = sum(trial.handled.values()) - len(trial.handled)
    size = f"{given.kills} kills, runs beside the next: {trial.beside}, shapes: {given.how}"
    may = " as may be" if given.how == "any" else ""
    figures = f"{given.rows:,} rows, {lost} lost, {twice:,} twice{may}, {reused:,} ids used again"
    print(f"result: shapes | {size} | {figures}")
    return 1 if lost or (twice and given.how != "any") else 0


if __name__ == "__main__":
    sys.exit(main())
