"""Command of the demo.

`python -m examples.demo [--directory DIR] [--seconds N] [--rate N] [--check] [--no-audit]`
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .story import run_demo


def main(
    directory: Annotated[Path, typer.Option(help="Where certificates, databases and logs go.")] = Path("demo"),
    seconds: Annotated[float, typer.Option(min=1.0, help="How long readings flow.")] = 32.0,
    rate: Annotated[float, typer.Option(min=1.0, help="Readings a second.")] = 2500.0,
    check: Annotated[bool, typer.Option("--check", help="Only judge the logs of an earlier run.")] = False,
    audit: Annotated[
        bool, typer.Option(help="Have Spark follow the readings into a table, audit the recordings, write a report.")
    ] = True,
) -> None:
    """Publish readings of this machine to subscribers and a Spark query, kill some of them, count what was lost."""
    raise typer.Exit(run_demo(directory, seconds, rate, check, audit))


if __name__ == "__main__":
    typer.run(main)
