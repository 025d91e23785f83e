"""Commands that look at running instances, and at how fast they are."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from ..groups import grouped
from ..helping import App
from ..measures import Kind
from .choices import INTERRUPTIBLE, Timeout, Trio, identity_of, interruptible, place_of

if TYPE_CHECKING:
    from ..connecting import Identity, Place

app = App()


@app.command(
    examples=(
        "doctor alice.example:7011 --certs certs --name bob",
        "doctor 10.0.0.7:7011 --certs certs --name bob --database bob.db --json",
    ),
    statuses={0: "all is well", 1: "something is worth a look", 2: "something fails, or cannot be examined"},
    fails=2,
)
@grouped(who=identity_of)
def doctor(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="The other end.", show_default=False)],
    *,
    who: Identity,
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
    from tolliver_proto import reactive

    from ..._options.instance import DEFAULT_PORT, Remote, split_address
    from ..doctor import Job, examine_and_print
    from ..endpoints import Endpoint

    port = reactive.DEFAULT_PORT if streams else DEFAULT_PORT
    job = Job(
        remote=Remote(*split_address(address, port), identity=uuid),
        tls=who.tls() if who.is_given else None,
        plaintext=who.plaintext,
        streams=streams,
        handshake=handshake,
        version=version,
        database=database,
        min_free=min_free,
        status=None if status is None else Endpoint.parse(status),
        spark=spark,
        timeout=timeout,
    )
    raise typer.Exit(examine_and_print(job, json))


@app.command(
    examples=(
        "conform 127.0.0.1:7011 --certs certs --name kit",
        "conform --listen 127.0.0.1:7911 --certs certs --name kit --junit conform.xml",
        "conform --streams 127.0.0.1:7012 --certs certs --name kit --only RSP",
    ),
    statuses={0: "all that must hold does", 1: "a case that must hold failed, or none could be run"},
)
@grouped(who=identity_of)
def conform(
    address: Annotated[
        str | None, typer.Argument(metavar="HOST:PORT", help="Where the peer under test listens.", show_default=False)
    ] = None,
    *,
    who: Identity,
    listen: Annotated[
        str | None, typer.Option("--listen", metavar="HOST:PORT", help="Where the peer under test dials.")
    ] = None,
    streams: Annotated[bool, typer.Option("--streams", help="The cases of Reactive Streams.")] = False,
    short: Annotated[bool, typer.Option("--short", help="One case of each kind.")] = False,
    only: Annotated[
        str, typer.Option(metavar="IDS", help="The cases whose id begins so; several with commas between.")
    ] = "",
    listing: Annotated[bool, typer.Option("--list", help="Print the cases, and run none.")] = False,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="The result in JUnit's XML.")] = None,
    patience: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="The longest that an answer may take.")
    ] = 15.0,
    json: Annotated[bool, typer.Option("--json", help="JSON lines.")] = False,
) -> None:
    """Play a peer, and judge another implementation of the protocols: case by case, each with its ruling. The peer
    under test subscribes to conform.in and sends each body that it has handled back on conform.out; the page "Check
    another implementation" has the whole contract. Exit status 0 only if all that must hold does."""
    from ..conform import Job, print_cases, run_and_print

    words_of_only = [word.strip() for word in only.split(",") if word.strip()]
    if listing:
        print_cases(streams, words_of_only, short, json)
        return
    job = Job(
        identity=who, dial=address, listen=listen, streams=streams, short=short, only=words_of_only, junit=junit,
        patience=patience,
    )  # fmt: skip
    raise typer.Exit(run_and_print(job, json))


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
    fails=2,
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
    queues, notices. It reads their status endpoints, which the option status opens. Exit status 0 if all are ready,
    1 if one is not, 2 if one does not answer."""
    from ..endpoints import Endpoint
    from ..status import status_and_print

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
    their status endpoints, which the option status opens. `?` there shows the keys, `q` ends it. One that
    goes away is shown as away, and comes back."""
    from .. import top as screen
    from ..endpoints import Endpoint

    show = screen.print_looks if json else screen.run
    try:
        show([Endpoint.parse(one) for one in endpoints], interval, timeout, looks)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def _size(text: str | int) -> int:
    from ..._options.kinds import size

    try:
        return text if isinstance(text, int) else size(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


@app.command(
    examples=(
        "bench",
        "bench send --size 128 --size 16KiB --count 10000 --senders 4 --batch 100",
        "bench --serve --listen 0.0.0.0:7011 --certs certs --name bench",
        "bench request --connect alice.example:7011 --certs certs --name bench --json",
    ),
    statuses={0: "all was measured, or --serve was ended by Ctrl-C", 1: "it failed; what was measured is printed"}
    | INTERRUPTIBLE,
)
@grouped(place=place_of)
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
    json: Annotated[bool, typer.Option("--json", help="A JSON line for each kind and size.")] = False,
    trio: Trio = False,
) -> None:
    """Measure how many messages a second go from here to another end, and how long one takes: publish (unreliable),
    send (stored, acknowledged), request (and its answer), stream (elements, with demand). The other end is in this
    process, with certificates and databases that end with it, or `bench --serve` somewhere else. Ctrl-C prints what was
    measured so far."""
    from .. import bench as benching
    from ..bench_peer import serve_messages, serve_streams
    from ..connecting import run
    from ..watching import options_of

    with interruptible(in_order=serve):
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
            benching.bench_and_report(job, place, partial(run, trio=trio), as_json=json)
