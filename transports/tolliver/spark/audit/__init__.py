"""Delivery audit: the fate of every message, told from recordings.

Two instances that recorded the same connection are two witnesses. Their recordings are read frame by frame and joined,
so the answer needs neither the instances nor their databases, and no faith in either.

    from tolliver.spark.audit import audit

    found = audit(spark, ["recordings/alice", "recordings/bob"])
    found.deliveries.show()

Spark reads recordings of any size, on many machines. `tolliver audit` runs the same queries in DuckDB, so each name is
loaded when it is asked for: neither needs the other.
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
