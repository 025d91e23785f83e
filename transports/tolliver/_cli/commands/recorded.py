"""Commands that read recordings, and the dissector of captures."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tolliver_proto import Revision

from .. import words
from ..groups import grouped
from ..helping import App
from .choices import (
    FROM_BOB,
    INTERRUPTIBLE,
    Json,
    JsonResult,
    Layout,
    Timeout,
    Trio,
    Wait,
    filter_of,
    interruptible,
    place_of,
)

if TYPE_CHECKING:
    from ..connecting import Place
    from ..recordings import Filter

app = App()


Recordings = Annotated[
    list[Path], typer.Argument(help="Recordings, or directories of them.", show_default=False, metavar="FILE|DIR")
]


@app.command(
    examples=("decode recordings --direction out --channel weather", "decode --json recorded.bin --revision 1"),
    statuses={1: "something is malformed, damaged or cut"},
)
@grouped(wanted=filter_of)
def decode(
    files: Annotated[
        list[Path],
        typer.Argument(
            help='Recordings, directories of them, or raw bytes of one direction; "-" is standard input.',
            show_default=False,
        ),
    ],
    *,
    wanted: Filter,
    revision: Layout = Revision.DRAFT_2,
    json: Json = False,
) -> None:
    """Show the frames of recordings or of a stream, as a table or as JSON lines. Exit status 1 if anything of it is
    malformed, damaged or cut."""
    from ..decode import print_file
    from ..recordings import files_in

    bad = [file for file in files_in(files) if not print_file(file, revision, json, wanted)]
    if bad:
        raise typer.Exit(1)


@app.command(
    examples=(f"replay recordings --rate 100 {FROM_BOB}",),
    statuses={1: "as for send, or a recording is damaged"} | INTERRUPTIBLE,
)
@grouped(place=place_of, wanted=filter_of)
def replay(
    files: Recordings,
    *,
    place: Place,
    wanted: Filter,
    rate: Annotated[
        float | None, typer.Option(min=0.001, metavar="N", help="Messages a second (default: as fast as it goes).")
    ] = None,
    wait: Wait = True,
    timeout: Timeout = 30.0,
    json: JsonResult = False,
    trio: Trio = False,
) -> None:
    """Send the messages of recordings again, to those who subscribe now: those that went out, or with --direction in
    those that came in. Exit status 1 as for `send`, and if a recording is damaged."""
    from .. import send as sending
    from ..connecting import run
    from ..recordings import files_in
    from ..replay import job_of_recordings

    with interruptible(in_order=False):
        failures: list[str] = []
        keeps = place.database is not None
        job = job_of_recordings(files_in(files), wanted, failures, rate=rate, waits=wait, timeout=timeout, keeps=keeps)
        with place.once(waits=wait, usual=sending.USUAL) as options:
            work = partial(run, trio=trio, watches=True, ends_refused=True)
            complete = sending.send_and_report(job, work, options, json)
        for failure in failures:
            words.say(failure)
        if failures or not complete:
            raise typer.Exit(1)


recordings = App(help="Recordings in other forms.")
app.add_typer(recordings, name="recordings")


@recordings.command(
    "export",
    examples=("recordings export recordings --pcapng capture.pcapng",),
    statuses={1: "a recording is damaged, or the file cannot be written"},
)
def export_recordings(
    files: Recordings,
    *,
    json: JsonResult = False,
    pcapng: Annotated[
        Path,
        typer.Option("--pcapng", metavar="FILE", help='A new capture; "-" is standard output.', show_default=False),
    ],
) -> None:
    """Write recordings as a capture for Wireshark, bodies in plaintext. Exit status 1 if anything is damaged."""
    from ..export import export
    from ..recordings import files_in

    done = export(files_in(files), pcapng)
    for failure in done.failures:
        words.say(failure)
    said = f"{words.count(done.connections, 'connection')}, {words.count(done.blocks, 'block')}"
    words.tell(json, said, connections=done.connections, blocks=done.blocks)
    for revision in sorted(done.revisions - {Revision.DRAFT_2}):
        words.say(f"the layout {revision.name} may have to be said: wireshark -o tolliver.layout:{revision.name}")
    if done.failures:
        raise typer.Exit(1)


@app.command(examples=("wireshark --install", "wireshark > tolliver.lua"))
def wireshark(
    *,
    install: Annotated[bool, typer.Option("--install", help="Write it where Wireshark looks for it.")] = False,
    to: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Another folder than that of your own plugins.")
    ] = None,
    json: JsonResult = False,
) -> None:
    """Print the Wireshark dissector, a Lua script, or install it."""
    from .. import wireshark as dissecting

    if install or to is not None:
        file = dissecting.install(to or dissecting.plugins())
        words.tell(json, f"{file}: Wireshark and tshark load it when they start", file=str(file))
    else:
        sys.stdout.write(dissecting.dissector())


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
