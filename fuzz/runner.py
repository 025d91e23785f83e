"""What the fuzz targets share: a first corpus where none is given, and the memory that a case may take."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fuzz import bodies


@contextmanager
def with_seeds(arguments: list[str]) -> Iterator[list[str]]:
    """The arguments for libFuzzer, completed."""
    program, *given = arguments
    limits = ["-rss_limit_mb=1024", "-malloc_limit_mb=64", "-max_len=4096"]
    if any(not argument.startswith("-") for argument in given):
        yield [program, *limits, *given]
        return
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(bodies.seeds()):
            Path(corpus, f"seed-{number}").write_bytes(seed)
        yield [program, *limits, *given, corpus]
