"""`tolliver conform`: play a peer, and judge the other end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from attrs import define
from rich.text import Text

from tolliver_proto import reactive

from .._conform.cases import Case, Result, Verdict, chosen
from .._conform.flow import Streams
from .._conform.kit import Setup
from .._conform.report import write_junit
from .._conform.running import MESSAGES, STREAMS, holds, run
from .._conform.talk import Messages
from .._options.instance import DEFAULT_PORT, split_address
from .._tls.policy import ALPN, Pumps
from . import words
from .connecting import Identity
from .tables import print_rows, print_table, progress

_COLUMNS = ("case", "role", "level", "result", "what")
_STYLES = {Verdict.PASSED: "green", Verdict.FAILED: "bold red", Verdict.SKIPPED: "yellow"}


@define(frozen=True)
class Job:
    """A run as given on the command line."""

    identity: Identity
    dial: str | None
    listen: str | None
    streams: bool
    short: bool
    only: Sequence[str]
    junit: Path | None
    patience: float


def _cases(streams: bool, only: Sequence[str], short: bool) -> list[Case[Any]]:
    cases: list[Case[Any]] = [*(STREAMS if streams else MESSAGES)]
    return chosen(cases, only, short)


def print_cases(streams: bool, only: Sequence[str], short: bool, as_json: bool) -> None:
    """Print what would be run. Raises ValueError for an id that no case has."""
    rows = [
        {
            "case": case.id,
            "level": case.level.value,
            "roles": " ".join(sorted(case.roles)),
            "rulings": " ".join(case.rulings),
            "what": case.text,
        }
        for case in _cases(streams, only, short)
    ]
    print_rows(rows, as_json, "no case")


def run_and_print(job: Job, as_json: bool) -> int:
    """Run, and print the table, or JSON lines as they come. Returns the exit status. Raises ValueError for what cannot
    be meant, CertificateError for a certificate that a peer would refuse, and OSError where the kit cannot listen or
    write.
    """
    if job.dial is None and job.listen is None:
        raise ValueError("no peer: give the HOST:PORT where it listens, or --listen HOST:PORT where it dials")
    tls, port = job.identity.tls(), reactive.DEFAULT_PORT if job.streams else DEFAULT_PORT
    if not job.streams and (named := Pumps(tls).identity.uuids):
        raise ValueError(
            f"the kit's certificate names the UUID {', '.join(map(str, named))}, and the kit plays several peers: make "
            "one without, `tolliver certs DIR NAME --no-uuid`"
        )
    setup = Setup(
        tls=tls,
        alpn=reactive.ALPN if job.streams else ALPN,
        dial=None if job.dial is None else split_address(job.dial, port),
        listen=None if job.listen is None else split_address(job.listen, port),
        patience=job.patience,
    )
    cases = _cases(job.streams, job.only, job.short)
    results: list[Result] = []
    with progress(shown=not as_json) as bar:
        task = bar.add_task("conform", total=None)
        for result in run(cases, setup, Streams if job.streams else Messages):
            results.append(result)
            bar.update(task, description=f"{len(results)} {result.id}")
            if as_json:
                typer.echo(json.dumps(_as_json(result)))
    if not as_json:
        _print(results)
    if job.junit is not None:
        write_junit(job.junit, results)
    return 0 if holds(results) else 1


def _as_json(result: Result) -> dict[str, object]:
    return {
        "case": result.id,
        "role": result.role.value,
        "level": result.level.value,
        "result": result.verdict.value,
        "rulings": list(result.rulings),
        "what": result.text,
        "expected": result.expected,
        "seen": result.seen,
        "seconds": round(result.seconds, 3),
    }


def _print(results: Sequence[Result]) -> None:
    print_table(_COLUMNS, [_row(result) for result in results])
    failed = [result for result in results if result.verdict is Verdict.FAILED]
    for result in failed:
        typer.echo(f"\n{result.id} ({result.role}, {result.level}; {', '.join(result.rulings)}): {result.text}")
        typer.echo(f"  expected: {words.line(result.expected)}\n  saw:      {words.line(result.seen)}")
    counts = Counter(result.verdict for result in results)
    typer.echo("\n" + ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict))


def _row(result: Result) -> Sequence[object]:
    what = result.seen if result.verdict is Verdict.SKIPPED else result.text
    verdict = Text(result.verdict.value, _STYLES[result.verdict])
    return result.id, result.role.value, result.level.value, verdict, what
