"""Types of the public interface and of every example, in strict mypy and strict pyright.

Many editors ask pyright. It knows each type of a public name, and finds no fault in the programs of the pages and of
`examples/`. It takes 100 seconds of a processor, so `make thorough` asks it. It runs on Node.js: where that is missing,
its tests say so and are skipped.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.test_docs import EXAMPLES, ROOT

pytestmark = pytest.mark.typed

_UNTYPED = ["spark-connections.md:fragments"]  # functions over Arrow, which has no types of its own
_UNUSED = "reportUnusedVariable=false, reportUnusedFunction=false"
"""A page gives names to what its reader goes on with."""
_LOOSER = {"spark.md:fragments": "reportUnknownMemberType=false"}  # Spark's call for functions over Arrow
_READ = ["examples", "tests/codecs/typed_values.py", "tests/codecs/typed_mistakes.py"]
# Django has no types, and the one with tasks is not on every Python.
_UNREAD = ["examples/with_django", "examples/web/django_app.py"]
_SOURCES = [str(ROOT), str(ROOT / "transports")]


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, check=False, cwd=ROOT, env=environment
    )


def pyright(*options: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("node") is None:
        pytest.skip("node is not installed, on which pyright runs")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # `--verifytypes` takes the first `python`
    settings = {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1", "PATH": path}
    return run("pyright", "--pythonpath", sys.executable, *options, **settings)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all programs of the pages."""
    folder = tmp_path_factory.mktemp("programs")
    for example in (one for one in EXAMPLES if one.name not in _UNTYPED):
        rules = ", ".join(filter(None, (_UNUSED, _LOOSER.get(example.name))))
        name = re.sub(r"\W", "_", example.name)
        (folder / f"{name}.py").write_text(f"# pyright: {rules}\n{textwrap.dedent(example.code)}", "utf-8")
        if example.beside:
            (folder / f"{name}_beside.py").write_text(example.beside, "utf-8")
    return folder


def test_mypy_finds_no_fault_in_the_pages(programs: Path) -> None:
    settings = ["--strict", "--config-file", str(ROOT / "pyproject.toml"), "--scripts-are-modules"]
    done = run("mypy", *settings, *map(str, sorted(programs.glob("*.py"))), MYPYPATH=os.pathsep.join(_SOURCES))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.thorough
def test_pyright_finds_no_fault_in_programs_and_each_planned_mistake(programs: Path) -> None:
    settings = {
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "include": [".", *(os.path.relpath(ROOT / path, programs) for path in _READ)],
        "exclude": [os.path.relpath(ROOT / path, programs) for path in _UNREAD],
        "extraPaths": _SOURCES,
    }
    (programs / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    done = pyright("--project", str(programs))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("package", ["tolliver_proto", "tolliver"])
def test_pyright_knows_every_type_of_the_public_interface(package: str) -> None:
    done = pyright("--verifytypes", package, "--ignoreexternal")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Type completeness score: 100%" in done.stdout
