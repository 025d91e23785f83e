"""Fixtures of the store's tests: places for files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .given import MEMORY_DISK


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A directory for small files, in memory if that can be: for tests of what is written, not of who keeps it."""
    with tempfile.TemporaryDirectory(dir=MEMORY_DISK) as directory:
        yield Path(os.path.realpath(directory))
