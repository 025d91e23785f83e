"""Wireshark dissector: its text, and Wireshark's plugin folder."""

from __future__ import annotations

import os
import sys
from importlib import resources
from pathlib import Path

from .._private import FOR_OTHERS, make_directory, must_be_file, replacing

NAME = "tolliver.lua"


def dissector() -> str:
    return resources.files(__package__).joinpath(NAME).read_text("utf-8")


def plugins() -> Path:
    """Folder of the user's own plugins, for all versions of Wireshark."""
    if sys.platform == "win32":
        return Path(os.environ["APPDATA"], "Wireshark", "plugins")
    return Path.home() / ".local" / "lib" / "wireshark" / "plugins"


def install(folder: Path) -> Path:
    """Write the dissector there, replacing an earlier one of ours. Raises OSError, and ValueError if the file is not
    ours."""
    text, path = dissector(), folder / NAME
    must_be_file(path)
    ours = text.partition(":")[0]
    if path.exists() and not path.read_text("utf-8", "replace").startswith(ours):
        raise ValueError(f"{path} is no dissector of tolliver's: move it away, or name another folder with --to")
    make_directory(folder, 0o777)
    with replacing(path, FOR_OTHERS) as file:
        file.write(text.encode())
    return path
