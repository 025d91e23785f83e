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

from tolliver_proto import Revision, Subscription, __version__

from .._options.table import TABLE
from . import words
from .flags import flags
from .groups import grouped
from .helping import App, Leading
from .measures import Kind

if TYPE_CHECKING:
    from .connecting import Meeting, Place
    from .recordings import Filter
    from .schema import Schema

app = App(name="tolliver", help="Brokerless messaging over mutual TLS: reliable messages between processes.")

_INTERRUPTED = 130  # as a shell expects it after SIGINT
_INTERRUPTIBLE = {_INTERRUPTED: "Ctrl-C, or SIGTERM"}
_FROM_BOB = "--certs certs --name bob --database certs/bob.db --connect 127.0.0.1:7011"

Channel = Annotated[str, typer.Argument(help="The channel.", show_default=False)]
Key = Annotated[str, typer.Argument(help="The key.", show_default=False)]
Listen = Annotated[str | None, typer.Option("--listen", metavar="HOST:PORT", help="Let peers connect here.")]
Connect = Annotated[
    list[str] | None,
    typer.Option(
        "--connect",
        "--to",
        metavar="[PEER@]HOST:PORT",
        help="Connect to this peer, with its UUID or the SHA-256 of its key in front to no other; repeatable.",
    ),
]
Spki = Annotated[
    str | None, typer.Option("--spki", metavar="HEX", help="The SHA-256 of that peer's key, as `tolliver pin` has it.")
]
Database = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The instance's database, made if missing (default: NAME.db in --certs)."),
]
Certs = Annotated[Path | None, typer.Option(metavar="DIR", help="The directory that `tolliver certs` filled.")]
Name = Annotated[str | None, typer.Option(metavar="NAME", help="Which certificate of that directory is ours.")]
Cert = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Our certificate (PEM), instead of --certs and --name.")
]
KeyFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Its private key (PEM).")]
Ca = Annotated[Path | None, typer.Option(metavar="FILE", help="The CA that signs every member (PEM).")]
Plaintext = Annotated[bool, typer.Option("--plaintext", help="No TLS: for a trial on one machine only.")]


def _layout(text: str | Revision) -> Revision:
    from .._options.kinds import LAYOUTS

    if isinstance(text, Revision):  # the default
        return text
    if text not in LAYOUTS:
        raise typer.BadParameter(f"{text!r} is no layout: give one of {', '.join(LAYOUTS)}")
    return LAYOUTS[text]


Layout = Annotated[
    Any,
    typer.Option(
        "--revision",
        parser=_layout,
        metavar="LAYOUT",
        help="The wire layout: 1 or 2, or that of another program (docs/foreign.md).",
    ),
]
Trio = Annotated[bool, typer.Option("--trio", help="Run on trio instead of asyncio.")]
Json = Annotated[bool, typer.Option("--json", help="JSON lines, bodies in base64.")]
JsonResult = Annotated[bool, typer.Option("--json", help="The result as JSON.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until every recipient has acknowledged everything.")]
Timeout = Annotated[
    float, typer.Option(min=0.0, metavar="SECONDS", help="How long to wait for a peer, and for each next ack.")
]

AccessRules = Annotated[
    Path | None,
    typer.Option("--acl", metavar="FILE", help="Access rules (TOML); listen and stage read them again on SIGHUP."),
]

Record = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Record what goes over the wire into this directory, bodies in plaintext."),
]

_SAID = {"listen", "remotes", "database", "subscriptions", "plaintext", "acl", "record", "revision"}
"""Options of the table that have flags of their own."""
_STAGED = {"unreliable_id", "strict_uuid7", "accept_either", "dialects"}
_of_tls = flags(["tls.crl", "tls.insecure_ca_only", "tls.tls12", "tls.keylog"])
_of_instance = flags([key for key in TABLE if key not in _SAID and not key.startswith("tls.")])
_of_stage = flags([key for key in TABLE if key in _STAGED or key.startswith("limits.")])


@grouped(tls_flags=_of_tls)
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
    spki: Spki = None,
    *,
    tls_flags: dict[str, Any],
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
        spki=spki,
        tls_flags=tls_flags,
    )


@grouped(meeting=_meeting, chosen=_of_instance)
def _place(
    *,
    meeting: Meeting,
    database: Database = None,
    revision: Layout = Revision.DRAFT_2,
    record: Record = None,
    chosen: dict[str, Any],
) -> Place:
    from .connecting import Place

    return Place(meeting=meeting, database=database, revision=revision, flags=chosen, record=record)


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
    str | None,
    typer.Option("--type", metavar="NAME", help="The bodies are protobuf messages of this type, and JSON here."),
]


def _schema(
    proto: Proto = None, proto_path: Include = None, descriptors: Descriptors = None, kind: Type = None
) -> Schema:
    from .schema import Schema

    return Schema(proto=proto or [], include=proto_path or [], descriptors=descriptors, type=kind)


@grouped(tls_flags=_of_tls)
def _identity(
    certs: Certs = None,
    name: Name = None,
    cert: Cert = None,
    key_file: KeyFile = None,
    ca: Ca = None,
    plaintext: Plaintext = False,
    *,
    tls_flags: dict[str, Any],
) -> Meeting | None:
    """Identity as for other commands; None where none is given."""
    if not any((certs, name, cert, key_file, ca, plaintext)):
        return None
    from .connecting import Meeting

    return Meeting(
        listen=None,
        connect=[],
        certs=certs,
        name=name,
        cert=cert,
        key_file=key_file,
        ca=ca,
        plaintext=plaintext,
        acl=None,
        spki=None,
        tls_flags=tls_flags,
    )


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


OfPeer = Annotated[UUID | None, typer.Option("--peer", metavar="UUID", help="Only from or to this peer.")]
OfChannel = Annotated[str, typer.Option("--channel", metavar="CHANNEL", help='Only this channel; "" is any.')]
OfKey = Annotated[str, typer.Option("--key", metavar="KEY", help='Only this key; "" is any.')]
Since = Annotated[
    Any, typer.Option("--since", parser=_time, metavar="TIME", help="From then on: ISO 8601, or seconds since 1970.")
]
Until = Annotated[Any, typer.Option("--until", parser=_time, metavar="TIME", help="Before then.")]
OfDirection = Annotated[
    Way | None, typer.Option("--direction", metavar="in|out", help="Only what came in, or what went out.")
]


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
        typer.echo(f"tolliver {__version__}")
        raise typer.Exit


@app.callback()
def main(
    _version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Standard error in JSON lines, one for each record of the log.")
    ] = False,
    log_level: Annotated[
        words.Level, typer.Option(metavar="debug|info|warning|error", help="The least that is logged there.")
    ] = words.Level.WARNING,
) -> None:
    """Brokerless messaging over mutual TLS: reliable messages between processes."""
    words.write_stderr(log_json, log_level)
    # Names and bodies may hold characters that the terminal's encoding does not have.
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # TextIOWrappers, both


@app.command(
    examples=("certs certs alice bob", "certs certs alice --host alice.example --host 10.0.0.7 --json"),
    statuses={1: "a file is there already, which is not overwritten, or it cannot be made"},
)
def certs(
    directory: Annotated[Path, typer.Argument(help="Where the files go.", show_default=False)],
    names: Annotated[list[str], typer.Argument(help="An instance's name, for its file names.", show_default=False)],
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST",
            help="A name or address under which others dial it; repeatable (default: this machine, and localhost).",
        ),
    ] = None,
    days: Annotated[int, typer.Option(min=1, metavar="N", help="How long the certificates are valid.")] = 365,
    uuid: Annotated[
        UUID | None, typer.Option(metavar="UUID", help="The UUID, for a single name (default: a new one).")
    ] = None,
    derive: Annotated[
        bool, typer.Option("--derive", help="For a job's many writers: identities may be derived from it.")
    ] = False,
    json: JsonResult = False,
) -> None:
    """Make a private CA, if the directory has none, and a certificate for each name. Overwrites nothing. Prints of each
    its UUID, the names under which it is dialled, the SHA-256 of its key and when it expires."""
    from .certificates import make

    with words.clear_errors():
        make(directory, names, host or [], days, uuid, derive, json)


@app.command(examples=("revoke certs certs/bob.pem", "revoke certs --days 7"))
def revoke(
    directory: Annotated[Path, typer.Argument(help="Where the CA is.", show_default=False)],
    files: Annotated[list[Path] | None, typer.Argument(help="Certificates (PEM).", show_default=False)] = None,
    days: Annotated[int, typer.Option(min=1, metavar="N", help="How long the list is valid.")] = 30,
    json: JsonResult = False,
) -> None:
    """Write crl.pem, the list of revoked certificates, for --tls-crl: with these and those that it had before. Sign it
    anew before it expires."""
    from ..certs import revoke

    with words.clear_errors():
        path = revoke(directory, files or (), days)
        words.tell(json, f"{path} is signed anew; instances read it with reload_tls() or SIGHUP", crl=str(path))


@app.command(examples=("pin certs/alice.pem", "pin certs/*.pem --json"))
def pin(
    files: Annotated[list[Path], typer.Argument(help="Certificates (PEM).", show_default=False)],
    json: JsonResult = False,
) -> None:
    """Print what to pin of each certificate: the SHA-256 of its key, for --spki or Remote(spki_sha256=...), and its
    names."""
    from .certificates import show_pins

    with words.clear_errors():
        show_pins(files, json)


@app.command(examples=("options", "options --json"))
def options(json: JsonResult = False) -> None:
    """List every option of an instance: its flag, its key in a file, its default. They are flags of listen, send and
    replay."""
    from .config import print_options

    with words.clear_errors():
        print_options(json)


@app.command(
    examples=("run alice.toml",),
    statuses={0: "SIGTERM, or Ctrl-C", 1: "the file is wrong, or it failed"},
)
def run(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The file (TOML).", show_default=False)],
    json: JsonResult = False,
    trio: Trio = False,
) -> None:
    """Run an instance as one file says: where it listens, whom it dials, and where messages go, to a file or to a
    command for each. SIGHUP reads the file, certificates and access rules again."""
    from .config import load
    from .connecting import run
    from .service import serve

    with words.clear_errors(), _interruptible(0):
        run(partial(serve, load(config), json), trio, watches=True)


config = App(help="Files for `tolliver run`.")
app.add_typer(config, name="config")
ConfigFile = Annotated[Path, typer.Argument(metavar="CONFIG", help="The file (TOML).", show_default=False)]


@config.command("check", examples=("config check alice.toml",), statuses={1: "something is wrong with it"})
def check_config(config: ConfigFile, json: JsonResult = False) -> None:
    """Check a file as `tolliver run` would: every key, every value, and the files that it names. Opens no database."""
    from .config import check

    with words.clear_errors():
        keys = check(config)
        words.tell(
            json, f"{config}: nothing is wrong, {words.count(len(keys), 'option')} set", config=str(config), set=keys
        )


@config.command("example", examples=("config example > alice.toml",))
def show_example() -> None:
    """Print a file with every option there is, its default and its purpose; those that are not needed as comments."""
    from .config import example

    typer.echo(example(), nl=False)


@config.command("keys", examples=("config keys",))
def list_keys(json: JsonResult = False) -> None:
    """List every key of a file, with its default."""
    from .config import print_keys

    with words.clear_errors():
        print_keys(json)


@config.command("schema", examples=("config schema > tolliver.schema.json",))
def show_schema() -> None:
    """Print the JSON schema of such a file, for editors."""
    from .config import schema

    typer.echo(schema())


class Shell(StrEnum):
    """Shells whose completion is known."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@app.command(examples=("completion bash > ~/.local/share/bash-completion/completions/tolliver",))
def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="Whose script.", show_default=False)],
) -> None:
    """Print a script that completes commands and options in a shell. `tolliver --install-completion` puts it where
    your own shell looks."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # since 0.4, and not its own

    typer.echo(get_completion_script(prog_name="tolliver", complete_var="_TOLLIVER_COMPLETE", shell=shell.value))


@app.command(
    examples=(
        "listen --listen 127.0.0.1:7011 --certs certs --name alice --channel weather --channel tides",
        "listen --connect 127.0.0.1:7011 --certs certs --name alice --json --count 1 --dedupe 1000",
    ),
    statuses={0: "Ctrl-C, or --count messages were printed"},
)
@grouped(place=_place, schema=_schema)
def listen(
    *,
    channel: Annotated[
        list[str] | None, typer.Option(metavar="CHANNEL", help="A channel; repeatable (default: any).")
    ] = None,
    key: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="A key of each channel; repeatable (default: any).")
    ] = None,
    place: Place,
    json: Json = False,
    count: Annotated[int | None, typer.Option(min=1, metavar="N", help="End after so many messages.")] = None,
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


@app.command(
    examples=(
        f"send weather berlin '21 degrees' {_FROM_BOB}",
        f"send weather file --file lines.txt {_FROM_BOB} --quota-policy skip",
    ),
    statuses={1: "something reliable was not stored, or not acknowledged, or it failed"} | _INTERRUPTIBLE,
)
@grouped(place=_place, schema=_schema)
def send(
    channel: Channel,
    key: Key,
    body: Annotated[
        str | None, typer.Argument(help='The message, or "-": each line of standard input.', show_default=False)
    ] = None,
    *,
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="Send each line of this file instead.")] = None,
    place: Place,
    unreliable: Annotated[bool, typer.Option("--unreliable", help="Not stored, not acknowledged.")] = False,
    peer: Annotated[
        list[UUID] | None, typer.Option(metavar="UUID", help="Only to this peer; repeatable (default: any).")
    ] = None,
    schema: Schema,
    wait: Wait = True,
    timeout: Timeout = 30.0,
    json: JsonResult = False,
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
        with place.once(waits=job.waits or unreliable, usual=sending.USUAL) as options:
            complete = sending.send_and_report(job, partial(run, trio=trio), options, json)
        if not complete:
            raise typer.Exit(1)


class Unreliable(StrEnum):
    """Handling of messages that come unreliably, as it is typed."""

    KEEP = "keep"
    DROP = "drop"


@app.command(
    examples=(
        "stage staged --listen 127.0.0.1:7013 --certs certs --name alice --channel weather",
        "stage staged --stream log --connect 127.0.0.1:7012 --certs certs --name bob",
    ),
    statuses={0: "Ctrl-C, or SIGTERM"},
)
@grouped(meeting=_meeting, chosen=_of_stage)
def stage(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The stage, made if missing.", show_default=False)],
    *,
    channel: Annotated[
        list[str] | None, typer.Option("--channel", metavar="CHANNEL", help="A channel; repeatable (default: any).")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key", metavar="KEY", help="A key, or with a * at its end all that begin so; repeatable (default: any)."
        ),
    ] = None,
    stream_names: Annotated[
        list[str] | None,
        typer.Option(
            "--stream", metavar="NAME", help="Not messages but this stream of the peer of --connect; repeatable."
        ),
    ] = None,
    window: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Elements of a --stream that may be on their way (4096).")
    ] = None,
    unreliable: Annotated[
        Unreliable,
        typer.Option("--unreliable", metavar="keep|drop", help="Whether what comes unreliably is staged too."),
    ] = Unreliable.KEEP,
    max_bytes: Annotated[
        int | None, typer.Option(min=2, metavar="BYTES", help="No more is taken while so much is staged (4 GiB).")
    ] = None,
    full_timeout: Annotated[
        float, typer.Option(min=0.0, metavar="SECONDS", help="For how long the disk may take nothing.")
    ] = 60.0,
    meeting: Meeting,
    revision: Layout = Revision.DRAFT_2,
    record: Record = None,
    json: JsonResult = False,
    chosen: dict[str, Any],
) -> None:
    """Receive into a stage, from which others read: each message is acknowledged, and more of a stream is asked for,
    once it is on the disk there. Ctrl-C ends in order; exit status 1 if the disk takes nothing for too long."""
    from .._options.reading import arguments, parse
    from ..staging import FolderOptions
    from .connecting import run
    from .stage import WINDOW, demand_options, stage_and_report, stage_options

    with words.clear_errors(), _interruptible(0):
        most: dict[str, Any] = {} if max_bytes is None else {"max_staged_bytes": max_bytes}
        if stream_names:
            if channel or key or chosen or unreliable is Unreliable.DROP:
                raise ValueError("--stream stages elements, and the options of messages mean nothing then: leave them")
            folder = FolderOptions(directory=directory, full_timeout=full_timeout, **most)
            demanded = demand_options(meeting, stream_names, window or WINDOW, folder)
            stage_and_report(demanded, partial(run, trio=False), None, json)
            return
        if window is not None:
            raise ValueError("--window is of a --stream: leave it out, or say which stream")
        options = stage_options(
            meeting,
            channel or [""],
            key or [""],
            directory=directory,
            unreliable=unreliable.value,
            full_timeout=full_timeout,
            revision=revision,
            record=record,
            **arguments(parse(chosen)),
            **most,
        )
        stage_and_report(options, partial(run, trio=False), meeting.acl, json)


@app.command(
    examples=("publish lines.txt --as log --listen 127.0.0.1:7012 --certs certs --name alice",),
    statuses={0: "Ctrl-C, or without --listen the last peer has left", 1: "the last peer was lost, or it failed"},
)
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
    json: Annotated[bool, typer.Option("--json", help="A JSON line for each stream that ends.")] = False,
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
        run(partial(publishing.publish, options, remotes_of(meeting), stream_name, content, json), trio)


@app.command(
    examples=("stream log --connect 127.0.0.1:7012 --certs certs --name bob",),
    statuses={1: "the stream ended with an error, or with the connection"} | _INTERRUPTIBLE,
)
@grouped(meeting=_meeting)
def stream(
    stream_name: Annotated[str, typer.Argument(metavar="NAME", help="The stream's name.", show_default=False)],
    *,
    demand: Annotated[int, typer.Option(min=1, metavar="N", help="So many elements may be on their way.")] = 256,
    count: Annotated[int | None, typer.Option(min=1, metavar="N", help="End after so many elements.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Write elements as they are, with nothing between them.")] = False,
    as_hex: Annotated[bool, typer.Option("--hex", help="Write each as a line of hexadecimal digits.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Write each as a JSON line, in base64.")] = False,
    meeting: Meeting,
    trio: Trio = False,
) -> None:
    """Subscribe to a stream of a peer and write its elements as lines. With --listen in place of --connect it is the
    peer that connects. Exit status 1 if the stream ends with an error."""
    from . import stream as streaming
    from .connecting import run
    from .watching import options_of, remotes_of

    with words.clear_errors(), _interruptible(_INTERRUPTED):
        if raw + as_hex + json > 1:
            raise ValueError("--raw, --hex and --json: give one of them, or none for lines")
        if (meeting.listen is not None) + len(meeting.connect) != 1:
            raise ValueError("which peer has it? Give one --connect HOST:PORT, or --listen HOST:PORT for it to come")
        written = streaming.written_as(raw=raw, as_hex=as_hex, as_json=json)
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


@app.command(
    examples=("decode recordings --direction out --channel weather", "decode --json recorded.bin --revision 1"),
    statuses={1: "something is malformed, damaged or cut"},
)
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
    revision: Layout = Revision.DRAFT_2,
    json: Json = False,
) -> None:
    """Show the frames of recordings or of a stream, as a table or as JSON lines. Exit status 1 if anything of it is
    malformed, damaged or cut."""
    from .decode import print_file
    from .recordings import files_in

    with words.clear_errors():
        bad = [file for file in files_in(files) if not print_file(file, revision, json, wanted)]
        if bad:
            raise typer.Exit(1)


@app.command(
    examples=(f"replay recordings --rate 100 {_FROM_BOB}",),
    statuses={1: "as for send, or a recording is damaged"} | _INTERRUPTIBLE,
)
@grouped(place=_place, wanted=_filter)
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
    """Send the messages of recordings again, to whoever subscribes now: those that went out, or with --direction in
    those that came in. Exit status 1 as for `send`, and if a recording is damaged."""
    from . import send as sending
    from .connecting import run
    from .recordings import files_in
    from .replay import job_of_recordings

    with words.clear_errors(), _interruptible(_INTERRUPTED):
        failures: list[str] = []
        job = job_of_recordings(files_in(files), wanted, failures, rate=rate, waits=wait, timeout=timeout)
        with place.once(waits=wait, usual=sending.USUAL) as options:
            complete = sending.send_and_report(job, partial(run, trio=trio), options, json)
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
    from .export import export
    from .recordings import files_in

    with words.clear_errors():
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
    from . import wireshark as dissecting

    with words.clear_errors():
        if install or to is not None:
            file = dissecting.install(to or dissecting.plugins())
            words.tell(json, f"{file}: Wireshark and tshark load it when they start", file=str(file))
        else:
            sys.stdout.write(dissecting.dissector())


DatabaseFile = Annotated[Path, typer.Argument(help="The instance's database.", show_default=False)]
PeerId = Annotated[UUID, typer.Option("--peer", metavar="UUID", help="Whose messages.", show_default=False)]
_IN_USE = {1: "the instance is running, or it failed"}

peers = App(help="Peers that a database knows; without a command it lists them.", cls=Leading)
app.add_typer(peers, name="peers")


@peers.command("list", examples=("peers certs/bob.db", "peers certs/bob.db --json"))
def list_peers(database: DatabaseFile, json: Json = False) -> None:
    """List every peer that a database knows, and what it subscribes to. The instance may be running."""
    from .outbox import print_peers

    with words.clear_errors():
        print_peers(database, json)


@peers.command(examples=("peers forget certs/bob.db 01890000-0000-7000-8000-000000000001",), statuses=_IN_USE)
def forget(
    database: DatabaseFile,
    peer: Annotated[UUID, typer.Argument(metavar="UUID", help="Whom.", show_default=False)],
    json: JsonResult = False,
) -> None:
    """Forget a peer that will not come back: what waits for it, its subscriptions and its pinned key are removed. The
    instance must not be running."""
    from .outbox import forget_peer

    with words.clear_errors():
        count = forget_peer(database, peer)
        said = f"forgotten, and {words.count(count, 'message')} that waited for it"
        words.tell(json, f"{peer}: {said}", peer=str(peer), messages=count)


@app.command(examples=("check certs/bob.db",), statuses={1: "something is wrong with it, or it is in use"})
def check(database: DatabaseFile, json: Json = False) -> None:
    """Look for damage in a database, and read every message of it. Changes nothing, and works on a copy among the
    temporary files. The instance must not be running. Exit status 1 if anything is wrong."""
    from .check import print_check

    with words.clear_errors():
        if not print_check(database, json):
            raise typer.Exit(1)


@app.command(
    examples=(
        "doctor alice.example:7011 --certs certs --name bob",
        "doctor 10.0.0.7:7011 --certs certs --name bob --database bob.db --json",
    ),
    statuses={0: "all is well", 1: "something is worth a look", 2: "something fails, or cannot be examined"},
)
@grouped(who=_identity)
def doctor(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="The other end.", show_default=False)],
    *,
    who: Meeting | None,
    uuid: Annotated[
        UUID | None, typer.Option(metavar="UUID", help="Its UUID; its host name is then not checked, as by a pin.")
    ] = None,
    streams: Annotated[bool, typer.Option("--streams", help="It is to be a port of streams.")] = False,
    handshake: Annotated[
        bool | None,
        typer.Option(
            "--handshake/--no-handshake",
            help="Ask for its version and layout; else where it says by ALPN that it speaks this.",
            show_default=False,
        ),
    ] = None,
    version: Annotated[
        int, typer.Option("--protocol-version", min=0, metavar="N", help="The version that our instance has.")
    ] = 1,
    database: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Our instance's database: is it free, and has it room?")
    ] = None,
    min_free: Annotated[
        int, typer.Option("--min-free", min=0, metavar="BYTES", help="The option min_free of our instance.")
    ] = 0,
    status: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="A status endpoint, with whose clock ours is compared.")
    ] = None,
    spark: Annotated[bool, typer.Option("--spark", help="Has the Python that Spark runs this package?")] = False,
    timeout: Annotated[
        float, typer.Option(min=0.01, metavar="SECONDS", help="The longest that a step may take.")
    ] = 5.0,
    json: Annotated[bool, typer.Option("--json", help="JSON lines.")] = False,
) -> None:
    """Examine why an instance does not reach another: one line for each check, and under what is wrong its remedy.
    Exit status 0 if all is well, 1 if something is worth a look (warn), 2 if something fails or cannot be examined.
    With our certificates it goes as far as the handshake, which changes nothing there; without them it looks at what is
    there. It takes no connection away from an instance."""
    from .doctor import Job, examine_and_print, status_address, target

    with words.clear_errors(2):
        job = Job(
            remote=target(address, uuid, streams=streams),
            tls=None if who is None else who.tls(),
            plaintext=who is not None and who.plaintext,
            streams=streams,
            handshake=handshake,
            version=version,
            database=database,
            min_free=min_free,
            status=None if status is None else status_address(status),
            spark=spark,
            timeout=timeout,
        )
        raise typer.Exit(examine_and_print(job, json))


Endpoints = Annotated[
    list[str],
    typer.Argument(metavar="ENDPOINT", help="Status endpoints: HOST:PORT, or HOST with port 9464.", show_default=False),
]
Patience = Annotated[
    float, typer.Option("--timeout", min=0.01, metavar="SECONDS", help="The longest that a look may take.")
]


@app.command(
    examples=("status 127.0.0.1:9464", "status 127.0.0.1:9464 127.0.0.1:9465 --json"),
    statuses={0: "all are ready", 1: "one is not ready", 2: "one does not answer with a status"},
)
def status(
    endpoints: Endpoints,
    *,
    timeout: Patience = 5.0,
    json: Annotated[
        bool, typer.Option("--json", help="A JSON line for each endpoint, as /status.json has it.")
    ] = False,
) -> None:
    """Print the status of running instances, once: readiness, peers, what waits for them and since when, handlers,
    queues, notices. It reads their status endpoints, InstanceOptions(status="127.0.0.1:9464"). Exit status 0 if all
    are ready, 1 if one is not, 2 if one does not answer."""
    from .endpoints import Endpoint
    from .status import status_and_print

    with words.clear_errors(2):
        raise typer.Exit(status_and_print([Endpoint.parse(one) for one in endpoints], timeout, json))


@app.command(
    examples=("top 127.0.0.1:9464 127.0.0.1:9465", "top 127.0.0.1:9464 --json --looks 10"),
    statuses={0: "q, Ctrl-C, or --looks were made"},
)
def top(
    endpoints: Endpoints,
    *,
    interval: Annotated[float, typer.Option(min=0.5, metavar="SECONDS", help="Between two looks.")] = 2.0,
    timeout: Patience = 5.0,
    looks: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="End after so many looks at each endpoint.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="No screen: a JSON line for each look at each endpoint.")
    ] = False,
) -> None:
    """Watch running instances on a full screen: peers, what waits and for how long, rates, charts, notices. It reads
    their status endpoints, InstanceOptions(status="127.0.0.1:9464"). `?` there shows the keys, `q` ends it. One that
    goes away is shown as away, and comes back."""
    from . import top as screen
    from .endpoints import Endpoint

    with words.clear_errors():
        show = screen.print_looks if json else screen.run
        try:
            show([Endpoint.parse(one) for one in endpoints], interval, timeout, looks)
        except KeyboardInterrupt:
            raise typer.Exit(0) from None


def _size(text: str | int) -> int:
    from .._options.kinds import size

    try:
        return text if isinstance(text, int) else size(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


@app.command(
    examples=(
        "bench",
        "bench send --size 128 --size 16KiB --count 10000 --senders 4 --batch 100 --csv bench.csv",
        "bench --serve --listen 0.0.0.0:7011 --certs certs --name bench",
        "bench request --connect alice.example:7011 --certs certs --name bench --json",
    ),
    statuses={0: "all was measured, or --serve was ended by Ctrl-C", 1: "it failed; what was measured is printed"}
    | _INTERRUPTIBLE,
)
@grouped(place=_place)
def bench(
    kinds: Annotated[
        list[Kind] | None,
        typer.Argument(metavar="[publish|send|request|stream]...", help="What is measured (default: each of them)."),
    ] = None,
    *,
    size: Annotated[
        list[Any] | None,
        typer.Option(parser=_size, metavar="BYTES", help="Bytes of a body, such as 64KiB; repeatable (default: 128)."),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Messages of each kind and size (default: publish and stream 50,000, send 10,000, request 2,000).",
        ),
    ] = None,
    senders: Annotated[
        int, typer.Option(min=1, metavar="N", help="Instances that send, each with a connection and a database.")
    ] = 1,
    batch: Annotated[int, typer.Option(min=1, metavar="N", help="send: messages in a commit.")] = 100,
    demand: Annotated[int, typer.Option(min=1, metavar="N", help="stream: elements that may be on their way.")] = 256,
    serve: Annotated[bool, typer.Option("--serve", help="Be the other end, for --connect elsewhere.")] = False,
    place: Place,
    timeout: Timeout = 30.0,
    csv: Annotated[
        str | None, typer.Option("--csv", metavar="FILE", help='Write a table, too; "-" is standard output.')
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="A JSON line for each kind and size.")] = False,
    trio: Trio = False,
) -> None:
    """Measure how many messages a second go from here to another end, and how long one takes: publish (unreliable),
    send (stored, acknowledged), request (and its answer), stream (elements, with demand). The other end is in this
    process, with certificates and databases that end with it, or `bench --serve` somewhere else. Ctrl-C prints what was
    measured so far."""
    from . import bench as benching
    from .bench_peer import serve_messages, serve_streams
    from .connecting import run
    from .watching import options_of

    with words.clear_errors(), _interruptible(0 if serve else _INTERRUPTED):
        if serve and kinds == [Kind.STREAM]:
            run(partial(serve_streams, options_of(place.meeting)), trio)
        elif serve:
            if Kind.STREAM in (kinds or ()):
                raise ValueError("stream is served on a port of its own: `tolliver bench stream --serve`")
            run(partial(serve_messages, place.options(dial=True)), trio)
        else:
            job = benching.Job(
                kinds=benching.kinds_of(kinds or (), place),
                sizes=size or [128],
                messages=count,
                senders=senders,
                batch=batch,
                demand=demand,
                timeout=timeout,
            )
            benching.bench_and_report(job, place, partial(run, trio=trio), as_json=json, csv=csv)


outbox = App(help="What waits in a database's outbox.")
app.add_typer(outbox, name="outbox")


@outbox.command("show", examples=("outbox show certs/bob.db",))
def show_outbox(database: DatabaseFile, json: Json = False) -> None:
    """Show how much waits for each peer, since when and why. The instance may be running."""
    from .outbox import print_outbox

    with words.clear_errors():
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
    from .outbox import print_messages

    with words.clear_errors():
        print_messages(database, peer, channel, key, older, limit, json)


@outbox.command(examples=("outbox retry certs/bob.db --peer 01890000-0000-7000-8000-000000000001",), statuses=_IN_USE)
def retry(database: DatabaseFile, peer: PeerId, json: JsonResult = False) -> None:
    """Send what was set aside for a peer once more. The instance must not be running."""
    from .outbox import retry_parked

    with words.clear_errors():
        count = retry_parked(database, peer)
        said = f"{words.count(count, 'message')} set aside for that peer: to be sent again when the instance runs"
        words.tell(json, said, peer=str(peer), messages=count)


@outbox.command(examples=("outbox drop certs/bob.db --peer 01890000-0000-7000-8000-000000000001",), statuses=_IN_USE)
def drop(database: DatabaseFile, peer: PeerId, json: JsonResult = False) -> None:
    """Give up what was set aside for a peer. The instance must not be running."""
    from .outbox import drop_parked

    with words.clear_errors():
        count = drop_parked(database, peer)
        said = f"{words.count(count, 'message')} set aside for that peer: dropped"
        words.tell(json, said, peer=str(peer), messages=count)


letters = App(help="Dead letters of a database: messages that its handlers failed too often.")
app.add_typer(letters, name="letters")


@letters.command("show", examples=("letters show certs/bob.db",))
def show_letters(database: DatabaseFile, json: Json = False) -> None:
    """List the dead letters, without their bodies. The instance may be running."""
    from .outbox import print_letters

    with words.clear_errors():
        print_letters(database, json)


@letters.command(
    "drop", examples=("letters drop certs/bob.db 1 2 3", "letters drop certs/bob.db --all"), statuses=_IN_USE
)
def drop_letters(
    database: DatabaseFile,
    numbers: Annotated[list[int] | None, typer.Argument(help="Those of these numbers.", show_default=False)] = None,
    peer: Annotated[
        UUID | None, typer.Option("--peer", metavar="UUID", help="Only those that came from this peer.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    json: JsonResult = False,
) -> None:
    """Give up dead letters. The instance must not be running."""
    from .outbox import drop_letters

    with words.clear_errors():
        if everything if numbers else not (everything or peer):
            raise ValueError("which ones? Give their numbers, or --peer PEER, or --all")
        count = drop_letters(database, numbers or None, peer)
        words.tell(json, f"{words.count(count, 'dead letter')} dropped", letters=count)


@outbox.command("restored", examples=("outbox restored certs/bob.db",), statuses=_IN_USE)
def say_restored(database: DatabaseFile, json: JsonResult = False) -> None:
    """Say that a database was put back from a copy. The instance must not be running."""
    from .outbox import say_restored

    with words.clear_errors():
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
    from .outbox import back_up

    with words.clear_errors():
        back_up(database, file)
        words.tell(json, f"{file}: a copy of {database}", database=str(database), copy=str(file))


@app.command(examples=("bundle tolliver.zip",))
def bundle(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.zip", help="The zip; one that is there goes.", show_default=False)
    ],
    json: JsonResult = False,
) -> None:
    """Write this package as a zip, for the workers of a Spark job: spark-submit --py-files FILE.zip."""
    from .bundle import bundle as make

    with words.clear_errors():
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
    """Tell what became of every message, from the recordings of those who sent and received it, by Spark. Exit status 1
    if one is lost."""
    from .audit import run_audit

    with words.clear_errors():
        lost = run_audit(directories, html, parquet, json)
        words.say(f"lost = {lost:,}")
        if lost:
            raise typer.Exit(1)
