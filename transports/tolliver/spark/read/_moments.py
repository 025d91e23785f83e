"""Times and places of frames, from the columns of their blocks.

A place is the order of frames within a file: the frame's number if the block has columns, else its byte offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tolliver_proto.recording import FrameColumns

from ._columns import Integers, numbers


class Part(NamedTuple):
    """One of several blocks whose payloads are joined, from byte `begin` to byte `end`.

    `offset` is that of its first frame in the file. Without columns all its frames have the time of the block.
    """

    begin: int
    end: int
    offset: int
    time_ns: int
    columns: FrameColumns | None


class Moments:
    """Times and offsets in the file of the frames of several blocks, none of them empty, whose payloads are joined."""

    def __init__(self, parts: Sequence[Part]) -> None:
        made = [_alone(part) if part.columns is None else _in_group(part, part.columns) for part in parts]
        self._frame_ends, self._frame_alone, self._ends, self._last, self._times = (
            np.concatenate([one[at] for one in made]) for at in range(5)
        )

    def of(self, starts: Integers) -> tuple[npt.NDArray[np.uint64], Integers]:
        """Times in nanoseconds since 1970, and offsets in the file, of the frames that begin at these offsets in the
        joined payloads.
        """
        frames = np.searchsorted(self._frame_ends, starts, "right")
        ends = np.where(self._frame_alone[frames], starts + 1, self._frame_ends[frames])
        runs = np.searchsorted(self._ends, ends, "left")
        return self._times[runs], self._last[runs] - (self._ends[runs] - ends)


_Made = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]


def _alone(part: Part) -> _Made:
    """Times of the frames of the block as those of one run, with one time for all."""
    last = part.offset + part.end - part.begin - 1
    ends = np.array([part.end], np.int64)
    return ends, np.ones(1, np.bool_), ends, np.array([last], np.int64), np.array([part.time_ns], np.uint64)


def _in_group(part: Part, columns: FrameColumns) -> _Made:
    frame_ends = np.cumsum(numbers(columns.sizes, columns.frames)) + part.begin
    lengths, skips = numbers(columns.lengths, columns.runs), numbers(columns.skips, columns.runs)
    first = np.array([columns.ordinal], np.uint64).astype(np.int64)
    times = numbers(columns.times, columns.runs).astype(np.uint64)
    return (
        frame_ends,
        np.zeros(len(frame_ends), np.bool_),
        np.cumsum(lengths) + part.begin,
        np.cumsum(lengths + skips) + first,
        np.cumsum(times) + np.uint64(columns.time_ns),
    )
