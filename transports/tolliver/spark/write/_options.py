"""Options of the sink, `df.write.format("tolliver")`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import Factory, define, field

from tolliver_proto import Revision
from tolliver_proto.layouts import LAYOUTS

from ..._options.instance import TLS, Remote
from ..._options.kinds import LAYOUTS as BY_NAME
from .._options import Option, flag, one_of, parse, seconds, text, whole
from .._peer import dialled, dialling, folder

_SINK = "the sink"
_rows = whole(of=" of rows")

OPTIONS: dict[str, Option] = {
    **dialling(),
    "reliable": Option("reliable", flag),
    "idColumn": Option("id_column", text),
    "writeId": Option("write_id", text),
    "window": Option("window", _rows),
    "rowsPerSend": Option("rows_per_send", _rows),
    "ackTimeout": Option("ack_timeout", seconds),
    "unsubscribed": Option("drop_unsubscribed", one_of({"error": False, "drop": True})),
    "revision": Option("revision", one_of(BY_NAME)),
    "record": Option("record", folder),
}


@define(frozen=True, kw_only=True)
class WriteOptions:
    """Options of the sink (docs/spark-sink.md explains each). It is pickled to every task."""

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
    record: Path | None = None


def write_options(options: Mapping[str, str], *, streaming: bool) -> WriteOptions:
    """Options from Spark's text, for the writer of a stream or of a batch. Raises ValueError, which names the
    option.
    """
    values = parse(options, OPTIONS, _SINK)
    if "remote" not in values:
        raise ValueError(
            'the sink needs the option connect: the address of the receiver, "host:port". Spark gives a writer none of '
            "a table's options: INSERT INTO name WITH (connect = '...', `tls.cert` = '...') SELECT ..."
        )
    remote, tls = dialled(values, _SINK, "receiver")
    made = WriteOptions(remote=remote, tls=tls, **values)
    if made.rows_per_send > made.window:
        raise ValueError(
            f"the option rowsPerSend is {made.rows_per_send} and window {made.window}: what is sent at once must "
            "fit into the window, lower rowsPerSend or raise window"
        )
    if made.id_column is not None and not made.reliable:
        raise ValueError("the option idColumn gives ids, and reliable=false sends none: leave one of them out")
    _check_revision(values, made)
    if made.write_id is not None and streaming:
        raise ValueError("the option writeId is for a batch: a stream is known by its query and batch, leave it out")
    return made


def _check_revision(given: Mapping[str, object], made: WriteOptions) -> None:
    """Raises ValueError for options that the receiver's layout cannot express, or with which its programs get
    nothing."""
    layout = LAYOUTS[made.revision]
    if layout.plaintext and made.tls is not None:
        raise ValueError(
            "the option revision names a program that knows no TLS: give plaintext=true instead of the files, which "
            "stays on one machine (D-15)"
        )
    if made.reliable and not layout.has_acks:
        raise ValueError(
            "the option revision names a layout without acknowledgements, so nobody knows what arrives: give "
            "reliable=false too"
        )
    if "drop_unsubscribed" in given and not layout.has_lists:
        raise ValueError(
            "the option revision names a layout in which a receiver cannot say what it subscribes to, so all rows are "
            "sent: leave unsubscribed out"
        )
