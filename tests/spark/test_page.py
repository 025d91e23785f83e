"""Examples of docs/spark.md, docs/spark-connections.md and examples/, as programs in the tests' session."""

from __future__ import annotations

import runpy
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from grpc_tools import protoc  # type: ignore[import-untyped]
from tolliver._messages.recorder import Recorder
from tolliver.blocking import Instance, InstanceOptions, create_instance

from tests.certificates import Certificates
from tests.examples.test_programs import FOLDER, IN_SPARK, SAID
from tests.spark.publishers import few, publishing
from tests.spark.receivers import PATIENCE, wait_for
from tests.spark.test_source import setting
from tests.test_docs import ROOT, programs
from tolliver_proto import Ack, HandshakeRequest, HandshakeResponse, HandshakeStatus, Message, Revision, encode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def record(directory: Path) -> None:
    """A hundred messages and their acks, and a connection that was refused."""
    recorder = Recorder(directory, UUID(int=1), Revision.DRAFT_2, print)
    recorder.received(1, encode(HandshakeRequest(1, UUID(int=2))))
    recorder.sent(1, [encode(HandshakeResponse(1, UUID(int=1), HandshakeStatus.SAME_VERSION))])
    for number in range(100):
        channel = ("readings", "alarms")[number % 90 % 2]
        recorder.received(1, encode(Message(channel, f"cpu{number % 90 % 4}", bytes(number % 90), number % 90)))
        recorder.sent(1, [encode(Ack(number % 90))])
    recorder.received(2, encode(HandshakeRequest(1, UUID(int=3))))
    recorder.sent(2, [encode(HandshakeResponse(2, UUID(int=1), HandshakeStatus.NEWER_INCOMPATIBLE))])
    recorder.close()


@contextmanager
def sending(certs: Certificates, count: int) -> Iterator[Instance]:
    """A sender, from the moment that somebody wants it to."""
    options = InstanceOptions(database=":memory:", listen="127.0.0.1:0", tls=certs.tls("sender"))
    with create_instance(options) as sender, ThreadPoolExecutor(1) as pool:

        def send() -> None:
            wait_for(lambda: any(peer.subscriptions for peer in sender.peers()))
            sender.send_many([("readings", "cpu", b"%d" % number) for number in range(count)])

        sent = pool.submit(send)
        yield sender
        sent.result(PATIENCE)


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_whole_connections(spark: SparkSession, tmp_path: Path, certs: Certificates) -> None:
    record(tmp_path / "recordings")
    [example] = programs(ROOT / "docs" / "spark-connections.md")
    certs.tls("task")
    with sending(certs, 1001) as sender, publishing(certs, temperatures=few(300)) as publisher:
        code = textwrap.dedent(example.code)
        for there, here in {
            '"recordings': f'"{tmp_path}/recordings',
            "certs/": f"{certs.directory}/",
            "01890000-0000-7000-8000-000000000001": str(certs.uuid("task")),
            ":7011": f":{sender.port}",
            ":7012": f":{publisher.port}",
        }.items():
            code = code.replace(there, here)
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(code, "docs/spark-connections.md", "exec"), names)
        [task] = sender.peers()
        assert (task.subscriptions, task.connected) == ((), False)
        assert task.pending <= 1
    assert names["reasons"].pop("None") == names["broken"] == sum(names["reasons"].values()) == 2
    assert [body for _, body in names["read"]] == few(1000)
    assert [row.element for row in names["elements"]] == few(300)


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_the_examples_run(spark: SparkSession, tmp_path: Path) -> None:
    record(tmp_path / "recordings")
    [example] = programs(ROOT / "docs" / "spark.md")
    code = textwrap.dedent(example.code)
    proto = Path(__file__).with_name("orders.proto")
    made = tmp_path / "shop.binpb"
    include = [f"-I{proto.parent}", f"-I{files('grpc_tools') / '_proto'}"]
    assert protoc.main(["protoc", *include, "--include_imports", f"--descriptor_set_out={made}", str(proto)]) == 0
    for name in ("recordings", "messages", "shop.binpb"):  # Spark is not where this process is now
        code = code.replace(f'"{name}', f'"{tmp_path}/{name}').replace(f"'{name}'", f"'{tmp_path}/{name}'")
    names: dict[str, Any] = {}
    with setting(spark, "spark.sql.python.filterPushdown.enabled", "false"):  # which the page changes
        exec(compile(code, "docs/spark.md", "exec"), names)
    assert (names["once"].count(), names["sizes"].count(), names["acks"]) == (90, 100, 100)
    assert names["received"].where("channel = 'alarms'").count() == names["alarms"]
    assert names["unread"].count() == 100  # bodies of zeros are neither JSON nor orders, but for those without any
    assert (names["good"].count(), names["bad"].count()) == (2, 98)
    assert [row.price for row in names["prices"].collect()] == [None] * 100
    assert len(names["some"]) == names["received"].where("channel = 'readings' AND key = 'cpu1'").count()


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
@pytest.mark.parametrize("name", IN_SPARK)
def test_the_program_says_what_it_did(
    name: str,
    spark: SparkSession,
    tmp_path: Path,
    certs: Certificates,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for member in ("alice", "bob", "job"):
        certs.tls(member)
    (tmp_path / "certs").symlink_to(certs.directory)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    assert SAID[name] in capsys.readouterr().out.splitlines()
