"""Delivery audit in DuckDB: on one machine, without Spark and Java."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import pyarrow as pa

from ..._private import make_directory
from ._audit import Tables
from ._facts import FACTS, read_ranges
from ._files import Recording, ranges_of, recordings_in
from ._tables import Row

_AS_SPARK = (
    "explode(list) AS unnest(list)",
    "percentile_approx(value, share, exact) AS quantile_disc(value, share)",
    "timestamp_micros(micros) AS make_timestamptz(micros)",
    "unix_micros(time) AS epoch_us(time)",
)
"""Functions that are called otherwise here."""

_NO_ROOM = (duckdb.IOException, duckdb.OutOfMemoryException, duckdb.TransactionException)
_TIME = pa.timestamp("us", "UTC")


@contextmanager
def local_audit(directories: Iterable[Path]) -> Iterator[Tables[str]]:
    """Audit of the recordings in these directories and their subdirectories, or in these files.

    All tables are in a temporary file, so recordings may be larger than memory. Raises ValueError if a directory has no
    recordings, OSError if one cannot be read, or there is no space for the tables.
    """
    recordings = recordings_in(directories)
    with TemporaryDirectory(prefix="tolliver-audit-") as home:
        engine = _DuckDB(Path(home))
        try:
            yield Tables(engine, recordings)
        except _NO_ROOM as error:
            raise OSError(
                f"the audit cannot go on: {error}: its tables are kept below TMPDIR until it ends: make room there, or "
                "choose another place"
            ) from error
        finally:
            engine.close()


class _DuckDB:
    def __init__(self, home: Path) -> None:
        # Never download extensions: these queries do not need any.
        self._connection = duckdb.connect(
            home / "audit.duckdb",
            config={"autoinstall_known_extensions": False, "autoload_known_extensions": False},
        )
        for function in _AS_SPARK:
            self._connection.execute(f"CREATE MACRO {function}")

    def facts(self, recordings: Sequence[Recording]) -> None:
        ranges = ranges_of(recordings, 1).to_batches()
        self._fill("facts", pa.RecordBatchReader.from_batches(FACTS, read_ranges(ranges)))

    def given(self, name: str, rows: pa.Table) -> None:
        self._fill(name, rows)

    def made(self, name: str, text: str, *, kept: bool) -> None:
        self._connection.execute(f"CREATE {'TABLE' if kept else 'VIEW'} {name} AS {text}")

    def named(self, name: str) -> str:
        return name

    def table(self, name: str) -> str:
        return name

    def rows(self, text: str) -> list[Row]:
        found = self._connection.sql(text).to_arrow_table()
        # DuckDB gives the machine's time zone, which Python may not know.
        fields = [one.with_type(_TIME) if pa.types.is_timestamp(one.type) else one for one in found.schema]
        rows: list[Row] = found.cast(pa.schema(fields)).to_pylist()
        return rows

    def write_parquet(self, name: str, path: Path) -> None:
        make_directory(path, 0o777)
        where = str(path / "part-0.parquet").replace("'", "''")
        self._connection.execute(f"COPY {name} TO '{where}' (FORMAT parquet)")

    def close(self) -> None:
        self._connection.close()

    def _fill(self, name: str, rows: pa.Table | pa.RecordBatchReader) -> None:
        self._connection.register("arrow", rows)
        self._connection.execute(f"CREATE TABLE {name} AS SELECT * FROM arrow")
        self._connection.unregister("arrow")
