"""Message ids of rows: in order, from a column, or none.

Twice the same id in a partition would lose a row, as its receiver takes the second for a copy. Whether ids of a column
are distinct is known for certain only when all are there, and their number has no bound. So they are sorted in pieces,
which go to a temporary file when there are several, and are merged at the end: an external sort. A bit for each
possible id was rejected, as ids from the whole range make all of its 256 MiB real in each task.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tolliver_proto import StoreError

from ._encode import Ids, ids_from, ids_of
from ._options import WriteOptions

_HELD = 2**20
"""Ids in memory at most, of 4 bytes each; sorting and merging take a few times as much."""


class Numbering:
    """Message ids of the rows, batch by batch; then `finish` checks all of them, and `close` removes the file."""

    def __init__(self, options: WriteOptions) -> None:
        self.rows = 0
        self._reliable = options.reliable
        self._distinct = None if options.id_column is None else _Distinct(options.id_column)
        self._column = options.id_column

    def ids(self, batch: Any) -> Ids | None:
        """Ids of a batch's rows, None if they are unreliable. Raises ValueError if no ids are left, or one is out of
        range (T-40) or found to be repeated; and StoreError.
        """
        before = self.rows
        self.rows += batch.num_rows
        if not self._reliable:
            return None
        if self._distinct is None:
            return ids_from(before + 1, batch.num_rows)
        ids = ids_of(batch.column(self._column), before)
        self._distinct.add(ids)
        return ids

    def finish(self) -> None:
        """Raises ValueError if an id is repeated, and StoreError."""
        if self._distinct is not None:
            self._distinct.finish()

    def close(self) -> None:
        if self._distinct is not None:
            self._distinct.close()


class _Distinct:
    """Check that ids are distinct, in bounded memory."""

    def __init__(self, column: str) -> None:
        self._column = column
        self._held: list[Ids] = []
        self._count = 0
        self._file: Any = None
        self._lengths: list[int] = []  # of the sorted runs in the file, one after the other

    def add(self, ids: Ids) -> None:
        self._refuse(np.sort(ids))
        self._held.append(ids)
        self._count += len(ids)
        if self._count >= _HELD:
            self._spill()

    def finish(self) -> None:
        if self._file is None:
            self._sorted()
            return
        self._spill()
        with _told():
            for ids in self._merged():
                self._refuse(ids)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _sorted(self) -> Ids:
        """All ids that are held, in order; they are held no longer."""
        ids: Ids = np.sort(np.concatenate(self._held)) if self._held else np.empty(0, np.uint32)
        self._held, self._count = [], 0
        self._refuse(ids)
        return ids

    def _spill(self) -> None:
        run = self._sorted()
        if not len(run):
            return
        with _told():
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="tolliver-ids-")  # noqa: SIM115  closed by close()
            self._file.write(run)
            self._file.flush()
        self._lengths.append(len(run))

    def _merged(self) -> Iterator[Ids]:
        """All ids in the file, in order, in pieces; an id is in one piece alone, however often it is there.

        Of each run a block is held. Everything up to the least of the blocks' last ids is known, and at least one block
        is used up by it.
        """
        most = max(1, _HELD // len(self._lengths))
        ends = np.cumsum(self._lengths).tolist()
        left = list(zip([0, *ends[:-1]], ends, strict=True))
        blocks: list[Ids] = [np.empty(0, np.uint32) for _ in left]
        while True:
            for number, (at, end) in enumerate(left):
                if not len(blocks[number]) and at < end:
                    count = min(most, end - at)
                    blocks[number] = self._read(at, count)
                    left[number] = at + count, end
            full = [block for block in blocks if len(block)]
            if not full:
                return
            limit = min(block[-1] for block in full)
            cuts = [int(np.searchsorted(block, limit, "right")) for block in blocks]
            yield np.sort(np.concatenate([block[:cut] for block, cut in zip(blocks, cuts, strict=True)]))
            blocks = [block[cut:] for block, cut in zip(blocks, cuts, strict=True)]

    def _read(self, at: int, count: int) -> Ids:
        self._file.seek(4 * at)
        return np.frombuffer(self._file.read(4 * count), np.uint32)

    def _refuse(self, ids: Ids) -> None:
        """Raises ValueError if an id is repeated among these, which are in order."""
        again = ids[1:][ids[1:] == ids[:-1]]
        if len(again):
            raise ValueError(
                f"the id {again[0]} comes twice in column {self._column!r} of one partition, and the second row would "
                "count as a copy of the first: number the rows of each partition"
            )


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"the ids of a partition cannot be sorted in {tempfile.gettempdir()}: {error.strerror}. They take 4 bytes "
            "for each row: make room there, set TMPDIR on the workers, or use more partitions"
        ) from error
