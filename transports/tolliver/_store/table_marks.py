"""Marks of programs' tables, as an instance has last seen them (P-76).

They are in a file beside the instance's own database. Like the mark of commits (`mark`) the file is not synced: after a
loss of power it may be older than the tables, or spoilt, and neither means anything.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from threading import Lock
from typing import NamedTuple
from uuid import UUID

from .._private import give_to_owner_of, read_file, replacing

SUFFIX = ".tables"
_MOST = 1000  # marks, the newest
_LONGEST = 2**20  # bytes of the file


class SeenMark(NamedTuple):
    """A mark that was committed: its place, its number, and the time by the clock of its database."""

    place: str
    number: int
    at: float


class TableMarks:
    """Marks that the instance has seen, by lineage. Its calls may come from any thread."""

    def __init__(self, path: str | None, instance_id: UUID) -> None:
        """`path` of the instance's database; None: nothing outlives this run."""
        self.database: str | None = path
        self.instance_id = instance_id
        self._lock = Lock()
        self._seen: dict[str, SeenMark] = {}
        with suppress(OSError, ValueError, TypeError, KeyError):
            self._seen = self._read()

    def _read(self) -> dict[str, SeenMark]:
        if self.database is None or os.path.getsize(f"{self.database}{SUFFIX}") > _LONGEST:
            return {}
        content = json.loads(read_file(f"{self.database}{SUFFIX}"))
        if content["instance"] != str(self.instance_id):
            return {}
        return {lineage: SeenMark(str(one[0]), int(one[1]), float(one[2])) for lineage, one in content["marks"].items()}

    def known(self, lineage: str, place: str, is_new: bool) -> SeenMark | None:
        """The mark of this lineage; of a new one, that which stood at its place."""
        with self._lock:
            if not is_new:
                return self._seen.get(lineage)
            return next((one for one in self._seen.values() if place and one.place == place), None)

    def note(self, lineage: str, mark: SeenMark) -> None:
        """Remember a mark. Never raises: on a full disk the file stays as it was."""
        with self._lock:
            before = self._seen.pop(lineage, None)
            self._seen[lineage] = mark if before is None or before.number < mark.number else before
            for oldest in [*self._seen][:-_MOST]:
                del self._seen[oldest]
            if self.database is not None:
                with suppress(OSError), replacing(f"{self.database}{SUFFIX}") as file:
                    give_to_owner_of(self.database, file.fileno())
                    file.write(json.dumps({"instance": str(self.instance_id), "marks": self._seen}).encode())
