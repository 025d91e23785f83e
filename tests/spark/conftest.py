"""One Spark for all tests of a process.

Without pyspark or Java 17 the tests that need a session are skipped, and the reason is printed; in this project's own
runs `make` has installed both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tolliver.spark.local import missing

from .quick import start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    settings = {
        "spark.sql.warehouse.dir": warehouse,
        "spark.python.daemon.module": "tests.spark.forking",
    }
    session = start("tolliver tests", **settings)
    yield session
    session.stop()
