"""Options common to several commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from tolliver_proto import Revision

from ..._options.table import TABLE
from .. import words
from ..flags import flags
from ..groups import grouped

if TYPE_CHECKING:
    from ..connecting import Identity, Meeting, Place
    from ..recordings import Filter
    from ..schema import Schema

INTERRUPTIBLE = {130: "Ctrl-C", 143: "SIGTERM"}
FROM_BOB = "--certs certs --name bob --database certs/bob.db --connect 127.0.0.1:7011"

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
    from ..._options.kinds import LAYOUTS

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

OWN_FLAGS = {"listen", "remotes", "database", "subscriptions", "plaintext", "acl", "record", "revision"}
"""Options of the table for which commands have flags of their own."""
_STAGE_KEYS = {"dialect", "dialects"}
of_tls = flags(["tls.crl", "tls.insecure_ca_only", "tls.tls12", "tls.keylog"])
of_instance = flags([key for key in TABLE if key not in OWN_FLAGS and not key.startswith("tls.")])
of_stage = flags([key for key in TABLE if key in _STAGE_KEYS or key.startswith("limits.")])


@grouped(tls_flags=of_tls)
def identity_of(
    certs: Certs = None,
    name: Name = None,
    cert: Cert = None,
    key_file: KeyFile = None,
    ca: Ca = None,
    plaintext: Plaintext = False,
    *,
    tls_flags: dict[str, Any],
) -> Identity:
    from ..connecting import Identity

    return Identity(certs, name, cert, key_file, ca, plaintext, tls_flags)


@grouped(identity=identity_of)
def meeting_of(
    at: Listen = None,
    connect: Connect = None,
    *,
    identity: Identity,
    acl: AccessRules = None,
    spki: Spki = None,
) -> Meeting:
    from ..connecting import Meeting

    return Meeting(identity, at, connect or [], acl, spki)


@grouped(meeting=meeting_of, chosen=of_instance)
def place_of(
    *,
    meeting: Meeting,
    database: Database = None,
    revision: Layout = Revision.DRAFT_2,
    record: Record = None,
    chosen: dict[str, Any],
) -> Place:
    from ..connecting import Place

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


def schema_of(
    proto: Proto = None, proto_path: Include = None, descriptors: Descriptors = None, kind: Type = None
) -> Schema:
    from ..schema import Schema

    return Schema(proto=proto or [], include=proto_path or [], descriptors=descriptors, type=kind)


class Way(StrEnum):
    """Directions of a recording, as given on the command line."""

    IN = "in"
    OUT = "out"


def _time(text: str) -> int:
    from ..recordings import nanoseconds

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


def filter_of(
    peer: OfPeer = None,
    channel: OfChannel = "",
    key: OfKey = "",
    since: Since = None,
    until: Until = None,
    direction: OfDirection = None,
) -> Filter:
    from tolliver_proto.recording import Direction

    from ..recordings import Filter

    way = None if direction is None else Direction[direction.name]
    return Filter(peer=peer, channel=channel, key=key, since=since, until=until, direction=way)


@contextmanager
def interruptible(*, in_order: bool) -> Iterator[None]:
    """Context manager for commands that Ctrl-C or SIGTERM ends: with status 0 if that is their usual end (`in_order`),
    else with the signal's."""
    from ..connecting import Interrupted

    try:
        yield
    except Interrupted as signalled:
        if in_order:
            raise typer.Exit from None
        words.say("interrupted")
        raise typer.Exit(signalled.status) from None
