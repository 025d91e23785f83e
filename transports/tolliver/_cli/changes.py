"""Polling of files for changes.

A name may point to another file at any time, as in a Kubernetes volume, so the file behind it is compared.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

import anyio
import anyio.to_thread

Mark = tuple[int, int, int] | None


async def when_changed(
    files: Callable[[], Collection[Path]], seconds: float, then: Callable[[], Awaitable[None]]
) -> None:
    """Poll the files every `seconds` for ever: `then` is called after each poll that finds a change, perhaps in the
    middle of an update.
    """
    known = _marks(files())
    while True:
        await anyio.sleep(seconds)
        now = await anyio.to_thread.run_sync(_marks, files())
        if now != known:
            known = now
            await then()


def _marks(files: Collection[Path]) -> list[Mark]:
    return [_mark(file) for file in files]


def _mark(file: Path) -> Mark:
    try:
        status = file.stat()
    except OSError:  # being replaced
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
