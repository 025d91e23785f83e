"""What `df.write.format("tolliver")` may be told, checked before a task starts.

The idea: options come as text under names whose case Spark does not keep, and they show in query plans: so they are
parsed once, by a table, an unknown one is refused, and secrets are given by the paths of files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from attrs import Factory, define, field

from tolliver_proto import Revision

from ..._options.instance import TLS, EndpointOptions, Remote

_FROM_SPARK = frozenset(("checkpointlocation", "queryname"))  # a stream's own options reach its sink too


Parsers = Mapping[str, tuple[str, Callable[[str], Any]]]
"""Options by name: our name of each, and what parses it."""


def _text(text: str) -> str:
    if not text:
        raise ValueError("give a text")
    return text


def flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("give true or false")
    return text.lower() == "true"


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise ValueError("give a whole number of rows, 1 or more")
    return int(text)


def seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ValueError("give a positive number of seconds")
    return number


def _one_of(values: Mapping[str, Any]) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        if text.lower() not in values:
            raise ValueError(f"give one of {', '.join(values)}")
        return values[text.lower()]

    return parse


OF_PEER: Parsers = {
    "connect": ("connect", _text),
    "peer": ("peer", UUID),
    "tls.cert": ("cert", _text),
    "tls.key": ("key", _text),
    "tls.ca": ("ca", _text),
    "plaintext": ("plaintext", flag),
}
"""Whom to dial, and as whom: `where` takes them."""

_OPTIONS: Parsers = {
    **OF_PEER,
    "reliable": ("reliable", flag),
    "idColumn": ("id_column", _text),
    "writeId": ("write_id", _text),
    "window": ("window", _count),
    "rowsPerSend": ("rows_per_send", _count),
    "ackTimeout": ("ack_timeout", seconds),
    "unsubscribed": ("drop_unsubscribed", _one_of({"error": False, "drop": True})),
    "revision": ("revision", _one_of({"1": Revision.DRAFT_1, "2": Revision.DRAFT_2})),
}


@define(frozen=True, kw_only=True)
class WriteOptions:
    """The sink's options (docs/spark-sink.md has what each is for). It is pickled to every task."""

    remote: Remote
    tls: TLS | None
    reliable: bool = True
    id_column: str | None = None
    write_id: str | None = None
    window: int = 50_000
    rows_per_send: int = field(default=Factory(lambda self: min(5_000, self.window), takes_self=True))
    ack_timeout: float = 60.0
    drop_unsubscribed: bool = False
    revision: Revision = Revision.DRAFT_2


def write_options(options: Mapping[str, str], *, streaming: bool) -> WriteOptions:
    """From Spark's options. Raises ValueError, naming the option."""
    given = parse(options, _OPTIONS, "the sink")
    remote, tls = where(given, "the sink")
    made = WriteOptions(remote=remote, tls=tls, **given)
    if made.rows_per_send > made.window:
        raise ValueError(
            f"the option rowsPerSend is {made.rows_per_send} and window {made.window}: what is sent at once must "
            "fit into the window, lower rowsPerSend or raise window"
        )
    if made.id_column is not None and not made.reliable:
        raise ValueError("the option idColumn gives ids, and reliable=false sends none: leave one of them out")
    if made.write_id is not None and streaming:
        raise ValueError("the option writeId is for a batch: a stream is known by its query and batch, leave it out")
    return made


def parse(options: Mapping[str, str], parsers: Parsers, reader: str) -> dict[str, Any]:
    """Values by our names. Raises ValueError, naming the option and who reads it."""
    by_lower = {name.lower(): name for name in parsers}
    given = {}
    for written, text in options.items():
        name = by_lower.get(written.lower())
        if name is None and written.lower() in _FROM_SPARK:
            continue
        if name is None:
            raise ValueError(f"{reader} has no option {written!r}: it knows {', '.join(parsers)}")
        try:
            ours, value_of = parsers[name]
            given[ours] = value_of(text)
        except ValueError as error:
            raise ValueError(f"the option {name} is {text!r:.100}: {error}") from error
    return given


def where(
    given: dict[str, Any], reader: str, other: str = "receiver", endpoint: type[EndpointOptions] = EndpointOptions
) -> tuple[Remote, TLS | None]:
    """Whom to dial, and as whom: takes the options that say so. Raises ValueError, naming the option.

    `other` is who is dialled, and `endpoint` the kind of options that know its port.
    """
    address, peer, plaintext = given.pop("connect", None), given.pop("peer", None), given.pop("plaintext", False)
    paths = [given.pop(name) for name in ("cert", "key", "ca") if name in given]
    if address is None:
        raise ValueError(f'{reader} needs the option connect: the address of the {other}, "host:port"')
    if len(paths) not in (0, 3):
        raise ValueError(
            "of the options tls.cert, tls.key and tls.ca some are missing: give the paths of all three files"
        )
    if bool(paths) is plaintext:
        raise ValueError(
            f"{reader} has {'both' if plaintext else 'neither'} of plaintext=true and a certificate: give tls.cert, "
            "tls.key and tls.ca, or plaintext=true for a trial on one machine (D-15)"
        )
    try:
        named = Remote.parse(address, endpoint.default_port)
        security = endpoint(tls=TLS(*paths) if paths else None, plaintext=plaintext)
        return security.remote(Remote(named.host, named.port, identity=peer)), security.tls
    except ValueError as error:
        raise ValueError(f"the option connect is {address!r}: {error}") from error
