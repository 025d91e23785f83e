"""Checks for the fuzzer of Spark's reading of recordings.

A case is a recording as in `recording_bodies`, and beside it a sidecar that is right, wrong, torn, of another one, or a
lie with all checksums right. Tasks read it in parts, and together they must have read every byte once.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from unittest.mock import patch

from tolliver.spark.read import _ranges

from tolliver_proto import recording
from tolliver_proto.recording import BLOCK, INDEX_SUFFIX, Block, Damage, Entry, Index, build_index

from .bodies import Reader, bounded
from .recording_bodies import Item, Written, covers

_STEP = 128  # bytes for each entry of an index, so that small recordings are split


def ranges(data: bytes, *, watch_memory: bool = False) -> None:
    """A recording beside a sidecar that is right, wrong, torn, of another or a lie, read in parts by Spark's reader.

    Every byte is read once, or an error is raised: never twice, never passed over in silence.
    """
    reader = Reader(data)
    kind, tasks, most = reader.byte() % 6, reader.byte() % 8 + 1, 100 + 4 * reader.byte()
    place = reader.byte() << 8 | reader.byte()
    written = Written(reader)
    path = _folder() / "a.rec"
    path.write_bytes(written.data)
    sidecar = path.with_name(path.name + INDEX_SUFFIX)
    sidecar.unlink(missing_ok=True)
    with _small_steps(most):
        hint = _sidecar(kind, place, written)
        if hint is not None:
            sidecar.write_bytes(hint)
        with bounded(8 * len(written.data), watch_memory):
            parts = [part for task in _ranges.plan([str(path)], tasks) for part in task]
            assert [part.start for part in parts] == [0, *(part.end for part in parts[:-1])], "ranges leave gaps"
            assert parts[-1].end == len(written.data)
            found: list[Item] = []
            try:
                for part in parts:
                    some = list(_ranges.blocks_in(part))
                    covers(some, part.start, part.end)
                    found += some
            except _ranges.DamagedRecording:
                assert kind == _LIE or not written.good, "an honest index and a good recording"
                return
    read = [one for one in found if isinstance(one, Block)]
    if written.good:
        assert read == written.blocks
    elif kind != _LIE:
        assert all(one in written.blocks for one in read), "a block that nobody wrote"
    cut_at_a_block = written.cut and not any(isinstance(one, Damage) for one in found)
    if cut_at_a_block and kind == _RIGHT and len(written.data) >= BLOCK.size and written.starts and not written.foreign:
        assert parts[-1].length == len(written.whole), "it was cut, and nobody says so"


_RIGHT, _MISSING, _DAMAGED, _TORN, _OTHER, _LIE = range(6)


def _sidecar(kind: int, place: int, written: Written) -> bytes | None:
    """Sidecar beside the recording, made before that was damaged."""
    whole = build_index(lambda at, size: written.whole[at : at + size], len(written.whole))
    made = whole.encode()
    if kind == _MISSING:
        return None
    if kind == _DAMAGED:
        return made[: place % len(made)] + bytes([made[place % len(made)] ^ 255]) + made[place % len(made) + 1 :]
    if kind == _TORN:
        return made[: place % len(made)]
    if kind == _OTHER:
        return Index(whole.length, whole.first ^ 1, (*whole.entries, Entry(max(0, whole.length - 1), 99))).encode()
    if kind == _LIE:  # checksums right, an entry wrong: the worst that can stand there
        wrong = Entry(place % max(1, whole.length), 1)
        entries = {entry.offset: entry for entry in (*whole.entries, wrong)}
        return Index(whole.length, whole.first, tuple(entries[at] for at in sorted(entries))).encode()
    return made


@contextmanager
def _small_steps(most: int) -> Iterator[None]:
    """Everything at the size of what is fuzzed: an entry for each few blocks, and ranges of that size."""
    with (
        patch.object(recording, "INDEX_STEP", _STEP),
        patch.object(_ranges, "INDEX_STEP", _STEP),
        patch.object(_ranges, "RANGE_BYTES", most),
        patch.object(recording, "_WINDOW", 50),
    ):
        yield


@cache
def _folder() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="fuzz")
    _kept.append(folder)
    return Path(folder.name)


_kept: list[tempfile.TemporaryDirectory[str]] = []  # removed when the process ends


def ranges_seeds() -> list[bytes]:
    """Every kind of sidecar, beside recordings that are good, damaged in a header or a payload, cut, or longer."""
    good = b"".join(bytes([1, argument]) for argument in (2, 7, 40, 77, 3, 9)) + bytes([4, 120, 2, 0, 4, 90])
    torn, flipped = ([7, 40], [7, 200], [5, 9]), ([6, 1, 90], [6, 0, 70], [6, 0, 3], [6, 1, 90, 6, 2, 3])
    return [
        bytes([kind, tasks, 0, place >> 8, place & 255]) + good + bytes(damage) + good[: 2 * tasks]
        for kind in range(6)
        for tasks in (1, 6)
        for damage in ([], *torn, *flipped)
        for place in (0, 57, 300, 811)[: 1 if kind < 2 else 4]
    ]
