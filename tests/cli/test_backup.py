"""`tolliver backup` and `tolliver outbox restored`, and the commands of docs/backup.md as they are typed there."""

from __future__ import annotations

import re
import shlex
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.commands import tolliver
from tests.store.given import everything, open_store, seqs, storing
from tolliver_proto.store import ReserveIds

PAGE = Path(__file__).parents[2] / "docs" / "backup.md"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "alice.db"
    with closing(open_store(path)) as store:
        store.commit([storing([1, 2]), ReserveIds(5000, 4096, 10)])
    return path


def test_the_page_says_what_happens(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    commands = [typed.splitlines() for block in blocks for typed in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    assert len(commands) == 5
    for typed, *output in commands:
        name, *arguments = shlex.split(typed)
        if name == "tolliver":
            result = tolliver(*arguments)
            assert (result.stdout + result.stderr).replace(str(tmp_path), "/backups").splitlines() == output
        else:
            subprocess.run([name, *arguments], check=True)
    with closing(open_store(database)) as store:
        assert seqs(everything(store)) == [1, 2]
        assert store.load().id_spans[0] == (5000, 4096 + 2**24)
        assert len(store.load().id_spans) == 2


def test_a_copy_is_made_beside_a_running_instance(database: Path, tmp_path: Path) -> None:
    with closing(open_store(database)) as store:
        store.commit([storing([3])])
        result = tolliver("backup", database, tmp_path / "copy.db")
    assert (result.exit_code, result.stderr) == (0, f"tolliver: {tmp_path / 'copy.db'}: a copy of {database}\n")
    with closing(open_store(tmp_path / "copy.db")) as store:
        assert seqs(everything(store)) == [1, 2, 3]


def test_a_running_instance_was_not_put_back(database: Path) -> None:
    with closing(open_store(database)) as store:
        before = store.load()
        result = tolliver("outbox", "restored", database)
        assert (result.exit_code, store.load()) == (1, before)
    assert "in use by another instance" in result.stderr


@pytest.mark.parametrize("command", [("backup", "away.db", "copy.db"), ("outbox", "restored", "away.db")])
def test_what_is_not_there_is_named_and_not_made(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = tolliver(*command)
    assert result.exit_code == 1
    assert "there is no database" in result.stderr
    assert list(tmp_path.iterdir()) == []
