"""Options of the sink, `df.write.format("tolliver")`."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import Factory, define, field

from tolliver_proto import Revision

from ..._options.instance import TLS, Remote
from .._options import Option, flag, one_of, parse, seconds, text, whole
from .._peer import dialled, dialling

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
    "revision": Option("revision", one_of({"1": Revision.DRAFT_1, "2": Revision.DRAFT_2})),
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
    values = parse(options, OPTIONS, _SINK)
    remote, tls = dialled(values, _SINK, "receiver")
    made = WriteOptions(remote=remote, tls=tls, **values)
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
