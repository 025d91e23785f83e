"""Commands and their options.

A command turns what was typed into values, calls one function and makes an exit status of its answer. The function is
imported when the command runs, so that `tolliver --help` does not wait for all that the others need.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from tolliver_proto import Revision, Subscription

from . import words
from .groups import grouped

if TYPE_CHECKING:
    from .connecting import Meeting, Place
    from .recordings import Filter
    from .schema import Schema

app = typer.Typer(
    name="tolliver",
    help="Brokerless messaging over mutual TLS: reliable messages between processes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_INTERRUPTED = 130  # as a shell expects it after SIGINT

Channel = Annotated[str, typer.Argument(help="The channel.", show_default=False)]
Key = Annotated[str, typer.Argument(help="The key.", show_default=False)]
Listen = Annotated[str | None, typer.Option("--listen", metavar="HOST:PORT", help="Let peers connect here.")]
Connect = Annotated[
    list[str] | None, typer.Option("--connect", "--to", metavar="HOST:PORT", help="Connect to this peer; repeatable.")
]
Database = Annotated[
    Path | None, typer.Option(help="The instance's database, made if missing (default: NAME.db in --certs).")
]
Certs = Annotated[Path | None, typer.Option(help="The directory that `tolliver certs` filled.")]
Name = Annotated[str | None, typer.Option(help="Which certificate of that directory is ours.")]
Cert = Annotated[Path | None, typer.Option(help="Our certificate (PEM), instead of --certs and --name.")]
KeyFile = Annotated[Path | None, typer.Option(help="Its private key (PEM).")]
Ca = Annotated[Path | None, typer.Option(help="The CA that signs every member (PEM).")]
Plaintext = Annotated[bool, typer.Option("--plaintext", help="No TLS: for a trial on one machine only.")]
Draft = Annotated[int, typer.Option("--revision", min=1, max=2, help="The draft whose wire layout is spoken.")]
Trio = Annotated[bool, typer.Option("--trio", help="Run on trio instead of asyncio.")]
Json = Annotated[bool, typer.Option("--json", help="JSON lines, bodies in base64.")]
Wait = Annotated[bool, typer.Option(help="Wait until every recipient has acknowledged everything.")]
Timeout = Annotated[float, typer.Option(min=0.0, help="Seconds to wait for a peer, and for each next ack.")]

AccessRules = Annotated[
    Path | None, typer.Option("--acl", help="Access rules (TOML); listen and stage read them again on SIGHUP.")
]

Record = Annotated[
    Path | None, typer.Option(help="Record what goes over the wire into this directory, bodies in plaintext.")
]


def _meeting(
    at: Listen = None,
    connect: Connect = None,
    certs: Certs = None,
    name: Name = None,
    cert: Cert = None,
    key_file: KeyFile = None,
    ca: Ca = None,
    plaintext: Plaintext = False,
    acl: AccessRules = None,
) -> Meeting:
    from .connecting import Meeting

    return Meeting(
        listen=at,
        connect=connect or [],
        certs=certs,
        name=name,
        cert=cert,
        key_file=key_file,
        ca=ca,
        plaintext=plaintext,
        acl=acl,
    )


UnreliableId = Annotated[
    int | None, typer.Option("--unreliable-id", metavar="ID", help="The id of unreliable messages (2147483647).")
]
StrictUuid7 = Annotated[bool, typer.Option("--strict-uuid7", help="Take only peers whose UUID has version 7.")]
AcceptEither = Annotated[bool, typer.Option("--accept-either", help="Read subscriptions as draft 1 has them, too.")]


def _habits(
    unreliable_id: UnreliableId = None, strict_uuid7: StrictUuid7 = False, accept_either: AcceptEither = False
) -> dict[str, Any]:
    """Dialect of all peers, as options of an instance."""
    return {"unreliable_id": unreliable_id, "strict_uuid7": strict_uuid7, "accept_either": accept_either}


@grouped(meeting=_meeting, habits=_habits)
def _place(
    *,
    meeting: Meeting,
    database: Database = None,
    revision: Draft = 2,
    habits: dict[str, Any],
    record: Record = None,
) -> Place:
    from .connecting import Place

    return Place(meeting=meeting, database=database, revision=Revision(revision), habits=habits, record=record)


Proto = Annotated[
    list[Path] | None, typer.Option("--proto", metavar="FILE", help="A .proto file that describes --type; repeatable.")
]
Include = Annotated[
    list[Path] | None, typer.Option("--proto-path", metavar="DIR", help="Where its imports are, too; repeatable.")
]
Descriptors = Annotated[
    Path | None, typer.Option("--descriptors", metavar="FILE", help="A descriptor set that describes it, instead.")
]
Type = Annotated[
    str | None, typer.Option("--type", help="The bodies are protobuf messages of this type, and JSON here.")
]


def _schema(
    proto: Proto = None, proto_path: Include = None, descriptors: Descriptors = None, kind: Type = None
) -> Schema:
    from .schema import Schema

    return Schema(proto=proto or [], include=proto_path or [], descriptors=descriptors, type=kind)


class Way(StrEnum):
    """The directions of a recording, as they are typed."""

    IN = "in"
    OUT = "out"


def _time(text: str) -> int:
    from .recordings import nanoseconds

    try:
        return nanoseconds(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


OfPeer = Annotated[UUID | None, typer.Option("--peer", help="Only from or to this peer.")]
OfChannel = Annotated[str, typer.Option("--channel", help='Only this channel; "" is any.')]
OfKey = Annotated[str, typer.Option("--key", help='Only this key; "" is any.')]
Since = Annotated[
    Any, typer.Option("--since", parser=_time, metavar="TIME", help="From then on: ISO 8601, or seconds since 1970.")
]
Until = Annotated[Any, typer.Option("--until", parser=_time, metavar="TIME", help="Before then.")]
OfDirection = Annotated[Way | None, typer.Option("--direction", help="Only what came in, or what went out.")]


def _filter(
    peer: OfPeer = None,
    channel: OfChannel = "",
    key: OfKey = "",
    since: Since = None,
    until: Until = None,
    direction: OfDirection = None,
) -> Filter:
    from tolliver_proto.recording import Direction

    from .recordings import Filter

    way = None if direction is None else Direction[direction.name]
    return Filter(peer=peer, channel=channel, key=key, since=since, until=until, direction=way)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version  # a tenth of what every start takes

        try:
            typer.echo(f"tolliver {version('tolliver-proto')}")
        except PackageNotFoundError:  # run from a zip or a bare checkout
            typer.echo("tolliver, not installed as a package")
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Brokerless messaging over mutual TLS: reliable messages between processes."""
    # Names and bodies may hold characters that the terminal's encoding does not have.
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # TextIOWrappers, both


@app.command()
def certs(
    directory: Annotated[Path, typer.Argument(help="Where the files go.", show_default=False)],
    names: Annotated[list[str], typer.Argument(help="An instance's name, for its file names.", show_default=False)],
    host: Annotated[
        list[str] | None,
        typer.Option(help="A name or address under which others dial it; repeatable (default: this machine)."),
    ] = None,
    days: Annotated[int, typer.Option(min=1, help="How long the certificates are valid.")] = 365,
    uuid: Annotated[UUID | None, typer.Option(help="The UUID, for a single name (default: a new one).")] = None,
    derive: Annotated[
        bool, typer.Option("--derive", help="For a job's many writers: identities may be derived from it.")
    ] = False,
) -> None:
    """Make a private CA, if the directory has none, and a certificate for each name. Overwrites nothing."""
    from .certificates import make

    with words.clear_errors():
        make(directory, names, host or [], days, uuid, derive)


@app.command()
def pin(
    files: Annotated[list[Path], typer.Argument(help="Certificates (PEM).", show_default=False)],
) -> None:
    """Print what to pin of each certificate: the SHA-256 of its key, for Remote(spki_sha256=...), and its names."""
    from .certificates import show_pins

    with words.clear_errors():
        show_pins(files)


@app.command()
@grouped(place=_place, schema=_schema)
def listen(
    *,
    channel: Annotated[list[str] | None, typer.Option(help="A channel; repeatable (default: any).")] = None,
    key: Annotated[list[str] | None, typer.Option(help="A key of each channel; repeatable (default: any).")] = None,
    place: Place,
    json: Json = False,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many messages.")] = None,
    only: Annotated[bool, typer.Option("--only", help="Unsubscribe from what earlier runs asked for.")] = False,
    schema: Schema,
    trio: Trio = False,
) -> None:
    """Subscribe and print what arrives; acknowledge each message once it is printed. Ctrl-C ends in order."""
    from . import listen as listening
    from .connecting import run

    with words.clear_errors(), _interruptible(0):
        bodies = schema.bodies()
        plain = listening.as_json if json else listening.as_text
        show = plain if bodies is None else partial(plain, value=bodies.decode)
        wanted = [Subscription(*one) for one in product(channel or [""], key or [""])]
        run(
            partial(
                listening.listen,
                place.options(dial=False),
                place.remotes,
                wanted,
                only,
                count,
                show,
                place.meeting.acl,
                None if bodies is None else bodies.codec,
            ),
            trio,
        )


@app.command()
@grouped(place=_place, schema=_schema)
def send(
    channel: Channel,
    key: Key,
    body: Annotated[
        str | None, typer.Argument(help='The message, or "-": each line of standard input.', show_default=False)
    ] = None,
    *,
    file: Annotated[Path | None, typer.Option(help="Send each line of this file instead.")] = None,
    place: Place,
    unreliable: Annotated[bool, typer.Option("--unreliable", help="Not stored, not acknowledged.")] = False,
    peer: Annotated[list[UUID] | None, typer.Option(help="Only to this peer; repeatable (default: any).")] = None,
    schema: Schema,
    wait: Wait = True,
    timeout: Timeout = 30.0,
    trio: Trio = False,
) -> None:
    """Send a message, or each line of a file, to whoever subscribes. Exit status 1 if anything reliable was not
    stored, or not acknowledged."""
    from . import send as sending
    from .connecting import run

    with words.clear_errors(), _interruptible(_INTERRUPTED):
        if (body is None) is (file is None):
            raise ValueError('what is to be sent? Give a BODY, or --file FILE, or "-" for the lines of standard input')
        source = file if body is None else None if body == "-" else os.fsencode(body)
        bodies = schema.bodies()
        job = sending.job_of_lines(
            channel,
            key,
            source,
            reliable=not unreliable,
            waits=wait,
            timeout=timeout,
            to=peer or None,
            encode=None if bodies is None else bodies.encode,
        )
        with place.once(waits=job.waits or unreliable) as options:
            complete = sending.send_and_report(job, partial(run, trio=trio), options)
        if not complete:
            raise typer.Exit(1)


class Unreliable(StrEnum):
    """Handling of messages that come unreliably, as it is typed."""

    KEEP = "keep"
    DROP = "drop"


@app.command()
@grouped(meeting=_meeting, habits=_habits)
def stage(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The stage, made if missing.", show_default=False)],
    *,
    channel: Annotated[
        list[str] | None, typer.Option("--channel", help="A channel; repeatable (default: any).")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", help="A key, or with a * at its end all that begin so; repeatable (default: any)."),
    ] = None,
    unreliable: Annotated[
        Unreliable, typer.Option("--unreliable", help="Whether what comes unreliably is staged too.")
    ] = Unreliable.KEEP,
    max_bytes: Annotated[
        int | None, typer.Option(min=2, metavar="BYTES", help="No more is taken while so much is staged (4 GiB).")
    ] = None,
    full_timeout: Annotated[
        float, typer.Option(min=0.0, metavar="SECONDS", help="For how long the disk may take nothing.")
    ] = 60.0,
    meeting: Meeting,
    revision: Draft = 2,
    habits: dict[str, Any],
) -> None:
    """Receive into a stage, from which others read: each message is acknowledged once it is on the disk there. Ctrl-C
    ends in order; exit status 1 if the disk takes nothing for too long."""
    from .connecting import run
    from .stage import stage_and_report, stage_options

    with words.clear_errors(), _interruptible(0):
        chosen: dict[str, Any] = {} if max_bytes is None else {"max_staged_bytes": max_bytes}
        options = stage_options(
            meeting,
            channel or [""],
            key or [""],
            directory=directory,
            unreliable=unreliable.value,
            full_timeout=full_timeout,
            revision=Revision(revision),
            **habits,
            **chosen,
        )
        stage_and_report(options, partial(run, trio=False), meeting.acl)


@app.command()
@grouped(meeting=_meeting)
def publish(
    file: Annotated[
        str, typer.Argument(help='The file; "-" is standard input, for one subscriber.', show_default=False)
    ],
    *,
    stream_name: Annotated[str, typer.Option("--as", metavar="NAME", help="The name that subscribers ask for.")],
    record_size: Annotated[
        int | None, typer.Option(min=1, metavar="BYTES", help="Elements of so many bytes each (default: lines).")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="At the end of the file, wait for what is added.")] = False,
    meeting: Meeting,
    trio: Trio = False,
) -> None:
    """Publish the lines of a file as a stream: each subscriber reads it from its beginning, as fast as it wants.
    Listens on 127.0.0.1, port 7012, if nothing else is said. Ctrl-C ends in order."""
    from . import publish as publishing
    from .connecting import run
    from .watching import options_of, remotes_of

    with words.clear_errors(), _interruptible(0):
        content = publishing.Content(file=None if file == "-" else Path(file), record_size=record_size, follow=follow)
        content.check()
        options = options_of(meeting, publishing.LISTEN)
        run(partial(publishing.publish, options, remotes_of(meeting), stream_name, content), trio)


@app.command()
@grouped(meeting=_meeting)
def stream(
    stream_name: Annotated[str, typer.Argument(metavar="NAME", help="The stream's name.", show_default=False)],
    *,
    demand: Annotated[int, typer.Option(min=1, metavar="N", help="So many elements may be on their way.")] = 256,
    count: Annotated[int | None, typer.Option(min=1, metavar="N", help="End after so many elements.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Write elements as they are, with nothing between them.")] = False,
    as_hex: Annotated[bool, typer.Option("--hex", help="Write each as a line of hexadecimal digits.")] = False,
    meeting: Meeting,
    trio: Trio = False,
) -> None:
    """Subscribe to a stream of a peer and write its elements as lines. With --listen in place of --connect it is the
    peer that connects. Exit status 1 if the stream ends with an error."""
    from . import stream as streaming
    from .connecting import run
    from .watching import options_of, remotes_of

    with words.clear_errors(), _interruptible(_INTERRUPTED):
        if raw and as_hex:
            raise ValueError("--raw and --hex: give one of them, or none for lines")
        if (meeting.listen is not None) + len(meeting.connect) != 1:
            raise ValueError("which peer has it? Give one --connect HOST:PORT, or --listen HOST:PORT for it to come")
        written = streaming.written_as(raw=raw, as_hex=as_hex)
        options, remotes = options_of(meeting), remotes_of(meeting)
        job = streaming.Job(name=stream_name, demand=demand, count=count, written=written)
        streaming.stream_and_report(job, options, remotes, partial(run, trio=trio))


@contextmanager
def _interruptible(status: int) -> Iterator[None]:
    from .connecting import Interrupted

    try:
        yield
    except Interrupted:
        if status:
            words.say("interrupted")
        raise typer.Exit(status) from None


Recordings = Annotated[
    list[Path], typer.Argument(help="Recordings, or directories of them.", show_default=False, metavar="FILE|DIR")
]


@app.command()
@grouped(wanted=_filter)
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
    revision: Annotated[int, typer.Option("--revision", min=1, max=2, help="The draft of raw bytes.")] = 2,
    json: Json = False,
) -> None:
    """Show the frames of recordings or of a stream, as a table or as JSON lines. Exit status 1 if anything of it is
    malformed, damaged or cut."""
    from .decode import print_file
    from .recordings import files_in

    with words.clear_errors():
        bad = [file for file in files_in(files) if not print_file(file, Revision(revision), json, wanted)]
        if bad:
            raise typer.Exit(1)


@app.command()
@grouped(place=_place, wanted=_filter)
def replay(
    files: Recordings,
    *,
    place: Place,
    wanted: Filter,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Messages a second (default: as fast as it goes).")
    ] = None,
    wait: Wait = True,
    timeout: Timeout = 30.0,
    trio: Trio = False,
) -> None:
    """Send the messages of recordings again, to whoever subscribes now: those that went out, or with --direction in
    those that came in. Exit status 1 as for `send`, and if a recording is damaged."""
    from . import send as sending
    from .connecting import run
    from .recordings import files_in
    from .replay import job_of_recordings

    with words.clear_errors(), _interruptible(_INTERRUPTED):
        failures: list[str] = []
        job = job_of_recordings(files_in(files), wanted, failures, rate=rate, waits=wait, timeout=timeout)
        with place.once(waits=wait) as options:
            complete = sending.send_and_report(job, partial(run, trio=trio), options)
        for failure in failures:
            words.say(failure)
        if failures or not complete:
            raise typer.Exit(1)


DatabaseFile = Annotated[Path, typer.Argument(help="The instance's database.", show_default=False)]
PeerId = Annotated[UUID, typer.Option("--peer", help="Whose messages.", show_default=False)]


@app.command()
def peers(database: DatabaseFile, json: Json = False) -> None:
    """Every peer that a database knows, and what it subscribes to. The instance may be running."""
    from .outbox import print_peers

    with words.clear_errors():
        print_peers(database, json)


@app.command()
def check(database: DatabaseFile, json: Json = False) -> None:
    """Look for damage in a database, and read every message of it. Changes nothing, and works on a copy among the
    temporary files. The instance must not be running. Exit status 1 if anything is wrong."""
    from .check import print_check

    with words.clear_errors():
        if not print_check(database, json):
            raise typer.Exit(1)


outbox = typer.Typer(help="What waits in a database's outbox.", no_args_is_help=True)
app.add_typer(outbox, name="outbox")


@outbox.command("show")
def show_outbox(database: DatabaseFile, json: Json = False) -> None:
    """List the messages that wait, for whom, since when and why. The instance may be running."""
    from .outbox import print_outbox

    with words.clear_errors():
        print_outbox(database, json)


@outbox.command()
def retry(database: DatabaseFile, peer: PeerId) -> None:
    """Send what was set aside for a peer once more. The instance must not be running."""
    from .outbox import retry_parked

    with words.clear_errors():
        count = words.count(retry_parked(database, peer), "message")
        words.say(f"{count} set aside for that peer: to be sent again when the instance runs")


@outbox.command()
def drop(database: DatabaseFile, peer: PeerId) -> None:
    """Give up what was set aside for a peer. The instance must not be running."""
    from .outbox import drop_parked

    with words.clear_errors():
        words.say(f"{words.count(drop_parked(database, peer), 'message')} set aside for that peer: dropped")


letters = typer.Typer(
    help="Dead letters of a database: messages that its handlers failed too often.", no_args_is_help=True
)
app.add_typer(letters, name="letters")


@letters.command("show")
def show_letters(database: DatabaseFile, json: Json = False) -> None:
    """List the dead letters, without their bodies. The instance may be running."""
    from .outbox import print_letters

    with words.clear_errors():
        print_letters(database, json)


@letters.command("drop")
def drop_letters(
    database: DatabaseFile,
    numbers: Annotated[list[int] | None, typer.Argument(help="Those of these numbers.", show_default=False)] = None,
    peer: Annotated[UUID | None, typer.Option("--peer", help="Only those that came from this peer.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
) -> None:
    """Give up dead letters. The instance must not be running."""
    from .outbox import drop_letters

    with words.clear_errors():
        if everything if numbers else not (everything or peer):
            raise ValueError("which ones? Give their numbers, or --peer PEER, or --all")
        count = drop_letters(database, numbers or None, peer)
        words.say(f"{words.count(count, 'dead letter')} dropped")


@outbox.command("restored")
def say_restored(database: DatabaseFile) -> None:
    """Say that a database was put back from a copy. The instance must not be running."""
    from .outbox import say_restored

    with words.clear_errors():
        say_restored(database)
        words.say(f"{database} was put back: its message ids begin at another place, and nothing counts as missing")


@app.command()
def backup(
    database: DatabaseFile,
    file: Annotated[Path, typer.Argument(help="The copy: a new file.", show_default=False)],
) -> None:
    """Copy a database to a new file. The instance may be running."""
    from .outbox import back_up

    with words.clear_errors():
        back_up(database, file)
        words.say(f"{file}: a copy of {database}")


@app.command()
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
) -> None:
    """Tell what became of every message, from the recordings of those who sent and received it, by Spark. Exit status 1
    if one is lost."""
    from .audit import run_audit

    with words.clear_errors():
        lost = run_audit(directories, html, parquet)
        words.say(f"lost = {lost:,}")
        if lost:
            raise typer.Exit(1)
