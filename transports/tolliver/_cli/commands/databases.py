"""Commands that look into an instance's database, or change it."""

from __future__ import annotations

from json import dumps as as_json
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer

from .. import words
from ..box_tables import Kind
from ..helping import App, Leading
from .choices import Json, JsonResult, OfChannel, OfKey, OfPeer

app = App()


DatabaseFile = Annotated[Path, typer.Argument(help="The instance's database.", show_default=False)]
PeerId = Annotated[UUID, typer.Option("--peer", metavar="UUID", help="Whose messages.", show_default=False)]
_IN_USE = {1: "the instance is running, or it failed"}

peers = App(help="Peers that a database knows; without a command it lists them.", cls=Leading)
app.add_typer(peers, name="peers")


@peers.command("list", examples=("peers certs/bob.db", "peers certs/bob.db --json"))
def list_peers(database: DatabaseFile, json: Json = False) -> None:
    """List every peer that a database knows, and what it subscribes to. The instance may be running."""
    from ..outbox import print_peers

    print_peers(database, json)


@peers.command(examples=("peers forget certs/bob.db 01890000-0000-7000-8000-000000000001",), statuses=_IN_USE)
def forget(
    database: DatabaseFile,
    peer: Annotated[UUID, typer.Argument(metavar="UUID", help="Whom.", show_default=False)],
    json: JsonResult = False,
) -> None:
    """Forget a peer that will not come back: what waits for it, its subscriptions and its pinned key are removed. The
    instance must not be running."""
    from ..outbox import forget_peer

    count = forget_peer(database, peer)
    said = f"forgotten, and {words.count(count, 'message')} that waited for it"
    words.tell(json, f"{peer}: {said}", peer=str(peer), messages=count)


@app.command(examples=("check certs/bob.db",), statuses={1: "something is wrong with it, or it is in use"})
def check(database: DatabaseFile, json: Json = False) -> None:
    """Look for damage in a database, and read every message of it. Changes nothing, and works on a copy among the
    temporary files. The instance must not be running. Exit status 1 if anything is wrong."""
    from ..._store.inspection import inspect

    findings = inspect(database)
    for finding in findings:
        typer.echo(as_json({"finding": finding}) if json else words.line(finding))
    if findings:
        raise typer.Exit(1)
    if not json:
        typer.echo("nothing is wrong")


outbox = App(help="What waits in a database's outbox.")
app.add_typer(outbox, name="outbox")


@outbox.command("show", examples=("outbox show certs/bob.db",))
def show_outbox(database: DatabaseFile, json: Json = False) -> None:
    """Show how much waits for each peer, since when and why. The instance may be running."""
    from ..outbox import print_outbox

    print_outbox(database, json)


@outbox.command(
    "list",
    examples=(
        "outbox list certs/bob.db --older 1h",
        "outbox list certs/bob.db --peer 01890000-0000-7000-8000-000000000001 --limit 10 --json",
    ),
)
def list_outbox(
    database: DatabaseFile,
    peer: OfPeer = None,
    channel: OfChannel = "",
    key: OfKey = "",
    older: Annotated[
        str | None, typer.Option(metavar="SECONDS", help="Only those that are so old, such as 90s, 10m, 1h.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many for each peer.")] = 1000,
    json: Json = False,
) -> None:
    """List what was sent to whom and is not acknowledged: a line for each message and peer, with its age. The instance
    may be running."""
    from ..outbox import print_messages

    print_messages(database, peer, channel, key, older, limit, json)


@outbox.command(examples=("outbox retry certs/bob.db --peer 01890000-0000-7000-8000-000000000001",), statuses=_IN_USE)
def retry(database: DatabaseFile, peer: PeerId, json: JsonResult = False) -> None:
    """Send the messages parked for a peer once more. The instance must not be running."""
    from ..outbox import change

    count = change(database, peer, lambda node: node.retry(peer))
    said = f"{words.count(count, 'message')} parked for that peer: to be sent again when the instance runs"
    words.tell(json, said, peer=str(peer), messages=count)


@outbox.command(examples=("outbox drop certs/bob.db --peer 01890000-0000-7000-8000-000000000001",), statuses=_IN_USE)
def drop(database: DatabaseFile, peer: PeerId, json: JsonResult = False) -> None:
    """Give up the messages parked for a peer. The instance must not be running."""
    from ..outbox import change

    count = change(database, peer, lambda node: node.drop_parked(peer))
    said = f"{words.count(count, 'message')} parked for that peer: dropped"
    words.tell(json, said, peer=str(peer), messages=count)


letters = App(help="Dead letters of a database: messages that its handlers failed too often, or gave up.")
app.add_typer(letters, name="letters")
Numbers = Annotated[
    list[int] | None, typer.Argument(metavar="[NUMBER]...", help="Those of these numbers.", show_default=False)
]
FromPeer = Annotated[UUID | None, typer.Option("--peer", metavar="UUID", help="Only those that came from this peer.")]
Everything = Annotated[bool, typer.Option("--all", help="All of them.")]
Answer = Annotated[
    float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="For the answer of a running service.")
]


@letters.command("show", examples=("letters show certs/bob.db", "letters show certs/bob.db 3 --body"))
def show_letters(
    database: DatabaseFile,
    numbers: Numbers = None,
    peer: FromPeer = None,
    body: Annotated[bool, typer.Option("--body", help="With their bodies: escaped and cut, in JSON whole.")] = False,
    json: Json = False,
) -> None:
    """List dead letters: from whom, with which names, when and why. The instance may be running."""
    from ..letters import Which, print_letters

    print_letters(database, Which(numbers or (), peer), body, json)


@letters.command("export", examples=("letters export certs/bob.db > letters.jsonl",))
def export_letters(database: DatabaseFile, numbers: Numbers = None, peer: FromPeer = None) -> None:
    """Print dead letters with their bodies, a JSON line for each, as `listen --json` has messages. The instance may be
    running."""
    from ..letters import Which, export_letters

    export_letters(database, Which(numbers or (), peer))


@letters.command(
    "replay",
    examples=("letters replay certs/bob.db 3", "letters replay certs/bob.db --all --timeout 60"),
    statuses={1: "some are dead letters still, or it failed"},
)
def replay_letters(
    database: DatabaseFile,
    numbers: Numbers = None,
    peer: FromPeer = None,
    everything: Everything = False,
    timeout: Answer = 10.0,
    json: JsonResult = False,
) -> None:
    """Give dead letters to their destinations again: those that are handled well are gone. A `tolliver run` on this
    database does so at once, else when it starts."""
    from ..letters import Which, replay_letters

    _check_which(numbers, peer, everything)
    if not replay_letters(database, Which(numbers or (), peer), timeout, json):
        raise typer.Exit(1)


@letters.command("drop", examples=("letters drop certs/bob.db 1 2 3", "letters drop certs/bob.db --all"))
def drop_letters(
    database: DatabaseFile,
    numbers: Numbers = None,
    peer: FromPeer = None,
    everything: Everything = False,
    timeout: Answer = 10.0,
    json: JsonResult = False,
) -> None:
    """Give up dead letters. A `tolliver run` on this database may be running; another instance must not."""
    from ..letters import Which, drop_letters

    _check_which(numbers, peer, everything)
    count = drop_letters(database, Which(numbers or (), peer), timeout)
    words.tell(json, f"{words.count(count, 'dead letter')} dropped", letters=count)


def _check_which(numbers: list[int] | None, peer: UUID | None, everything: bool) -> None:
    if everything if numbers else not (everything or peer):
        raise ValueError("which ones? Give their numbers, or --peer PEER, or --all")


@outbox.command("restored", examples=("outbox restored certs/bob.db",), statuses=_IN_USE)
def say_restored(database: DatabaseFile, json: JsonResult = False) -> None:
    """Say that a database was put back from a copy. The instance must not be running."""
    from ..outbox import say_restored

    say_restored(database)
    said = f"{database} was put back: its message ids begin at another place, and nothing counts as missing"
    words.tell(json, said, database=str(database))


@app.command(examples=("backup certs/bob.db bob-copy.db",))
def backup(
    database: DatabaseFile,
    file: Annotated[Path, typer.Argument(help="The copy: a new file.", show_default=False)],
    json: JsonResult = False,
) -> None:
    """Copy a database to a new file. The instance may be running."""
    from ..._store.copying import back_up

    back_up(database, file)
    words.tell(json, f"{file}: a copy of {database}", database=str(database), copy=str(file))


Sort = Annotated[Kind, typer.Option("--database", help="The program's database.", metavar="sqlite|postgresql")]


@app.command("outbox-table", examples=("outbox-table", "outbox-table --database postgresql --table orders_outbox"))
def outbox_table(
    database: Sort = Kind.SQLITE,
    table: Annotated[str, typer.Option(metavar="NAME", help="The table's name.")] = "tolliver_outbox",
) -> None:
    """Print the SQL that makes the tables of an outbox in a program's own database."""
    from ..._boxes.outbox_table import statements
    from ..box_tables import script

    typer.echo(script(statements, table, database))


@app.command("inbox-table", examples=("inbox-table", "inbox-table --database postgresql > inbox.sql"))
def inbox_table(
    database: Sort = Kind.SQLITE,
    table: Annotated[str, typer.Option(metavar="NAME", help="The table's name.")] = "tolliver_inbox",
) -> None:
    """Print the SQL that makes the table of an inbox in a program's own database."""
    from ...inbox import statements
    from ..box_tables import script

    typer.echo(script(statements, table, database))
