"""A PostgreSQL server for tests: Debian's programs, in a directory of its own, on a Unix socket alone.

PostgreSQL runs under no root, so root starts it as `postgres` or `nobody`. It syncs nothing: no power fails here.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SETTINGS = ("listen_addresses=", "fsync=off", "full_page_writes=off", "max_connections=40", "shared_buffers=16MB")


def programs() -> Path | None:
    """The folder of PostgreSQL's programs; None without any."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).parent
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    return places[-1].parent if places else None


def user() -> str | None:
    """The user of the server, where that is another one than the test's."""
    if os.geteuid() != 0:
        return None
    names = {one.pw_name for one in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in names)


@contextmanager
def server() -> Iterator[str]:
    """A running server; what `psycopg.connect` takes for its database."""
    folder = programs()
    assert folder is not None
    with tempfile.TemporaryDirectory(prefix="tolliver-pg-") as name:
        directory, owner = Path(name), user()
        if owner is not None:
            shutil.chown(directory, owner)
        data = directory / "data"

        def run(program: str, *arguments: str) -> None:
            command = [str(folder / program), "-D", str(data), *arguments]
            subprocess.run(command, user=owner, check=True, timeout=60, cwd=directory, stdout=subprocess.DEVNULL)

        run("initdb", "--no-sync", "--auth=trust", "--username=tolliver", "--encoding=UTF8", "--locale=C")
        settings = " ".join(f"-c {one}" for one in (*_SETTINGS, f"unix_socket_directories={directory}"))
        run("pg_ctl", "-w", "-l", str(directory / "log"), "-o", settings, "start")
        try:
            yield f"host={directory} user=tolliver dbname=postgres"
        finally:
            run("pg_ctl", "-m", "immediate", "stop")
