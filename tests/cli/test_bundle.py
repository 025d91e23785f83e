"""`tolliver bundle`: the zip that Spark puts on the path of its workers."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

from tolliver._cli.bundle import PACKAGES

from tests.cli.commands import SECONDS, tolliver
from tests.cli.test_errors import the_line


def test_the_zip_is_enough_to_read_and_to_talk(tmp_path: Path) -> None:
    """Neither this package nor attrs is installed there: what else a worker has, the data source imports later."""
    made = tmp_path / "some.zip"
    made.write_text("an old one")
    result = tolliver("bundle", made, "--json")
    assert json.loads(result.stdout) | {"file": str(made)} == json.loads(result.stdout)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import tolliver; "
        "import tolliver.blocking.connection as found; "
        "from tolliver.spark import over_bytes, over_socket; print(found.__file__)"
    )
    command = [sys.executable, "-S", "-I", "-c", code, str(made)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True, cwd=tmp_path)
    assert done.stdout.startswith(str(made))
    again = tmp_path / "again.zip"
    assert f"{again}: " in tolliver("bundle", again).stderr
    assert again.read_bytes() == made.read_bytes()


def test_the_zip_has_what_is_no_module_too(tmp_path: Path) -> None:
    """The audit's queries and its style sheet, the status page, the dissector."""
    made = tmp_path / "some.zip"
    tolliver("bundle", made)
    places = {name: Path(find_spec(name).origin or "").parent for name in PACKAGES}  # type: ignore[union-attr]  # they are installed
    files = {f"{name}/{path.relative_to(place)}" for name, place in places.items() for path in place.rglob("*.*")}
    with zipfile.ZipFile(made) as archive:
        assert {name for name in files if "__pycache__" not in name} == set(archive.namelist())


def test_a_name_that_spark_does_not_take(tmp_path: Path) -> None:
    assert "so call it tolliver.zip" in the_line(tolliver("bundle", tmp_path / "tolliver.whl"))
    assert list(tmp_path.iterdir()) == []
