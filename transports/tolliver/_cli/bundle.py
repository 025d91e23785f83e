"""`tolliver bundle`: this package and attrs in one zip file for Spark.

Spark puts only `.zip`, `.egg` and `.jar` files on its workers' path. The other packages needed there, pyarrow and
numpy, are needed by Spark itself.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from .._private import FOR_OTHERS, replacing

PACKAGES = ("tolliver_proto", "tolliver", "pyspark_tolliver", "attr", "attrs")
_NO_TIME = (1980, 1, 1, 0, 0, 0)  # a fixed time, so that equal files give an equal zip


def bundle(file: Path) -> int:
    """Write the zip file; returns its number of files. Raises OSError, and ValueError for a name that Spark would treat
    otherwise."""
    if file.suffix != ".zip":
        raise ValueError(f"{file}: Spark puts .zip, .egg and .jar on the workers' path, so call it {file.stem}.zip")
    beginning = file.with_name(f".{file.name}.{os.getpid()}")  # unique: another process may write this zip
    count = 0
    with (
        replacing(file, FOR_OTHERS, beginning) as made,
        zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name, path in _files():
            archive.writestr(zipfile.ZipInfo(name, _NO_TIME), path.read_bytes(), zipfile.ZIP_DEFLATED)
            count += 1
    return count


def _files() -> Iterator[tuple[str, Path]]:
    """(name in the zip, file) pairs. A package that is not installed is left out."""
    for package in PACKAGES:
        spec = find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec is not None else ():
            for path in sorted(Path(place).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    yield f"{package}/{path.relative_to(place).as_posix()}", path
