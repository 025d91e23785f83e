"""Spark's sink, in which each row counts once, however often Spark retries.

A task has a derived identity, named after the data that it writes and not after its attempt (T-72a). Its rows have the
ids 1..n in order, or those of a column. So all attempts of a task, speculative copies, and batches repeated after a
restart send the same messages, and a receiver with `dedupe` accepts each once (T-48).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from attrs import evolve
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, ByteType, DataType, IntegerType, LongType, ShortType, StringType, StructType

from tolliver_proto.errors import CertificateError

from ..._messages.recorder import Recorder
from ..._tls.policy import Pumps
from ...derived import derived_identity
from ..read._schema import check_names
from ._encode import Ids, take_rows
from ._link import Link, open_link
from ._numbering import Numbering
from ._options import WriteOptions, write_options
from ._sending import Sender

log = logging.getLogger("tolliver.spark")

PLAINTEXT_PREFIX = "f00000000000"  # without a certificate (D-15)
_BATCH_ID = "streaming.sql.batchId"
_QUERY_ID = "sql.streaming.queryId"
_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_TYPES: dict[str, tuple[type[DataType], ...]] = {
    "channel": (StringType,),
    "key": (StringType,),
    "body": (BinaryType, StringType),
}


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """Result of a task: rows sent, rows dropped as not subscribed to, rows resent, and seconds."""

    rows: int
    dropped: int
    resent: int
    seconds: float


def check_certificate(options: WriteOptions) -> None:
    """Raises CertificateError on the driver if the tasks' certificate exists there and is invalid, before a task
    starts."""
    tls = options.tls
    if tls is not None and all(Path(file).exists() for file in (tls.cert, tls.key, tls.ca)):
        _prefix(options, Pumps(tls))


def check_schema(schema: StructType, options: WriteOptions) -> None:
    """Raises ValueError, which names the columns, unless they are those of messages."""
    expected = dict(_TYPES)
    if options.id_column is not None:
        expected[options.id_column] = _WHOLE
    check_names(schema.fieldNames())
    given = {field.name: field.dataType for field in schema.fields}
    if given.keys() != expected.keys():
        raise ValueError(
            f"the sink takes the columns {', '.join(expected)}, and these are {', '.join(schema.fieldNames())}: "
            "select and rename them before writing"
        )
    for name, kinds in expected.items():
        if not isinstance(given[name], kinds):
            names = " or ".join(kind.typeName() for kind in kinds)
            raise ValueError(f"the column {name} is {given[name].simpleString()}: cast it to {names}")


def write_rows(batches: Iterator[Any], options: WriteOptions, label: str) -> Written:
    """A task's work: returns once all rows of the record batches are acknowledged or, if unreliable, written."""
    started = time.monotonic()
    pumps = Pumps(options.tls)
    identity = derived_identity(_prefix(options, pumps), label)
    with (
        closing(Numbering(options)) as numbering,
        _recorder(options, identity) as recorder,
        Sender(options, _dialler(options, pumps, identity, recorder)) as sender,
    ):
        for batch in batches:
            before = numbering.rows
            ids = numbering.ids(batch)
            if batch.num_rows:
                sender.send(take_rows(batch, ids, before, options.revision))
        numbering.finish()
        sender.finish()
    return Written(sender.sent, sender.dropped, sender.resent, time.monotonic() - started)


@contextmanager
def _recorder(options: WriteOptions, identity: UUID) -> Iterator[Recorder | None]:
    """The task's recorder. Raises StoreError."""
    if options.record is None:
        yield None
        return
    with closing(Recorder(options.record, identity, options.revision, log.warning)) as recorder:
        yield recorder


def _dialler(
    options: WriteOptions, pumps: Pumps, identity: UUID, recorder: Recorder | None
) -> Callable[[Callable[[Ids], None], float], Link]:
    cids = count(1)

    def dial(on_acks: Callable[[Ids], None], timeout: float) -> Link:
        return open_link(
            options.remote,
            pumps,
            on_acks,
            identity=identity,
            revision=options.revision,
            timeout=timeout,
            recorder=recorder,
            cid=next(cids),
        )

    return dial


def _prefix(options: WriteOptions, pumps: Pumps) -> str:
    if options.tls is None:
        return PLAINTEXT_PREFIX
    if not pumps.identity.prefixes:
        raise CertificateError(
            f"{options.tls.cert} has no derive prefix, which the tasks of a job need (T-72a): make one with "
            "`tolliver certs DIRECTORY NAME --derive`"
        )
    return min(pumps.identity.prefixes)


def _partition() -> tuple[TaskContext, int]:
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("write() runs in a task of Spark: outside of one nobody says which partition this is")
    return context, context.partitionId()


class BatchWriter(DataSourceArrowWriter):
    """Writer of `df.write.format("tolliver")`. Created once for each write, and pickled to every task."""

    def __init__(self, schema: StructType, options: WriteOptions) -> None:
        check_schema(schema, options)
        self.options: WriteOptions = evolve(options, write_id=options.write_id or str(uuid4()))

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        _, partition = _partition()
        return write_rows(iterator, self.options, f"{self.options.write_id}/{partition}")

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        log.info("write %s is done: %s", self.options.write_id, _sum(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        log.warning("write %s failed; of it arrived at least: %s", self.options.write_id, _sum(messages))


class StreamWriter(DataSourceStreamArrowWriter):
    """Writer of `df.writeStream.format("tolliver")`. Each task knows its query and batch."""

    def __init__(self, schema: StructType, options: WriteOptions) -> None:
        check_schema(schema, options)
        self.options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context, partition = _partition()
        query, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
        if not query or not batch:
            raise RuntimeError(
                f"this Spark does not tell a task {_QUERY_ID} and {_BATCH_ID}: use foreachBatch, and in it "
                'df.write.format("tolliver") with a writeId of the batch\'s number'
            )
        return write_rows(iterator, self.options, f"{query}/{batch}/{partition}")

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        log.info("batch %s is done: %s", batchId, _sum(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        log.warning("batch %s failed; of it arrived at least: %s", batchId, _sum(messages))


def _sum(messages: Sequence[WriterCommitMessage | None]) -> str:
    done = [message for message in messages if isinstance(message, Written)]
    rows, dropped = sum(one.rows for one in done), sum(one.dropped for one in done)
    return f"{rows} rows of {len(done)} tasks, {dropped} dropped"


def batch_writer(schema: StructType, overwrite: bool, options: Any) -> BatchWriter:
    """Writer for `DataSource.writer`, which may not `overwrite`. Raises ValueError, and CertificateError like
    `check_certificate`.
    """
    if overwrite:
        raise ValueError('messages cannot be overwritten: write with mode("append")')
    given = write_options(options, streaming=False)
    check_certificate(given)
    return BatchWriter(schema, given)


def stream_writer(schema: StructType, options: Any) -> StreamWriter:
    """Writer for `DataSource.streamWriter`. Raises like `batch_writer`."""
    given = write_options(options, streaming=True)
    check_certificate(given)
    return StreamWriter(schema, given)
