"""Commands that are a peer: they receive, send, stage, publish and subscribe."""

from __future__ import annotations

import os
from enum import StrEnum
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from tolliver_proto import Revision, Subscription

from ..groups import grouped
from ..helping import App
from .choices import (
    FROM_BOB,
    INTERRUPTIBLE,
    Channel,
    Json,
    JsonResult,
    Key,
    Layout,
    Record,
    Timeout,
    Trio,
    Wait,
    interruptible,
    meeting_of,
    of_stage,
    place_of,
    schema_of,
)

if TYPE_CHECKING:
    from .. import send as sending
    from ..connecting import Meeting, Place
    from ..schema import Schema

app = App()


@app.command(
    examples=(
        "listen --listen 127.0.0.1:7011 --certs certs --name alice --channel weather --channel tides",
        "listen --connect 127.0.0.1:7011 --certs certs --name alice --json --count 1 --dedupe 1000",
    ),
    statuses={0: "Ctrl-C, or --count messages were printed"},
)
@grouped(place=place_of, schema=schema_of)
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
    from .. import listen as listening
    from ..connecting import run

    with interruptible(in_order=True):
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
        f"send weather berlin '21 degrees' {FROM_BOB}",
        f"send weather file --file lines.txt {FROM_BOB} --quota-policy skip",
        "send weather berlin '21 degrees' --via tolliver.sock --message-key 'berlin 12:00'",
    ),
    statuses={1: "something reliable was not stored, or not acknowledged, or it failed"} | INTERRUPTIBLE,
)
@grouped(place=place_of, schema=schema_of)
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
    via: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Hand over to the instance that accepts at this Unix socket; it waits for no ack."
        ),
    ] = None,
    message_key: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --via: store the message once, however often it is sent.")
    ] = None,
    schema: Schema,
    wait: Wait = True,
    timeout: Timeout = 30.0,
    json: JsonResult = False,
    trio: Trio = False,
) -> None:
    """Send a message, or each line of a file, to all subscribers. Exit status 1 if anything reliable was not
    stored, or not acknowledged."""
    from .. import send as sending
    from ..connecting import run

    with interruptible(in_order=False):
        if (body is None) is (file is None):
            raise ValueError('what is to be sent? Give a BODY, or --file FILE, or "-" for the lines of standard input')
        source = file if body is None else None if body == "-" else os.fsencode(body)
        bodies = schema.bodies()
        job = sending.job_of_lines(
            channel,
            key,
            source,
            reliable=not unreliable,
            waits=wait and via is None,
            timeout=timeout,
            to=peer or None,
            encode=None if bodies is None else bodies.encode,
            keeps=place.database is not None,
        )
        if via is not None:
            complete = _hand_over(job, via, message_key, source, unreliable=unreliable, json=json, trio=trio)
            raise typer.Exit(0 if complete else 1)
        if message_key is not None:
            raise ValueError("--message-key needs --via: a database that is made for one command remembers no keys")
        with place.once(waits=job.waits or unreliable, usual=sending.USUAL) as options:
            work = partial(run, trio=trio, watches=True, ends_refused=True)
            complete = sending.send_and_report(job, work, options, json)
        if not complete:
            raise typer.Exit(1)


def _hand_over(
    job: sending.Job, path: Path, message_key: str | None, source: object, *, unreliable: bool, json: bool, trio: bool
) -> bool:
    from .. import handing
    from ..connecting import run
    from ..send import Tally

    if unreliable:
        raise ValueError("--via hands over what is stored: leave --unreliable out")
    if message_key is not None and not isinstance(source, bytes):
        raise ValueError("--message-key names one message: give it as BODY")
    tally = Tally()
    run(partial(handing.hand_over, job, handing.Via(path, message_key), tally), trio)
    return handing.report(job, tally, as_json=json)


class Unreliable(StrEnum):
    """Treatment of unreliable messages, as given on the command line."""

    KEEP = "keep"
    DROP = "drop"


@app.command(
    examples=(
        "stage staged --listen 127.0.0.1:7013 --certs certs --name alice --channel weather",
        "stage staged --stream log --connect 127.0.0.1:7012 --certs certs --name bob",
    ),
    statuses={0: "Ctrl-C, or SIGTERM"},
)
@grouped(meeting=meeting_of, chosen=of_stage)
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
    keep_for: Annotated[
        float | None,
        typer.Option(min=0.001, metavar="SECONDS", help="Delete what is older, read or not (default: what is read)."),
    ] = None,
    keep_bytes: Annotated[
        int | None, typer.Option(min=2, metavar="BYTES", help="Delete the oldest above so much, read or not.")
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
    from ..._options.reading import arguments, parse
    from ...staging import FolderOptions
    from ..connecting import run
    from ..stage import WINDOW, demand_options, stage_and_report, stage_options

    with interruptible(in_order=True):
        most: dict[str, Any] = {"keep_for": keep_for, "keep_bytes": keep_bytes}
        most |= {} if max_bytes is None else {"max_staged_bytes": max_bytes}
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
@grouped(meeting=meeting_of)
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
    record: Record = None,
    json: Annotated[bool, typer.Option("--json", help="A JSON line for each stream that ends.")] = False,
    trio: Trio = False,
) -> None:
    """Publish the lines of a file as a stream: each subscriber reads it from its beginning, as fast as it wants.
    Listens on 127.0.0.1, port 7012, if nothing else is said. Ctrl-C ends in order."""
    from .. import publish as publishing
    from ..connecting import run
    from ..watching import options_of, remotes_of

    with interruptible(in_order=True):
        content = publishing.Content(file=None if file == "-" else Path(file), record_size=record_size, follow=follow)
        content.check()
        options = options_of(meeting, publishing.LISTEN, record=record)
        run(partial(publishing.publish, options, remotes_of(meeting), stream_name, content, json), trio)


@app.command(
    examples=("stream log --connect 127.0.0.1:7012 --certs certs --name bob",),
    statuses={1: "the stream ended with an error, or with the connection"} | INTERRUPTIBLE,
)
@grouped(meeting=meeting_of)
def stream(
    stream_name: Annotated[str, typer.Argument(metavar="NAME", help="The stream's name.", show_default=False)],
    *,
    demand: Annotated[int, typer.Option(min=1, metavar="N", help="So many elements may be on their way.")] = 256,
    count: Annotated[int | None, typer.Option(min=1, metavar="N", help="End after so many elements.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Write elements as they are, with nothing between them.")] = False,
    as_hex: Annotated[bool, typer.Option("--hex", help="Write each as a line of hexadecimal digits.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Write each as a JSON line, in base64.")] = False,
    meeting: Meeting,
    record: Record = None,
    trio: Trio = False,
) -> None:
    """Subscribe to a stream of a peer and write its elements as lines. With --listen in place of --connect it is the
    peer that connects. Exit status 1 if the stream ends with an error."""
    from .. import stream as streaming
    from ..connecting import run
    from ..watching import options_of, remotes_of

    with interruptible(in_order=False):
        if raw + as_hex + json > 1:
            raise ValueError("--raw, --hex and --json: give one of them, or none for lines")
        if (meeting.listen is not None) + len(meeting.connect) != 1:
            raise ValueError("which peer has it? Give one --connect HOST:PORT, or --listen HOST:PORT for it to come")
        written = streaming.written_as(raw=raw, as_hex=as_hex, as_json=json)
        options, remotes = options_of(meeting, record=record), remotes_of(meeting)
        job = streaming.Job(name=stream_name, demand=demand, count=count, written=written)
        streaming.stream_and_report(job, options, remotes, partial(run, trio=trio))
