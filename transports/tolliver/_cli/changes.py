"""Watch on files that change without a signal.

They are looked at again and again. A name may lead elsewhere from one moment to the next, as in a volume of Kubernetes:
so the file behind it is compared.
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
    """For ever: `then` is called after each look that finds a change. A pair may be found half renewed at first."""
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
    except OSError:  # it is being put there
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
