"""Lists of processes that are killed."""

from __future__ import annotations

import os
from pathlib import Path

from tests.lists import append, whole_lines


def test_a_line_that_a_kill_has_torn_is_none_and_spoils_no_other(tmp_path: Path) -> None:
    """It may have been cut to the name of another line, or to nothing."""
    names = [b"12.3", b"12.34"]
    for cut in range(14):
        path = tmp_path / f"{cut}"
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        append(fd, names)
        os.ftruncate(fd, cut)
        append(fd, [b"13.0"])
        os.close(fd)
        kept = (cut >= len(b"\n12.3;")) + (cut >= len(b"\n12.3;\n12.34;"))
        assert whole_lines(path) == [*names[:kept], b"13.0"]
    assert whole_lines(tmp_path / "none") == []
