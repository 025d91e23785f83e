"""Columns of numbers for recorded frames: sizes, times, ordinals.

A run is the bytes of one read or one write, and has the frames that end in these bytes. Each frame has a size; each run
has a length in bytes, a skip (the bytes of other connections that passed before it), and a time. A column has the width
that its largest number needs, and no bytes if all numbers are zero: a run of one frame costs some six bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import sub
from struct import pack, unpack
from typing import NamedTuple

_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}
WORD = 2**64
"""Negative differences, as of a clock that was set back, are written modulo this number."""


class Column(NamedTuple):
    """Unsigned numbers in the columns of a recorded block, `width` bytes each, in network order; with width 0 all
    numbers are zero.
    """

    width: int
    data: bytes

    def numbers(self, count: int) -> list[int]:
        """Returns the `count` numbers of the column."""
        if not self.width:
            return [0] * count
        return list(unpack(f">{count}{_CODES[self.width]}", self.data))

    def total(self, count: int) -> int:
        if self.width == 1:
            return sum(self.data)
        return sum(unpack(f">{count}{_CODES[self.width]}", self.data)) if self.width else 0


class Runs(NamedTuple):
    """Runs of bytes: the length of each, the ordinal of its last byte, and its time in nanoseconds since 1970."""

    lengths: list[int]
    ends: list[int]
    times: list[int]


class Piece(NamedTuple):
    """Frames of one run: their bytes in the block, their number, the ordinal of the last frame, and their time."""

    begin: int
    end: int
    frames: int
    ordinal: int
    time_ns: int


class FrameColumns(NamedTuple):
    """The columns of a block.

    The columns of differences begin at `time_ns` and `ordinal`. An ordinal counts the bytes that the instance exchanged
    with all its peers since the beginning of the file; the ordinal of a frame is that of its last byte.
    """

    time_ns: int
    ordinal: int
    frames: int
    runs: int
    sizes: Column
    lengths: Column
    skips: Column
    times: Column

    def pieces(self) -> Iterator[Piece]:
        """Yields the frames of each run in order; a run without the end of a frame gives none."""
        ends = list(accumulate(self.sizes.numbers(self.frames)))
        begin = done = length = 0
        for more, ordinal, time_ns in self._runs():
            length += more
            upto = bisect_right(ends, length, done)
            if upto > done:
                end = ends[upto - 1]
                yield Piece(begin, end, upto - done, ordinal - (length - end), time_ns)
                begin, done = end, upto

    def _runs(self) -> Iterator[tuple[int, int, int]]:
        lengths = self.lengths.numbers(self.runs)
        steps = map(sum, zip(lengths, self.skips.numbers(self.runs), strict=True))
        ends = accumulate(steps, initial=self.ordinal)
        times = accumulate(self.times.numbers(self.runs), initial=self.time_ns)
        next(ends), next(times)
        for length, end, time_ns in zip(lengths, ends, times, strict=True):
            yield length, end % WORD, time_ns % WORD


def encode_columns(sizes: Sequence[int], runs: Runs) -> tuple[int, int, bytes]:
    """Returns the time and the ordinal that the columns begin at, and the bytes of the columns.

    The lengths of `runs` sum up to the sizes of all frames, and the runs are in the order of their ends.
    """
    lengths, ends, times = runs
    first, ordinal = min(times), (ends[0] - lengths[0]) % WORD
    skips = [0, *map(sub, map(sub, ends[1:], ends), lengths[1:])]
    steps = [times[0] - first, *map(sub, times[1:], times)]
    if min(steps) < 0:
        steps = [step % WORD for step in steps]
    columns = [_column(numbers) for numbers in (sizes, lengths, skips, steps)]
    widths = bytes(column.width for column in columns)
    return first, ordinal, b"".join((widths, *(column.data for column in columns)))


def decode_columns(data: bytes, *, time_ns: int, ordinal: int, frames: int, runs: int, payload: int) -> FrameColumns:
    """Returns the columns of a block whose frames have `payload` bytes. Raises ValueError if the bytes do not fit."""
    counts = (frames, runs, runs, runs)
    widths = tuple(data[: len(counts)])
    if len(widths) < len(counts) or not {0, *_CODES}.issuperset(widths) or max(counts) > payload:
        raise ValueError("no columns")
    at, columns = len(counts), []
    for width, count in zip(widths, counts, strict=True):
        columns.append(Column(width, data[at : at + width * count]))
        at += width * count
    if at != len(data):
        raise ValueError("columns of another length")
    sizes, lengths, skips, times = columns
    if (sizes.total(frames), lengths.total(runs)) != (payload, payload):
        raise ValueError("columns of another block")
    return FrameColumns(time_ns, ordinal, frames, runs, sizes, lengths, skips, times)


def _column(numbers: Sequence[int]) -> Column:
    most = max(numbers)
    width = next(width for width in (0, *_CODES) if most < 256**width)
    return Column(width, pack(f">{len(numbers)}{_CODES[width]}", *numbers) if width else b"")
