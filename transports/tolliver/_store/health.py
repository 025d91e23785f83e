"""Health of a store: sizes, free disk, and faults."""

from __future__ import annotations

from typing import NamedTuple


class StoreHealth(NamedTuple):
    """State of a store, sizes in bytes. A database in memory has no files.

    `faults` are texts, with advice, about faults that prevent storing messages.
    """

    faults: tuple[str, ...] = ()
    database_bytes: int = 0
    log_bytes: int = 0
    reserve_bytes: int = 0
    disk_free_bytes: int | None = None
    reserve_lost: bool = False

    def may_be_mended(self, last_failed: bool) -> bool:
        """True if another commit should be tried, to see if a fault that prevents storing has ended. `last_failed`: the
        last commit failed.
        """
        return len(self.faults) == self.reserve_lost and (self.reserve_lost or last_failed)
