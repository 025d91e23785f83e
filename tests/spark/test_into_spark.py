"""Tutorial of docs/spark.md: its commands record three messages, and its program reads them in the tests' session."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.certificates import Certificates
from tests.cli.commands import running, tolliver
from tests.ports import free_address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
MESSAGES = 3


@pytest.mark.thorough
def test_the_commands_record_and_the_program_reads(spark: SparkSession, tmp_path: Path, certs: Certificates) -> None:
    for member in ("alice", "bob"):
        certs.tls(member)
    section = PAGE.read_text("utf-8").partition("## In ten minutes")[2].partition("\n## ")[0]
    text = section.replace("127.0.0.1:7011", free_address())
    text = text.replace("certs/bob.db", f"{tmp_path}/bob.db").replace("--certs certs", f"--certs {certs.directory}")
    text = text.replace("recordings", f"{tmp_path}/recordings")
    [listen] = re.findall(r"^tolliver (listen .*)$", text, re.MULTILINE)
    sends = re.findall(r"^tolliver (send .*)$", text, re.MULTILINE)
    assert len(sends) == MESSAGES
    database = ["--database", tmp_path / "alice.db"]
    with running(tmp_path / "listen.out", *shlex.split(listen), *database) as listening:
        for send in sends:
            assert tolliver(*shlex.split(send)).exit_code == 0
        assert listening.process.wait(60) == 0
    [program] = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    exec(compile(program, str(PAGE), "exec"), names)
    counted = names["messages"].groupBy("channel", "key").count().collect()
    rows = {(row["channel"], row["key"]): row["count"] for row in counted}
    shown = re.findall(r"^\|(\w+)\| *(\w+)\| +(\d+)\|$", text, re.MULTILINE)
    assert rows == {(channel, key): int(count) for channel, key, count in shown}
