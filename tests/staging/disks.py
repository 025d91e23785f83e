"""A disk that is full, and then is not."""

from __future__ import annotations

import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(path: Path, kibibytes: int = 256, *, or_limit: bool = False) -> Iterator[Callable[[], None]]:
    """A disk of this size; the call makes it large.

    Where we may not mount one, with `or_limit` a limit on the size of all files of this process; else it skips.
    """
    path.mkdir()

    def enlarge() -> None:
        subprocess.run(["mount", "-o", "remount,size=32m", path], check=True)

    mount = ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(path)]
    if subprocess.run(mount, check=False, capture_output=True).returncode == 0:
        try:
            yield enlarge
        finally:
            subprocess.run(["umount", "--lazy", path], check=True)
        return
    if not or_limit:
        pytest.skip("a small disk for the stage alone is a tmpfs, and only root may mount one")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (kibibytes * 800, hard))
    try:
        yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
