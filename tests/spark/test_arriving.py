"""Deployment of tolliver to Spark: wheel, zip, and Spark Connect."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from itertools import chain
from pathlib import Path
from zipfile import ZipFile

import pytest
from tolliver.spark.local import missing
from tolliver.staging import FolderOptions, StageWriter

import tolliver_proto
from tests.wire.test_wheel import build
from tolliver_proto import Message, Revision

from .quick import INTERPRETED, JAVA, SOURCES
from .recordings import PEER, block, write

HERE = Path(__file__).parent
PATIENCE = 600  # seconds, far above what any of them takes


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    return build(tmp_path_factory.mktemp("wheel"))


def run(command: list[str | Path], cwd: Path, **variables: str) -> list[str]:
    """The program's output, line by line. It sees nothing of this working tree but what is given."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_TOOL_OPTIONS": JAVA,
    }
    environment |= variables
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-5000:]}"
    return done.stdout.splitlines()


def recording(folder: Path) -> Path:
    return write(
        folder / "a.rec", [block([Message("a", f"k{number}", b"", 1), Message("b", "", b"", 2)]) for number in range(3)]
    )


def staged(directory: Path) -> Path:
    """Seven messages."""
    writer = StageWriter(FolderOptions(directory=directory))
    writer.add(PEER, 1, Revision.DRAFT_2, [Message("a", "", b"", number) for number in range(1, 8)])
    writer.sync()
    writer.close()
    return directory


@pytest.mark.thorough
def test_as_a_zip_beside_a_program(wheel: Path, tmp_path: Path) -> None:
    """`--py-files`: Spark does not look into it for sources, so the program registers; a wheel is such a zip."""
    everything = tmp_path / "everything.zip"
    shutil.copy(wheel, everything)
    core, package = tmp_path / "core.zip", Path(tolliver_proto.__file__).parent
    with ZipFile(core, "w") as archive:
        for module in package.rglob("*.py"):
            archive.write(module, module.relative_to(package.parent))
    submit = Path(sys.executable).with_name("spark-submit")
    quick = {**INTERPRETED, "spark.python.worker.reuse": "false"}
    settings = ["--master", "local[2]", *chain(*(("--conf", f"{name}={value}") for name, value in quick.items()))]
    program: list[str | Path] = ["--py-files", everything, HERE / "shipped.py", recording(tmp_path), core]
    program.append(staged(tmp_path / "stage"))
    packages = {"PYSPARK_PYTHON": str(Path(sys.executable).resolve()), "PYTHONPATH": sysconfig.get_path("purelib")}
    lines = run([submit, *settings, *program], tmp_path, **packages)  # not what `pip install --editable` shows them
    said = dict(line.split(" ", 1) for line in lines)
    assert said["source"].startswith("6 ")
    assert f"{everything.name}/tolliver/spark/source.py" in said["source"]
    assert said["stream"] == "7 [0]"
    assert (said["batches"], said["events"]) == ("6", "6")
    assert said["core"].startswith("True ")
    assert "core.zip/tolliver_proto/" in said["core"]


@pytest.mark.thorough
def test_installed_and_found_by_itself_through_spark_connect(wheel: Path, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'pyspark[connect]'")
    installed = tmp_path / "installed"
    with ZipFile(wheel) as archive:
        archive.extractall(installed)  # all that installing a wheel of pure Python does
    stage = staged(tmp_path / "stage")
    quick = json.dumps(INTERPRETED)
    program: list[str | Path] = [sys.executable, HERE / "connected.py", recording(tmp_path), stage, quick]
    said = run(program, tmp_path, PYTHONPATH=str(installed))
    assert said == [
        f"found pyspark.sql.connect.session 3 {installed}/tolliver",
        "registered ['', '', '', 'k0', 'k1', 'k2']",
        "batches 6",
        "typed 3 struct<value:struct<name:string>,error:string>",
        "stream 7 [0]",
    ]


def test_looking_for_sources_does_not_load_the_network(tmp_path: Path) -> None:
    """Spark imports every `pyspark_*` module there is, on the driver and the workers, whoever asks for what."""
    code = "import sys, pyspark_tolliver as found; print(found.DefaultSource.name(), *sys.modules)"
    [line] = run([sys.executable, "-c", code], tmp_path, PYTHONPATH=SOURCES)
    name, *modules = line.split()
    assert name == "tolliver"
    assert not {"anyio", "twisted", "attrs", "numpy", "pyarrow", "pandas", "sqlite3", "asyncio"} & set(modules)


def test_a_broken_tolliver_does_not_break_other_sources(tmp_path: Path) -> None:
    """Spark looks for all sources at once: an error there would take everybody's."""
    broken = tmp_path / "tolliver"
    broken.mkdir()
    (broken / "__init__.py").touch()
    code = "import pyspark_tolliver as found; print(found.__all__)"
    assert run([sys.executable, "-c", code], tmp_path, PYTHONPATH=f"{tmp_path}{os.pathsep}{HERE.parents[1]}") == ["[]"]
