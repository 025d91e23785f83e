"""Examples of docs/spark.md, as one program in the tests' session."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from tolliver_transports._messages.recorder import Recorder

from tests.spark.test_source import setting
from tests.test_docs import ROOT, programs
from tolliver_proto import Ack, HandshakeRequest, Message, Revision, encode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def record(directory: Path) -> None:
    """A hundred messages and their acks, as the page has them."""
    recorder = Recorder(directory, UUID(int=1), Revision.DRAFT_2, print)
    recorder.received(1, encode(HandshakeRequest(1, UUID(int=2))))
    for number in range(100):
        channel = ("readings", "alarms")[number % 90 % 2]
        recorder.received(1, encode(Message(channel, f"cpu{number % 90 % 4}", bytes(number % 90), number % 90)))
        recorder.sent(1, [encode(Ack(number % 90))])
    recorder.close()


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_the_examples_run(spark: SparkSession, tmp_path: Path) -> None:
    record(tmp_path / "recordings")
    [example] = programs(ROOT / "docs" / "spark.md")
    code = textwrap.dedent(example.code)
    for name in ("recordings", "messages"):  # Spark is not where this process is now
        code = code.replace(f'"{name}', f'"{tmp_path}/{name}')
    names: dict[str, Any] = {}
    with setting(spark, "spark.sql.python.filterPushdown.enabled", "false"):  # which the page changes
        exec(compile(code, "docs/spark.md", "exec"), names)
    assert (names["once"].count(), names["sizes"].count(), names["acks"]) == (90, 100, 100)
    assert names["received"].where("channel = 'alarms'").count() == names["alarms"]
