"""Commands that Spark has a part in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import words
from ..helping import App
from .choices import Json, JsonResult

app = App()


@app.command(examples=("bundle tolliver.zip",))
def bundle(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.zip", help="The zip; one that is there goes.", show_default=False)
    ],
    json: JsonResult = False,
) -> None:
    """Write this package as a zip, for the workers of a Spark job: spark-submit --py-files FILE.zip."""
    from ..bundle import bundle as make

    made = make(file)
    said = f"{made.file}: {words.count(made.modules, 'file')}, {words.count(made.size, 'byte')}"
    words.tell(json, said, file=str(made.file), files=made.modules, bytes=made.size)


@app.command(
    examples=("audit recordings-of-alice recordings-of-bob --html report.html",),
    statuses={1: "a message is lost, or it failed"},
)
def audit(
    directories: Annotated[
        list[Path],
        typer.Argument(help="Recordings, or directories of them, of two or more instances.", show_default=False),
    ],
    *,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a report with charts: one HTML file.")
    ] = None,
    parquet: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write every table into this directory, as Parquet.")
    ] = None,
    json: Json = False,
) -> None:
    """Tell what became of every message, from the recordings of those who sent and received it. Exit status 1 if one is
    lost."""
    from ..audit import run_audit

    lost = run_audit(directories, html, parquet, json)
    words.say(f"lost = {lost:,}")
    if lost:
        raise typer.Exit(1)
