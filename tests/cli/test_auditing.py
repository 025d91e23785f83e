"""`tolliver audit`: its lines, its files, and what it needs. `tests/spark/test_audit.py` has the tables."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

pytest.importorskip("duckdb", reason="DuckDB is not installed: pip install 'tolliver-proto[audit]'")

import pyarrow.parquet as pq
from tolliver.spark.audit import TABLES
from tolliver.spark.audit._facts import FACTS
from tolliver.spark.audit._tables import PERCENTILES

from tests.cli.commands import SECONDS, run_process, tolliver
from tests.disks import small_disk
from tests.spark.stories import tell_all
from tests.spark.witnesses import OUT, Witness
from tolliver_proto import Message

COUNTS = ("sent", "acknowledged", "delivered", "duplicates", "resent", "unproven", "pending", "lost")


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("recordings")
    tell_all(directory, lambda number: number % 2 == 0)
    return directory


def test_the_command_prints_what_is_lost_and_writes_all_tables(recordings: Path, tmp_path: Path) -> None:
    tables = tmp_path / "it's tables"
    arguments = ("audit", recordings / "given_up-0", recordings / "given_up-1", "--parquet", tables)
    result = tolliver(*arguments)
    assert result.exit_code == 1
    head, line = result.stdout.splitlines()
    assert head.split() == ["from", "to", "channel", *COUNTS, *PERCENTILES, "max"]
    assert line.split()[:11] == ["given_up-0", "given_up-1", "'c'", *"32200001"]
    assert "lost = 1" in result.stderr
    assert sorted(path.name for path in tables.iterdir()) == sorted(TABLES)
    facts = pq.read_table(tables / "facts")
    assert (facts.column_names, facts.num_rows) == (FACTS.names, 2 * 4 + 8 + 1)
    again = tolliver(*arguments)
    assert again.exit_code == 1
    assert re.search(r"has deliveries, .* already", again.stderr)


def test_ids_that_were_used_again_are_told(recordings: Path) -> None:
    result = tolliver("audit", recordings / "another_shape-0", recordings / "another_shape-1")
    assert "1 sender gave ids to more than one message" in result.stderr


def test_without_recordings_there_is_no_audit(tmp_path: Path) -> None:
    refused = tolliver("audit", tmp_path)
    assert refused.exit_code == 1
    assert "no recordings (*.rec) in this directory" in refused.stderr


def test_a_process_without_pyspark_audits(recordings: Path, tmp_path: Path) -> None:
    refusing = "import sys; sys.modules['pyspark'] = None; from tolliver.cli import main; main()"
    command = [sys.executable, "-c", refusing, "audit", str(recordings / "plain-0"), str(recordings / "plain-1")]
    command += ["--html", str(tmp_path / "page")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "tolliver: lost = 0")


def test_without_duckdb_the_command_says_what_to_install(recordings: Path) -> None:
    refusing = "import sys; sys.modules['duckdb'] = None; from tolliver.cli import main; main()"
    command = [sys.executable, "-c", refusing, "audit", str(recordings)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    said = "tolliver: the module duckdb is missing: pip install 'tolliver-proto[audit]'\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_a_full_disk_under_its_tables_is_said(recordings: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 200 * 1024) as disk:
        refused = run_process("audit", recordings, TMPDIR=str(disk))
        assert refused.exit_code == 1
        (line,) = refused.stderr.splitlines()
        assert line.startswith("tolliver: the audit cannot go on: ")
        assert line.endswith("its tables are kept below TMPDIR until it ends: make room there, or choose another place")
        assert list(disk.iterdir()) == []


def test_names_of_any_text_are_told_apart(tmp_path: Path) -> None:
    """Behind a NUL too, and where a name looks like SQL."""
    names = ["a\0b", "a\0c", "'; DROP TABLE facts; --", "{facts}", "\N{DUCK}\u202e"]
    witness = Witness(tmp_path, 1)
    witness.record(0, OUT, UUID(int=2), 1, *(Message(name, name, b"", at) for at, name in enumerate(names, 1)))
    witness.end()
    done = tolliver("audit", tmp_path, "--json", "--html", tmp_path / "page")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted((row["channel"], row["sent"]) for row in rows) == sorted((name, 1) for name in names)


def test_an_empty_recording_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.rec").touch()
    done = tolliver("audit", tmp_path, "--json", "--html", tmp_path / "page")
    assert (done.exit_code, done.stdout) == (0, "")
