"""`tolliver bundle`: this package and attrs in one zip for Spark.

Spark puts nothing on its workers' path but `.zip`, `.egg` and `.jar`. All that is needed beside it there, Spark needs
itself: pyarrow and numpy.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from .._private import FOR_OTHERS, replacing

PACKAGES = ("tolliver_proto", "tolliver", "pyspark_tolliver", "attr", "attrs")
_NO_TIME = (1980, 1, 1, 0, 0, 0)  # so that the same files make the same zip


def bundle(file: Path) -> int:
    """Returns the number of files in the zip. Raises OSError, and ValueError for a name that Spark takes otherwise."""
    if file.suffix != ".zip":
        raise ValueError(f"{file}: Spark puts .zip, .egg and .jar on the workers' path, so call it {file.stem}.zip")
    beginning = file.with_name(f".{file.name}.{os.getpid()}")  # another process may be making the same one
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
    """Names in the zip, and files. A package that is not installed beside the others is left out."""
    for package in PACKAGES:
        spec = find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec is not None else ():
            for path in sorted(Path(place).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    yield f"{package}/{path.relative_to(place).as_posix()}", path
