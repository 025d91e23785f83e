"""Recordings as events or record batches, for any Spark that maps partitions.

Spark brings the bytes to the workers (`binaryFile` reads from any store it knows), the machine says what they mean.
`partition_events` needs nothing but `tolliver_proto`, so both may travel to the workers as a zip.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal
from uuid import UUID

from tolliver_proto import Decoded, Decoder, RemoteProtocolError, Revision
from tolliver_proto.recording import Block, BlockHeader, Direction, read_blocks

from ._options import parse
from .read._options import OPTIONS, ReadOptions
from .read._ranges import DamagedRecording
from .read._schema import OF_FRAMES, ddl, message_columns

Content = Literal["recording", "frames"]
_OPTIONS = {
    "recording": [name for name in OPTIONS if name not in ("path", "paths", "minPartitions", "filterPushdown")],
    "frames": ["channels", "keys", "mode", "rowsPerBatch"],
}


def partition_events(
    chunks: Iterable[bytes | bytearray | memoryview], *, of: Content = "recording", revision: int = 2
) -> Iterator[tuple[BlockHeader | None, Decoded]]:
    """All frames of a partition, in order, for `rdd.mapPartitions(partition_events)`: pairs of header and frame.

    Each item of the partition is the content of a whole recording, and each frame comes with the header of its block:
    who, when, which way. With of="frames" the items are the bytes of one direction, whole frames from the first to the
    last and cut anywhere; `revision` is the draft that they are in (1 or 2), and the header is None.

    Raises DamagedRecording where a recording is damaged (a torn end is not) or a frame in it malformed,
    RemoteProtocolError where bare frames are, and ValueError for another `of` or `revision`.
    """
    _check(of)
    if of == "frames":
        yield from ((None, frame) for frame in _frames(chunks, Revision(revision)))
        return
    for number, content in enumerate(chunks):
        name = f"recording {number} of the partition"
        for block in read_blocks([content]):
            if isinstance(block, Block):
                yield from _frames_of(block, name)
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


class partition_batches:
    """Values to columns: `df.mapInArrow(messages, messages.schema)`, where `messages = partition_batches()`.

    Each value of the binary column `content` is a whole recording; with of="frames" it is whole frames of one direction
    in the draft `revision`. `columns` names those that are wanted, in order; without it they are the columns of the
    data source, and for frames those that a frame has by itself. Other options are those of the data source, by the
    same names: channels, keys, peers, timeFrom, timeTo, direction, mode, truncatedTail, includeMetadata, rowsPerBatch.
    The column `file` is what the column `path` says, as in `binaryFile`, or null.

    Raises ValueError for what makes no sense; the tasks raise DamagedRecording as the data source does.
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
        for name in columns or ():
            if name not in kinds:
                raise ValueError(f"there is no column {name}: choose among {', '.join(kinds)}")
        self._columns = {name: kinds[name] for name in columns or kinds}
        self._of = of
        self._revision = Revision(revision)
        self._content = content

    @property
    def schema(self) -> str:
        """The schema of what comes out, for `mapInArrow`."""
        return ddl(self._columns)

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        from .read._batches import BatchMaker, Policy, Wanted, arrow_schema, batches_of

        options = self._options
        policy, wanted = Policy(options), Wanted.of(options)
        maker = BatchMaker(arrow_schema(self._columns), wanted, options.rows_per_batch)
        return batches_of(self._pieces(batches, policy, wanted), maker, policy)

    def _pieces(self, batches: Iterable[Any], policy: Any, wanted: Any) -> Iterator[Any]:
        from .read._batches import Piece, good_blocks

        bare = BlockHeader(0, UUID(int=0), None, 0, Direction.IN, self._revision, 0)
        for file, value in self._values(batches):
            if self._of == "frames":
                yield Piece(file, 0, bare, value)
            else:
                for block in good_blocks(file or "a value", read_blocks([value]), policy):
                    if wanted.takes_block(block.header):
                        yield Piece(file, block.payload_offset, block.header, block.payload)

    def _values(self, batches: Iterable[Any]) -> Iterator[tuple[str | None, bytes]]:
        for batch in batches:
            files = batch.column("path").to_pylist() if "path" in batch.schema.names else [None] * batch.num_rows
            for file, value in zip(files, batch.column(self._content), strict=True):
                if value.is_valid:
                    yield file, value.as_py()
