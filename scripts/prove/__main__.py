"""Proof of everything that docs/proof.md promises, row by row.

A row is a few commands, each of which says what it ran and what came out (`scripts/prove/rows.py`). Their words are
kept with the date and the commit in docs/proof.json, so rows can be run one at a time; the page and the table of
README.md are drawn from that and say nothing else. A row that fails says so there until it is run again. Exit status 1
if one failed.

    python -m scripts.prove              all rows; nothing else should use the machine
    python -m scripts.prove V7 V8        these
    python -m scripts.prove --full V7    in the size that is asked for, however long that takes
    python -m scripts.prove --page       only draw the page and the table
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from scripts.pages import linked
from scripts.prove.graph import Graph
from scripts.prove.page import Outcome, Said, quoting
from scripts.prove.page import page as drawn
from scripts.prove.rows import ROWS, Row

ROOT = Path(__file__).resolve().parents[2]

RECORD = ROOT / "docs" / "proof.json"
PAGE = ROOT / "docs" / "proof.md"
MUTANTS = ROOT / "docs" / "mutation.json"
README, FRONT = ROOT / "README.md", ROOT / "docs" / "index.md"
RESULT = re.compile(r"^result: (?P<row>[^|]+?) \| (?P<size>[^|]+?) \| (?P<figures>.+)$")
LONGEST = 5400.0  # seconds for one command, if not in full
LAST_LINES = 15  # of a command that failed


def run(row: Row, *, full: bool = False) -> Outcome:
    """All commands of the row, also after one that failed."""
    began = time.monotonic()
    said: list[Said] = []
    graphs: list[str] = []
    passed = True
    commands = (full and row.full) or row.commands
    print(row.name, *commands, sep="\n  ", flush=True)
    with ThreadPoolExecutor(len(commands) if row.waits else 1) as pool:
        for good, found, drawn_from in pool.map(partial(_called, longest=None if full else LONGEST), commands):
            said += found
            graphs += drawn_from
            passed = passed and good
    today = datetime.now(UTC).date().isoformat()
    seconds = round(time.monotonic() - began)
    return Outcome(
        passed=passed,
        commands=[*commands],
        said=said,
        graphs=graphs,
        date=today,
        commit=_commit(),
        seconds=seconds,
    )


def run_all(rows: Sequence[Row], *, full: bool = False) -> Iterator[tuple[Row, Outcome]]:
    """One after the other, as each ends. Those that run beside the others are started first and come last."""
    with ThreadPoolExecutor() as pool:
        beside = [(row, pool.submit(run, row, full=full)) for row in rows if row.beside]
        yield from ((row, run(row, full=full)) for row in rows if not row.beside)
        yield from ((row, outcome.result()) for row, outcome in beside)


def _called(command: str, longest: float | None) -> tuple[bool, list[Said], list[str]]:
    """True if it passed, its results and its graphs. One that says nothing has shown nothing."""
    program, *arguments = shlex.split(command)
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    with subprocess.Popen(
        [sys.executable if program == "python" else program, *arguments],
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=longest)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with all that it has started
            return False, [Said(size=command, figures=f"did not end within {longest:g} s")], []
    found = [match for line in out.splitlines() if (match := RESULT.match(line))]
    for match in found:
        print(f"  {match[0]}", flush=True)
    if process.returncode or not found:
        print("\n".join([*out.splitlines(), *err.splitlines()][-LAST_LINES:]), flush=True)
    said = [Said(size=match["size"], figures=match["figures"]) for match in found]
    graphs = [line for line in out.splitlines() if Graph.heard(line)]
    return process.returncode == 0 and bool(found), said or [Said(size=command, figures="it said nothing")], graphs


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "?"


def load() -> dict[str, Outcome]:
    """Outcomes of earlier runs."""
    return dict(json.loads(RECORD.read_text())) if RECORD.exists() else {}


def page(outcomes: Mapping[str, Outcome]) -> str:
    """docs/proof.md."""
    alive = json.loads(MUTANTS.read_text("utf-8"))["survived"].values() if MUTANTS.exists() else ()
    return linked(drawn(outcomes, alive), PAGE.name)


def save(outcomes: Mapping[str, Outcome]) -> None:
    known = {row.name: outcomes[row.name] for row in ROWS if row.name in outcomes}
    RECORD.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page(known))
    for path in (README, FRONT):
        path.write_text(quoting(path.read_text(), known))


def chosen(names: Iterable[str]) -> list[Row]:
    wanted = set(names)
    unknown = wanted - {row.name for row in ROWS}
    if unknown:
        raise SystemExit(f"no row {', '.join(sorted(unknown))}: there are {', '.join(row.name for row in ROWS)}")
    return [row for row in ROWS if not wanted or row.name in wanted]


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the proofs and write docs/proof.md.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help="which ones (default: all)")
    parser.add_argument("--full", action="store_true", help="in the size that is asked for, however long that takes")
    parser.add_argument("--page", action="store_true", help="only draw the page from what is known")
    arguments = parser.parse_args()
    failed = []
    for row, outcome in run_all([] if arguments.page else chosen(arguments.rows), full=arguments.full):
        save(load() | {row.name: outcome})  # after each row, beside what another run may have shown meanwhile
        if not outcome["passed"]:
            failed.append(row.name)
    save(load())
    print(f"failed: {', '.join(failed)}" if failed else "all that was run holds")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
