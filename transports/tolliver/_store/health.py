"""Health of a store.

It has sizes, free disk, and faults that keep messages from being stored.
"""

from __future__ import annotations

from typing import NamedTuple


class StoreHealth(NamedTuple):
    """The store now, in bytes; a database in memory has no files, and no disk to fill.

    `faults` are sentences with their remedies, for whoever asks whether the instance is ready.
    """

    faults: tuple[str, ...] = ()
    database_bytes: int = 0
    log_bytes: int = 0
    reserve_bytes: int = 0
    disk_free_bytes: int | None = None
    reserve_lost: bool = False

    def may_be_mended(self, last_failed: bool) -> bool:
        """True where another commit may find that what keeps messages from being stored is over: room, say."""
        return len(self.faults) == self.reserve_lost and (self.reserve_lost or last_failed)
