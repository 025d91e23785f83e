"""Settings of every run of libFuzzer: cases, dictionary, memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .targets import Target
from .words import dictionary_of

BOUNDS = ["-rss_limit_mb=1024", "-malloc_limit_mb=64", "-max_len=4096", "-timeout=60"]


def write_seeds(directory: Path, seeds: Sequence[bytes]) -> None:
    """A file for each."""
    for number, seed in enumerate(seeds):
        (directory / f"seed-{number}").write_bytes(seed)


@contextmanager
def completed(target: Target, arguments: list[str], seeds: Sequence[bytes]) -> Iterator[list[str]]:
    """The arguments for libFuzzer. A file is one case to run again; the first directory keeps new ones."""
    program, *given = arguments
    options = [*BOUNDS, f"-dict={dictionary_of(target)}"]
    paths = [Path(argument) for argument in given if not argument.startswith("-")]
    if any(path.is_file() for path in paths) or "-merge_inner=1" in given:
        yield [program, *options, *given]
        return
    for path in paths:
        path.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as first:
        write_seeds(Path(first), seeds)
        yield [program, *options, *given, first, *([str(target.corpus)] if target.corpus.is_dir() else [])]
