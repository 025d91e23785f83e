"""Delivery audit: the fate of every message, found from recordings.

If both instances of a connection recorded it, their recordings are joined frame by frame. So the answer needs neither
the running instances nor their databases, and does not rely on what either reports.

    from tolliver.spark.audit import audit

    found = audit(spark, ["recordings/alice", "recordings/bob"])
    found.deliveries.show()

Spark reads recordings of any size, on many machines. `tolliver audit` runs the same queries in DuckDB. Neither needs
the other, so each name is loaded on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._extras import door

if TYPE_CHECKING:
    from ._audit import TABLES
    from ._charts import Curves
    from ._spark import Audit, audit
else:
    __getattr__, __dir__ = door(
        __name__, globals(), {"._audit": "TABLES", "._charts": "Curves", "._spark": "Audit, audit"}
    )

__all__ = ["TABLES", "Audit", "Curves", "audit"]
