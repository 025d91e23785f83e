"""What the fuzz targets share: the first corpus, and the memory that a case may take."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def with_seeds(arguments: list[str], seeds: list[bytes]) -> Iterator[list[str]]:
    """The arguments for libFuzzer, completed. A file is one case to run again, a directory keeps new ones."""
    program, *given = arguments
    limits = ["-rss_limit_mb=1024", "-malloc_limit_mb=64", "-max_len=4096"]
    paths = [Path(argument) for argument in given if not argument.startswith("-")]
    if any(path.is_file() for path in paths):
        yield [program, *limits, *given]
        return
    for path in paths:
        path.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(seeds):
            Path(corpus, f"seed-{number}").write_bytes(seed)
        yield [program, *limits, *given, corpus]
