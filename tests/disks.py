"""File systems of a few MiB, for disks that are full, and what eats them up."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SIZE = 4 * 2**20


@contextmanager
def small_disk(place: Path, size: int = SIZE) -> Iterator[Path]:
    """A file system of that size, where this user may mount one; else the test is skipped."""
    mount = shutil.which("mount")
    if mount is None or sys.platform != "linux":
        pytest.skip("there is no mount command for a tmpfs here")
    place.mkdir()
    done = subprocess.run([mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this user may not mount a tmpfs: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)  # it may be open still, if this fails


def eat(disk: Path, name: str = "ballast") -> Path:
    """Another program takes what is left."""
    ballast = disk / name
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass
    return ballast
