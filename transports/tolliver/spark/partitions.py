"""Recordings and connections as events or record batches.

For any version of Spark that maps partitions: Spark brings the bytes to the workers (`binaryFile` reads from every
store that it knows), and the protocol's machine parses them; or a task dials a peer itself. Everything except
`partition_batches` and `over_socket` needs only `tolliver_proto`, so both can be sent to the workers as a zip file.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload
from uuid import UUID

from tolliver_proto import (
    Connection,
    Decoder,
    Event,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    RemoteProtocolError,
    Revision,
    Role,
    reactive,
)
from tolliver_proto.layouts import Decoded, State
from tolliver_proto.recording import MAGIC, Block, BlockHeader, Direction, in_order, read_blocks, read_taken

from ._options import parse
from .read._options import OPTIONS, ReadOptions
from .read._ranges import DamagedRecording, why_no_recording
from .read._schema import OF_FRAMES, check_names, ddl, message_columns

if TYPE_CHECKING:
    from .._options.instance import TLS, Remote

Bytes = bytes | bytearray | memoryview
Content = Literal["recording", "frames"]
_OF_FILES = ("path", "paths", "recursiveFileLookup", "pathGlobFilter", "minPartitions", "filterPushdown", "logPlan")
_OPTIONS = {
    "recording": [name for name in OPTIONS if name not in _OF_FILES],
    "frames": ["channels", "channelPattern", "keys", "mode", "rowsPerBatch"],
}


def partition_events(
    chunks: Iterable[bytes | bytearray | memoryview], *, of: Content = "recording", revision: int = 2
) -> Iterator[tuple[BlockHeader | None, Decoded]]:
    """All frames of a partition, in order, as (header, frame) pairs: `rdd.mapPartitions(partition_events)`.

    Each item of the partition is the content of a whole recording. A frame's header is that of its block (peers,
    direction) with the time of its own run. With of="frames" the items are the bytes of one direction, in pieces of any
    size that together are whole frames; `revision` is the number of their `Revision` (1 and 2 are the drafts), and the
    header is None.

    Raises DamagedRecording if a recording is damaged (a torn end is not) or a frame in it is malformed,
    RemoteProtocolError for a malformed frame with of="frames", and ValueError for another `of` or `revision`.
    """
    _check(of)
    if of == "frames":
        yield from ((None, frame) for frame in _frames(chunks, Revision(revision)))
        return
    for number, content in enumerate(chunks):
        name = _name(number)
        for block in _blocks_of(content, name):
            yield from _frames_of(block, name)


def _name(number: int) -> str:
    return f"recording {number} of the partition"


def _blocks_of(content: Bytes, name: str) -> Iterator[Block]:
    why = why_no_recording(bytes(memoryview(content)[: len(MAGIC)]))
    if why is not None:
        raise DamagedRecording(name, 0, why)
    for block in in_order(read_blocks([content])):
        if isinstance(block, Block):
            yield block
        elif not block.torn:
            raise DamagedRecording(name, block.offset, block.detail)


def _check(of: str) -> None:
    if of not in _OPTIONS:
        raise ValueError(f"of={of!r}: there is {' and '.join(map(repr, _OPTIONS))}")


def _frames(chunks: Iterable[bytes | bytearray | memoryview], revision: Revision) -> Iterator[Decoded]:
    decoder = Decoder(revision)
    for chunk in chunks:
        decoder.feed(chunk)
        while (frame := decoder.next_frame()) is not None:
            yield frame
    decoder.finish()


def _frames_of(block: Block, name: str) -> Iterator[tuple[BlockHeader, Decoded]]:
    header = block.header
    try:
        for frame in _frames([block.payload], header.revision):
            yield header, frame
    except RemoteProtocolError as error:
        offset = block.payload_offset + (error.offset or 0)
        raise DamagedRecording(name, offset, f"{error.detail} [{error.code}]") from error


_UNDECIDED = (State.DECIDING, State.CONFIRMING, State.RENEWING)


@overload
def over_bytes(connection: Connection, chunks: Iterable[Bytes], *, now: float | None = None) -> Iterator[Event]: ...


@overload
def over_bytes(
    connection: reactive.Connection, chunks: Iterable[Bytes], *, now: float | None = None
) -> Iterator[reactive.Event]: ...


def over_bytes(
    connection: Connection | reactive.Connection, chunks: Iterable[Bytes], *, now: float | None = None
) -> Iterator[Any]:
    """Events of a machine of either protocol for the recorded input of one direction.

    The chunks may have any size. After the last, the peer's end of stream follows, so the last event is always Closed,
    whose `error` is the reason. Between two events the connection may be called, as in any program: a subscriber of
    Reactive Streams must subscribe first, as its subscription tells how elements are encoded. A handshake is accepted
    when the next event is asked for. The machine's output is dropped.
    """
    for chunk in chunks:
        connection.receive_data(chunk, now)
        yield from _events_of(connection)
    connection.receive_eof(now)
    yield from _events_of(connection)


def _events_of(connection: Any) -> Iterator[Any]:
    while True:
        if isinstance(connection, Connection) and connection.state in _UNDECIDED:
            connection.accept()
        event = connection.next_event()
        connection.data_to_send()
        if event is None:
            return
        yield event


def partition_connections(contents: Iterable[Bytes]) -> Iterator[tuple[BlockHeader, Event]]:
    """Events of all recorded connections, as (header, event) pairs: `rdd.mapPartitions(partition_connections)`.

    Each item of the partition is the content of a whole recording. Each direction of each connection is the input of a
    machine in the role of its receiver: the instance itself for its input, its peer for its output. So in addition to
    messages there are Established, ignored frames, and Closed as the last event of each direction, whose `error` tells
    what was wrong with the input. Raises DamagedRecording like `partition_events`.
    """
    for number, content in enumerate(contents):
        name = _name(number)
        openings: dict[_Way, Decoded | None] = {}
        for block in _blocks_of(content, name):
            way = block.header.cid, block.header.direction
            if way not in openings:
                openings[way] = _opening(block)
        ends: dict[_Way, tuple[Connection, BlockHeader]] = {}
        for block in _blocks_of(content, name):
            header = block.header
            way = header.cid, header.direction
            machine = ends[way][0] if way in ends else _receiver(header, openings)
            ends[way] = machine, header
            yield from ((header, event) for event in _at(machine, block))
        for machine, header in ends.values():
            machine.receive_eof()
            yield from ((header, event) for event in _events_of(machine))


_Way = tuple[int, Direction]


def _opening(block: Block) -> Decoded | None:
    """First frame of the block's direction, if that is a handshake; else None."""
    try:
        return next(_frames([block.payload], block.header.revision), None)
    except RemoteProtocolError:
        return None


def _at(machine: Connection, block: Block) -> Iterator[Event]:
    machine.receive_data(block.payload, block.header.time_ns / 1e9)
    return _events_of(machine)


def _receiver(header: BlockHeader, openings: Mapping[_Way, Decoded | None]) -> Connection:
    """A machine in the role of the receiver of the block's direction, configured from the receiver's own handshake,
    which `openings` has.
    """
    received, sent = (openings.get((header.cid, way)) for way in (header.direction, Direction(1 - header.direction)))
    role = Role.CLIENT if isinstance(sent, HandshakeRequest) else Role.SERVER
    if isinstance(sent, HandshakeRequest | HandshakeResponse):
        version, own = sent.version, sent.instance_id
    else:  # no handshake of the receiver: assume the same version
        version = received.version if isinstance(received, HandshakeRequest) else 1
        own = header.local if header.direction is Direction.IN else header.peer or UUID(int=0)
    refused = isinstance(sent, HandshakeResponse) and sent.status is HandshakeStatus.NEWER_INCOMPATIBLE
    return Connection(
        role, instance_id=own, version=version, revision=header.revision, speaks=lambda _version: not refused
    )


def over_socket(
    connection: Connection | reactive.Connection,
    remote: str | Remote,
    *,
    tls: TLS | None = None,
    plaintext: bool = False,
    seconds: float | None = None,
    unsubscribe: bool = True,
) -> Generator[Any]:
    """Events of a machine of either protocol connected to a peer, for a task that dials: "host:port", or a Remote.

    Between two events the connection may be called, as in any program; its output is sent when the next event is asked
    for. Nothing is acknowledged automatically. A handshake is accepted when the next event is asked for.

    It ends when the peer ends it, after `seconds`, or when the iterator is closed, as Spark does for a task and Python
    for a `for` loop that is left. It then closes in order, within Limits.close_timeout: output is sent, streams are
    cancelled, and all subscriptions are removed, which draft 1 cannot express. With `unsubscribe=False` they stay, for
    a task that will reconnect under the same UUID.

    Raises ValueError for invalid addresses or TLS, CertificateError, and while it runs ConnectionLost and other errors
    that ended it. An orderly connection ends with the event Closed.
    """
    from ._socket import dialled

    return dialled(connection, remote, tls=tls, plaintext=plaintext, seconds=seconds, unsubscribe=unsubscribe)


class partition_batches:
    """Converts values to columns: `df.mapInArrow(messages, messages.schema)`, where `messages = partition_batches()`.

    Each value of the binary column `content` is a whole recording; with of="frames" it is whole frames of one
    direction, in the `Revision` of that number. `columns` selects and orders the output; by default all columns of the
    data source, or for frames those that a frame itself has. The other options are those of the data source, by the
    same names: channels, channelPattern, keys, peers, timeFrom, timeTo, direction, mode, truncatedTail,
    includeMetadata and rowsPerBatch. The output column `file` is the input column `path`, as in `binaryFile`, or null.

    Raises ValueError for invalid options; the tasks raise DamagedRecording like the data source.
    """

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        *,
        of: Content = "recording",
        revision: int = 2,
        content: str = "content",
        **options: object,
    ) -> None:
        _check(of)
        known = {name: OPTIONS[name] for name in _OPTIONS[of]}
        texts = {name: str(value) for name, value in options.items()}
        self._options = ReadOptions(paths=(), **parse(texts, known, f"partition_batches(of={of!r})"))
        kinds = message_columns(self._options.include_metadata) if of == "recording" else OF_FRAMES
        check_names(columns or ())
        for name in columns or ():
            if name not in kinds:
                raise ValueError(f"there is no column {name}: choose among {', '.join(kinds)}")
        self._columns = {name: kinds[name] for name in columns or kinds}
        self._of = of
        self._revision = Revision(revision)
        self._content = content

    @property
    def schema(self) -> str:
        """Schema of the output, for `mapInArrow`."""
        return ddl(self._columns)

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        from .read._batches import BatchMaker, Policy, Wanted, arrow_schema, batches_of

        options = self._options
        policy, wanted = Policy(options), Wanted.of(options)
        maker = BatchMaker(arrow_schema(self._columns), wanted, options.rows_per_batch)
        return batches_of(self._pieces(batches, policy, wanted), maker, policy)

    def _pieces(self, batches: Iterable[Any], policy: Any, wanted: Any) -> Iterator[Any]:
        from .read._batches import Piece, good_blocks, piece_of

        bare = BlockHeader(0, UUID(int=0), None, 0, Direction.IN, self._revision, 0)
        for file, value in self._values(batches):
            if self._of == "frames":
                yield Piece(file, 0, bare, value.as_py())
            else:
                content = memoryview(value.as_buffer())
                why = why_no_recording(bytes(content[: len(MAGIC)]))
                if why is not None:
                    policy.damaged(file or "a value", 0, why)
                    continue
                blocks = read_taken(partial(_part, content), 0, len(content), wanted.takes_block)
                for block in good_blocks(file or "a value", blocks, policy):
                    yield piece_of(file, block)

    def _values(self, batches: Iterable[Any]) -> Iterator[tuple[str | None, Any]]:
        for batch in batches:
            files = batch.column("path").to_pylist() if "path" in batch.schema.names else [None] * batch.num_rows
            for file, value in zip(files, batch.column(self._content), strict=True):
                if value.is_valid:
                    yield file, value


def _part(data: memoryview, at: int, size: int) -> bytes:
    return bytes(data[at : at + size])
