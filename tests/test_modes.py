"""Files that are written: regular ones, their owner's alone but for what is meant for others (D-13)."""

from __future__ import annotations

import ast
import os
import socket
import ssl
import stat
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest
from tolliver import blocking
from tolliver._cli.bundle import bundle
from tolliver._cli.export import export
from tolliver._cli.wireshark import install
from tolliver._messages.recorder import Recorder
from tolliver._private import MODE, make_directory, replacing, write_private
from tolliver._store.copying import back_up
from tolliver._tls.keylog import log_keys
from tolliver.certs import make_ca, make_certificate, revoke
from tolliver.sqlite import SQLiteStore

from tests.cli.commands import tolliver
from tests.staging.stages import ALICE, D2, messages, writer
from tolliver_proto import Revision, TolliverError

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "transports" / "tolliver"


@pytest.fixture(autouse=True)
def _others_could_read() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def wrong(directory: Path) -> dict[str, str]:
    """Files that others could read, with their modes."""
    files = {path: stat.S_IMODE(path.stat().st_mode) for path in directory.rglob("*") if path.is_file()}
    assert files
    public = {".pem"}
    return {path.name: oct(mode) for path, mode in files.items() if mode != MODE and path.suffix not in public}


def test_every_writer_makes_files_that_are_its_owners(tmp_path: Path) -> None:
    club = tmp_path / "certs"
    make_ca(club)
    revoke(club)
    members = {name: make_certificate(club, name) for name in ("alice", "bob")}
    options = {
        name: blocking.InstanceOptions(
            database=tmp_path / f"{name}.db",
            listen="localhost:0",
            tls=blocking.TLS(member.cert, member.key, member.ca, keylog=tmp_path / "keys.log"),
            record=tmp_path / f"{name}.recorded",
        )
        for name, member in members.items()
    }
    with (
        blocking.create_instance(options["alice"]) as alice,
        blocking.create_instance(options["bob"]) as bob,
    ):
        bob.subscribe("news", handler=lambda _delivery: None)
        alice.new_connection(f"localhost:{bob.port}")
        alice.wait_subscribed("news", "k")
        alice.wait_acked(alice.send("news", "k", b"x"))
        alice.admin.backup(tmp_path / "copy.db")
        there = {path.name for path in tmp_path.rglob("*")}
        assert {"alice.db", "alice.db-wal", "alice.db.mark", "bob.db", "copy.db", "keys.log"} <= there
        assert wrong(tmp_path) == {}
    staged = writer(tmp_path / "stage")
    staged.add(ALICE, 1, D2, messages(1, 3, b"x"))
    staged.sync()
    staged.close()
    exported = tolliver("recordings", "export", tmp_path / "alice.recorded", "--pcapng", tmp_path / "alice.pcapng")
    assert exported.exit_code == 0, exported.stderr
    assert wrong(tmp_path) == {}


def test_a_file_that_was_there_with_another_mode_gets_ours(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("longer than the next one")
    write_private(path, b"short")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"short", MODE)


# Nothing but regular files is made, replaced, changed or appended to.

BESIDE = {
    "_cli/appending.py": (("rename",), "a file that was opened here, under a name that no file has"),
    "_cli/bench.py": (("TemporaryDirectory",), "a fresh directory"),
    "_cli/bundle.py": (("ZipFile",), "into a file that `_private` has opened"),
    "_cli/connecting.py": (("TemporaryDirectory",), "a fresh directory"),
    "_conform/kit.py": (("TemporaryDirectory", "mkdir", "copy"), "in a fresh directory"),
    "_cli/helping.py": (("write_text",), "a paragraph of a help text"),
    "_cli/send.py": (("os.open",), "a named pipe, to read from it"),
    "_cli/standard.py": (("open", "os.open"), "descriptors that are closed lead to the null device"),
    "_cli/words.py": (("os.open",), "what is printed for nobody goes to the null device, as a device"),
    "_driver/unix.py": (("chmod", "fchmod"), "a socket, whose mode says who may connect"),
    "_store/copying.py": (
        ("connect", "link", "mkstemp", "rename"),
        "a copy grows under a fresh name, and takes the place of nothing",
    ),
    "_store/file.py": (("connect",), "SQLite opens by name: the database and all beside it were looked at before"),
    "_store/inspection.py": (("TemporaryDirectory",), "a fresh directory"),
    "_store/lock.py": (("os.open",), "the database that was looked at before, and is open"),
    "_store/scan.py": (("connect",), "to read alone"),
    "_store/memory.py": (("connect",), "no file"),
    "_store/reserve.py": (("truncate",), "a file that was found whole, or made here"),
    "_tls/keylog.py": (("keylog_filename",), "OpenSSL opens by name: the file was opened here before"),
    "_tls/material.py": (("mkstemp",), "a fresh file"),
    "_tls/policy.py": (("replace",), "of a list of revoked certificates, in memory"),
    "codecs/_protobuf.py": (("TemporaryDirectory",), "a fresh directory"),
    "spark/audit/_duckdb.py": (("TemporaryDirectory", "connect"), "a fresh directory, and a database in it"),
    "spark/local.py": (("TemporaryFile",), "a file without a name"),
    "spark/write/_numbering.py": (("TemporaryFile",), "a file without a name"),
}
"""Modules that make or change files by other means than `_private`, which, and why that is no danger."""

MAKERS = {
    *("write_text", "write_bytes", "copyfile", "copy", "copy2", "copytree", "move", "touch", "mkdir", "makedirs"),
    *("rename", "renames", "link", "symlink", "symlink_to", "hardlink_to", "chmod", "fchmod", "lchmod", "mkfifo"),
    *("mknod", "mkstemp", "mkdtemp", "TemporaryDirectory", "NamedTemporaryFile", "TemporaryFile"),
    *("connect", "replace", "truncate"),
}
"""Names of calls that make files, or may."""
OF_OTHERS = {"truncate": ("os",), "connect": ("sqlite3", "duckdb"), "move": ("shutil",), "copy": ("shutil",)}
"""Those of them that are meant of these modules alone."""


def makes_a_file(call: ast.Call) -> str | None:
    """Its name, where it may do so, and not with an `opener` of the place's."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    owner = ast.unparse(function.value) if isinstance(function, ast.Attribute) else ""
    if name == "open" and owner == "os":
        return None if "os.O_RDONLY" in ast.unparse(call) else "os.open"
    if name in ("open", "FileIO", "ZipFile"):
        modes = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        writes = any({*mode} <= {*"rwaxb+t"} and {*mode} & {*"wax+"} for mode in modes)
        return name if writes and not any(word.arg == "opener" for word in call.keywords) else None
    if name == "replace":  # a text's takes two arguments, and that of dataclasses keywords
        return name if owner == "os" or (owner and len(call.args) == 1 and not call.keywords) else None
    return name if name in MAKERS and owner in OF_OTHERS.get(name, (owner,)) else None


def test_files_are_made_in_one_place() -> None:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            name = makes_a_file(node) if isinstance(node, ast.Call) else None
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).endswith(".keylog_filename"):
                name = "keylog_filename"
            if name is not None:
                found[path.relative_to(SOURCES).as_posix()].add(name)
    assert {"fchmod", "mkdir", "os.open", "replace"} <= found.pop("_private.py")
    assert found == {name: {*calls} for name, (calls, _) in BESIDE.items()}


class Scene:
    """A call that makes a file at `where`, below a directory; `before` makes what else it needs there."""

    def __init__(self, where: str, call: Callable[[Path], object], before: Callable[[Path], object] = lambda _: None):
        self.where = where
        self.call = call
        self.before = before


def opened(home: Path) -> None:
    SQLiteStore(home / "node.db", instance_id=UUID(int=7)).close()


def recorded(home: Path) -> None:
    Recorder(home / "recordings", UUID(int=7), Revision.DRAFT_2, print)


def commanded(*arguments: str) -> Callable[[Path], None]:
    def call(home: Path) -> None:
        result = tolliver(*(one.replace("HOME", str(home)) for one in arguments))
        assert result.exit_code in (1, 2)
        raise ValueError(result.stdout + result.stderr)

    return call


def replaced(home: Path) -> None:
    with replacing(home / "file") as file:
        file.write(b"x")


SCENES = [
    *(Scene(f"node.db{suffix}", opened) for suffix in ("", "-wal", "-shm", "-journal")),
    *(Scene(f"node.db{suffix}", opened) for suffix in (".lock", ".mark", ".reserve", ".new", ".new-journal")),
    Scene("copy.db", lambda home: back_up(home / "node.db", home / "copy.db"), opened),
    Scene("recordings", recorded),
    Scene("keys.log", lambda home: log_keys(ssl.create_default_context(), home / "keys.log")),
    *(Scene(name, make_ca) for name in ("ca.pem", "ca.key")),
    *(Scene(name, lambda home: make_certificate(home, "alice"), make_ca) for name in ("alice.pem", "alice.key")),
    *(Scene(name, revoke, make_ca) for name in ("crl.pem", "crl.pem.new")),
    Scene("some.zip", lambda home: bundle(home / "some.zip")),
    Scene("found.pcapng", lambda home: export([], home / "found.pcapng")),
    *(Scene(f"tolliver.lua{suffix}", install) for suffix in ("", ".new")),
    *(Scene(name, writer) for name in ("stage.json", "stage.json.new", "head", "lock")),
    Scene("segments", lambda home: make_directory(home / "segments")),
    *(Scene(name, replaced) for name in ("file", "file.new")),
    Scene("file", lambda home: write_private(home / "file", b"x")),
    Scene("report.html", commanded("audit", "HOME", "--html", "HOME/report.html")),
    Scene("tables", commanded("audit", "HOME", "--parquet", "HOME/tables")),
    Scene("node.db", commanded("doctor", "127.0.0.1:1", "--plaintext", "--database", "HOME/node.db")),
]


def make_socket(path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as made:
        here = Path.cwd()
        os.chdir(path.parent)  # its name may be no longer than about a hundred bytes
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)


OTHERS: dict[str, Callable[[Path], object]] = {"a pipe": os.mkfifo, "a socket": make_socket, "a directory": Path.mkdir}


def state(home: Path) -> dict[str, tuple[int, int, float]]:
    found = {path.relative_to(home).as_posix(): path.lstat() for path in home.rglob("*")}
    return {name: (one.st_ino, one.st_mode, one.st_size) for name, one in found.items()}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes by name")
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.where)
@pytest.mark.parametrize("linked", [False, True], ids=["itself", "a link to one"])
def test_what_is_no_file_is_refused_and_left_alone(tmp_path: Path, scene: Scene, linked: bool) -> None:
    for number, (kind, make) in enumerate(OTHERS.items()):
        if kind == "a directory" and scene.where in ("recordings", "segments", "tables"):
            continue
        home = tmp_path / str(number)
        home.mkdir()
        scene.before(home)
        there = home / scene.where
        target = tmp_path / f"elsewhere {number}" if linked else there
        make(target)
        if linked:
            there.symlink_to(target)
        before = state(tmp_path)
        with pytest.raises((TolliverError, OSError, ValueError), match=f"is {kind}, and no"):
            scene.call(home)
        assert state(tmp_path) == before
