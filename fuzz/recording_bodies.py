"""Checks for the fuzzers of recordings, on any bytes.

Checksums stop random bytes at the door, so a case is a program that writes a recording: blocks of frames, of raw bytes,
of recordings in bodies, headers from a later version; and then a few places that are damaged or cut off. All that was
written is known, so what is read can be judged: every block as it was written, every byte told of once.
"""

from __future__ import annotations

from zlib import crc32

from tolliver_proto import Decoder, RemoteProtocolError, Revision, encode
from tolliver_proto.layouts import Decoded
from tolliver_proto.recording import (
    BLOCK,
    Block,
    BlockHeader,
    Damage,
    Direction,
    Entry,
    Index,
    claimed_id,
    encode_block,
    read_blocks,
    whole_frames,
)

from .bodies import FRAMES, ME, PEER, REVISIONS, Reader, bounded, expressible, revision_at

_MOST_BLOCKS = 40
_CRC = 4  # bytes, at the end of a header
STRANGE = ("layout", "revision", "direction")
Item = Block | Damage


class Written:
    """A recording as a program wrote it: its bytes, and what was done to them afterwards."""

    def __init__(self, reader: Reader) -> None:
        self.blocks: list[Block] = []
        self.starts: list[int] = []  # of all that has a good header
        self.foreign = False  # something stands in it that is no block
        data = bytearray()
        damages: list[int] = []
        self.cut = 0
        while reader and len(self.starts) < _MOST_BLOCKS:
            code, argument = reader.byte(), reader.byte()
            made = self._make(code % 8, argument, reader, bytes(data))
            if made is not None:
                self.starts.append(len(data))
                header, payload, good = made
                block = encode_block(header, payload) if good else _strange(header, payload, argument)
                self.foreign |= not good and STRANGE[argument % 3] == "layout"  # which ends the reading
                if good:
                    self.blocks.append(Block(len(data), header, payload))
                data += block
            elif code % 8 == 5:
                data += reader.bytes(argument % 32)
                self.foreign = True
            elif code % 8 == 6:
                damages += [argument << 8 | reader.byte()] if len(damages) < 9 else []
            elif code % 8 == 7:
                self.cut = argument
        self.whole = bytes(data)
        for place in damages:
            if data:
                data[place % len(data)] ^= 1 << place % 7
        self.damaged = bytes(data) != self.whole
        self.data = bytes(data[: len(data) - min(self.cut, len(data))])

    @property
    def good(self) -> bool:
        """True if a reader must find every block."""
        return not (self.foreign or self.damaged or self.cut)

    def _make(self, kind: int, argument: int, reader: Reader, before: bytes) -> tuple[BlockHeader, bytes, bool] | None:
        revision = revision_at(argument & 1 | argument >> 3 << 1)
        if kind == 0:
            payload = reader.bytes(argument % 64)
        elif kind == 1:
            some = (FRAMES[argument % len(FRAMES)], FRAMES[argument // 7 % len(FRAMES)])
            payload = b"".join(encode(frame, revision) for frame in some if expressible(frame, revision))
        elif kind == 2:
            payload = before[-400:]  # blocks in a body
        elif kind in (3, 4):
            payload = bytes(argument)
        else:
            return None
        peer = PEER if argument & 2 else None
        time_ns = 1_795_262_400_000_000_000 + len(before)
        header = BlockHeader(time_ns, ME, peer, argument, Direction(argument >> 2 & 1), revision, argument % 5)
        return header, payload, kind != 3


def _strange(header: BlockHeader, payload: bytes, argument: int) -> bytes:
    """A block of a later version, with all checksums right: another layout, revision or direction."""
    block = encode_block(header, payload)
    values = BLOCK.unpack(block, 0) | {STRANGE[argument % 3]: 100 + argument % 100}
    head = BLOCK.pack(values)[:-_CRC]
    return head + crc32(head).to_bytes(_CRC) + payload


# The format.


def blocks(data: bytes, *, watch_memory: bool = False) -> None:
    """A recording is read the same however it is cut; each byte is told of once; no block that was not written."""
    reader = Reader(data)
    piece, max_length = reader.byte() % 64 + 1, (2**28, 2**28, 100)[reader.byte() % 3]
    written = Written(reader)
    stream = written.data
    with bounded(len(stream), watch_memory):
        found = list(read_blocks([stream], max_length=max_length))
    for size in {1, piece} if len(stream) < 2000 else {piece}:
        cut = [stream[at : at + size] for at in range(0, len(stream), size)]
        assert list(read_blocks(cut, max_length=max_length)) == found, f"cut by {size}"
    covers(found, 0, len(stream))
    for block in found:
        if isinstance(block, Block):
            again = encode_block(block.header, block.payload)
            assert stream[block.offset : block.offset + len(again)] == again, f"{block} is not what stands there"
    if written.good and max_length > 100:
        assert [one for one in found if isinstance(one, Block)] == written.blocks
    for begin in {one.offset for one in found}:
        rest = list(read_blocks([stream[begin:]], begin, max_length=max_length))
        assert rest == [one for one in found if one.offset >= begin], "reading from a block on says something else"


def covers(found: list[Item], start: int, end: int) -> None:
    """Every byte from `start` to `end` belongs to one item, and to one only."""
    at = start
    for number, item in enumerate(found):
        assert item.offset == at, f"{item} does not begin at {at}, where the one before ends"
        if isinstance(item, Block):
            at = item.payload_offset + len(item.payload)
        elif item.resumes is not None:
            at = item.resumes
        else:
            assert number == len(found) - 1, "something was read behind what stopped the reading"
            at = end
    assert at == end, f"bytes {at} to {end} were passed over in silence"


def frames(data: bytes, *, watch_memory: bool = False) -> None:
    """Check that lengths alone end frames where the decoder ends them; `wanted` is never too much."""
    reader = Reader(data)
    revision = revision_at(reader.byte())
    stream = reader.bytes(len(data))
    with bounded(len(stream), watch_memory):
        whole = whole_frames(stream, revision)
    assert 0 <= whole.end <= len(stream)
    assert whole_frames(stream[: whole.end], revision) == (whole.frames, whole.end, 1)
    if whole.wanted is not None:
        assert whole.wanted > len(stream) - whole.end, "enough was there"
        more = stream + bytes(max(0, min(whole.wanted - 1, 200) - (len(stream) - whole.end)))
        assert whole_frames(more, revision).frames == whole.frames, "less than wanted was enough"
    decoded, error = _decoded(stream, revision)
    if error is None:
        assert whole.frames == len(decoded), f"{whole.frames} whole frames, {len(decoded)} by the decoder"
        assert _decoded(stream[: whole.end], revision) == (decoded, None)
    else:
        assert whole.frames >= len(decoded), "the decoder saw more frames than there are"
    who = claimed_id(stream, revision)
    if decoded:
        assert who == getattr(decoded[0], "instance_id", None)


def _decoded(stream: bytes, revision: Revision) -> tuple[list[Decoded], RemoteProtocolError | None]:
    """As far as there are whole frames."""
    decoder, found = Decoder(revision), list[Decoded]()
    decoder.feed(stream)
    try:
        found += iter(decoder.next_frame, None)
    except RemoteProtocolError as error:
        return found, error
    return found, None


def blocks_seeds() -> list[bytes]:
    """Recordings of every kind of block, whole, damaged at each part of one, and cut."""
    some = [bytes([1, argument]) for argument in (2, 7, 40, 77)]
    kinds = [bytes([0, 5]) + b"bytes", *some, bytes([2, 0]), bytes([4, 120]), *(bytes([3, kind]) for kind in range(3))]
    good = b"".join(kinds[:7])
    found = [b"\x06\0" + good, b"\0\x02" + good, *(b"\x03\0" + kind + good for kind in kinds)]
    found += [b"\x05\0" + good + bytes([6, place >> 8, place & 255]) for place in range(0, 500, 12)]
    found += [b"\x07\0" + good + bytes([7, cut]) for cut in range(1, 200, 9)]
    found += [b"\x08\0" + good + bytes([5, 9]) + b"TLVR more" + good]
    return found


def frames_seeds() -> list[bytes]:
    """Every frame of every revision, streams of them, and parts of one."""
    found = []
    for number, revision in enumerate(REVISIONS):
        known = [encode(frame, revision) for frame in FRAMES if expressible(frame, revision)]
        stream = b"".join(known)
        found += [bytes([number]) + one for one in (*known, stream, stream[:-7], stream + b"\x09")]
        found += [bytes([number]) + one[:-1] for one in known]
    return found


# The index beside it.


def index(data: bytes, *, watch_memory: bool = False) -> None:
    """Any bytes are an index, as it was written, or none; any whole index comes back from its bytes."""
    with bounded(len(data), watch_memory):
        read = Index.decode(data)
    assert read is None or read.encode() == data
    reader = Reader(data)
    entries, offset = [], -1
    for ordinal in range(reader.byte() % 20):
        offset += 1 + (reader.byte() << reader.byte() % 40)
        entries.append(Entry(offset, ordinal))
    made = Index(offset + 1 + reader.byte(), int.from_bytes(reader.bytes(4)), tuple(entries))
    written = bytearray(made.encode())
    assert Index.decode(bytes(written)) == made
    written[reader.byte() % len(written)] ^= 1 + reader.byte() % 255
    assert Index.decode(bytes(written)) is None, "one damaged byte was not noticed"


def index_seeds() -> list[bytes]:
    made = Index(5000, 77, (Entry(0, 0), Entry(900, 3))).encode()
    return [made, Index(0, 0, ()).encode(), bytes(range(40)), *(made[:size] for size in range(0, len(made), 5))]
