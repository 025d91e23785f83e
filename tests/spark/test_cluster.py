"""The page of clusters: its job, on a standalone cluster whose master and worker are processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path

import pytest
from pyarrow import dataset
from tolliver.spark.local import missing

from tests.ports import free_port

from .quick import INTERPRETED, JAVA, SOURCES
from .test_arriving import run
from .test_stagers import fill

PAGE = Path(__file__).parents[2] / "docs" / "spark-cluster.md"
PATIENCE = 300.0  # seconds, far above what a start takes
DEPLOY = "org.apache.spark.deploy"


@contextmanager
def standalone(directory: Path) -> Iterator[str]:
    """A master and a worker; the address of the master."""
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    commands = {
        "Master": ["master.Master", "--port", str(port)],
        "Worker": ["worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", str(directory / "work"), master],
    }
    variables = {"PYTHONPATH": SOURCES, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    variables |= {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": JAVA}
    with ExitStack() as stack:
        for name, (kind, *rest) in commands.items():
            log = directory / f"{name}.log"
            shown = ["--host", "127.0.0.1", "--webui-port", "0"]
            command = [str(Path(sys.executable).with_name("spark-class")), f"{DEPLOY}.{kind}", *shown, *rest]
            output = stack.enter_context(log.open("wb"))
            process = subprocess.Popen(command, env=os.environ | variables, stdout=output, stderr=subprocess.STDOUT)
            stack.callback(process.wait, PATIENCE)
            stack.callback(process.terminate)  # which has a worker end its executors
            deadline = time.monotonic() + PATIENCE
            ready = {"Master": "Starting Spark master", "Worker": "Successfully registered with master"}[name]
            while ready not in (said := log.read_text()):
                assert process.poll() is None, said
                assert time.monotonic() < deadline, said
                time.sleep(0.1)
        yield master


@pytest.mark.thorough  # four JVMs
def test_the_job_of_the_page_on_a_cluster_of_processes(tmp_path: Path) -> None:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    program = PAGE.read_text().partition("```python\n")[2].partition("```")[0]
    assert program.count("/mnt/") == 4
    job = tmp_path / "job.py"
    job.write_text(program.replace("/mnt/", f"{tmp_path}/"))
    (tmp_path / "stages").mkdir()
    fill(tmp_path / "stages" / "north", 1, 2, 3)
    fill(tmp_path / "stages" / "south", 4, 5)
    settings = {**INTERPRETED, "spark.python.authenticate.socketTimeout": "300s", "spark.executor.memory": "512m"}
    submit = [Path(sys.executable).with_name("spark-submit")]
    more = [*chain(*(("--conf", f"{name}={value}") for name, value in settings.items()))]
    with standalone(tmp_path) as master:
        said = run([*submit, "--master", master, *more, job], tmp_path, PYTHONPATH=SOURCES)
    assert "left: [0, 0]" in said
    table = dataset.dataset(tmp_path / "tables" / "readings", exclude_invalid_files=True, format="parquet")
    assert sorted(map(int, table.to_table(["body"])["body"].to_pylist())) == [1, 2, 3, 4, 5]
