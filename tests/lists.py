"""Lists that processes keep until they are killed.

A kill may tear what is written at once, at the end of a page. So each line says that it is whole, and none goes on
behind one that is torn.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_WHOLE = b";"


def append(fd: int, lines: Iterable[bytes]) -> None:
    """Write these lines at the end of the list, at once."""
    os.write(fd, b"".join(b"\n%s%s" % (line, _WHOLE) for line in lines))


def whole_lines(path: Path) -> list[bytes]:
    """Lines of the list, but for torn ones; none where there is no list."""
    if not path.exists():
        return []
    return [line.removesuffix(_WHOLE) for line in path.read_bytes().split(b"\n") if line.endswith(_WHOLE)]
