"""Modes of the files that are written: their owner's alone, but for what is meant for others (D-13)."""

from __future__ import annotations

import ast
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tolliver_transports import blocking
from tolliver_transports._private import MODE, write_private
from tolliver_transports.certs import make_ca, make_certificate, revoke

from tests.cli.commands import tolliver
from tests.staging.stages import ALICE, D2, messages, writer

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "transports" / "tolliver_transports"
FOR_OTHERS = {
    "certs.py": "certificates and lists of revoked ones",
    "_cli/wireshark.py": "the dissector",
    "_private.py": "the place itself",
}
"""Modules that make files with another mode, and which."""


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
        alice.backup(tmp_path / "copy.db")
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


def opens_for_writing(call: ast.Call) -> bool:
    """By itself: not with an `opener`, which is the place's."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in ("write_text", "write_bytes", "copyfile", "copy2"):
        return True
    if name not in ("open", "FileIO") or any(
        word.arg == "opener" and ast.unparse(word.value) == "open_private" for word in call.keywords
    ):
        return False
    if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "os":
        return "O_CREAT" in ast.unparse(call)
    modes = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return any({*mode} <= {*"rwaxb+t"} and {*mode} & {*"wax+"} for mode in modes)


def test_no_module_makes_files_by_itself() -> None:
    found = {
        str(path.relative_to(SOURCES))
        for path in SOURCES.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(call, ast.Call) and opens_for_writing(call)
    }
    assert found - {*FOR_OTHERS} == set()
    assert "certs.py" in found
