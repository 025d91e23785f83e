"""`tolliver init`: nothing overwritten, and programs that the pages show. `tests/test_learn.py` runs them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tolliver._cli.init import WRITTEN, text_of

from tests.cli.commands import tolliver
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
MADE = {
    *("alice.py", "bob.py", "bob.toml"),
    *(f"certs/{name}.{end}" for name in ("ca", "alice", "bob") for end in ("pem", "key")),
}
MOST_LINES = 26


def contents(directory: Path) -> dict[str, bytes]:
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*.*")}


def test_it_writes_all_that_the_commands_need(tmp_path: Path) -> None:
    made = json.loads(tolliver("init", tmp_path / "new" / "demo", "--json").stdout)
    assert {Path(path).relative_to(tmp_path / "new" / "demo").as_posix() for path in made["files"]} == MADE
    assert contents(tmp_path / "new" / "demo").keys() == MADE
    assert made["directory"] == str(tmp_path / "new" / "demo")
    assert all({*command.split()} & {*MADE} for command in made["commands"])
    assert tolliver("config", "check", tmp_path / "new" / "demo" / "bob.toml").exit_code == 0


def test_commands_for_the_folder_that_one_is_in_need_no_cd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "cd " not in tolliver("init").stdout
    assert "\n  cd 'my demo' && python bob.py " in tolliver("init", "my demo").stdout


def test_a_sender_without_a_receiver_says_what_to_do(tmp_path: Path) -> None:
    tolliver("init", tmp_path)
    program = tmp_path / "alice.py"
    program.write_text(program.read_text().replace("timeout=10", "timeout=0.1").replace("7011", str(free_port())))
    ended = subprocess.run([sys.executable, program.name], cwd=tmp_path, capture_output=True, timeout=60, check=False)
    said = ended.stderr.decode()
    assert (ended.returncode, ended.stdout) == (1, b""), said
    assert "Traceback" not in said
    assert said.splitlines()[-1].startswith("Start bob.py first, then try again: after 0.1 s fewer than 1 peers ")


@pytest.mark.parametrize("name", sorted({*MADE, "alice.db", "bob.db"}))
def test_where_one_file_is_there_nothing_is_written(name: str, tmp_path: Path) -> None:
    there = tmp_path / name
    there.parent.mkdir(exist_ok=True)
    there.write_text("mine")
    result = tolliver("init", tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"tolliver: already there: {there}. Nothing was written: give another directory\n"
    assert contents(tmp_path) == {name: b"mine"}


def test_a_link_that_leads_nowhere_is_a_file_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "bob.py").symlink_to(tmp_path / "elsewhere.py")
    assert tolliver("init", tmp_path).exit_code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["bob.py"]


@pytest.mark.parametrize(
    ("page", "end"), [("README.md", ".py"), ("docs/first-message.md", ".py"), ("docs/config-and-service.md", ".toml")]
)
def test_a_page_shows_the_files_as_they_are_written(page: str, end: str) -> None:
    shown = {*re.findall(r"^```(?:python|toml)\n(.*?)^```", (ROOT / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)}
    assert [name for name in WRITTEN if name.endswith(end) and text_of(name).decode() not in shown] == []


def test_the_programs_are_short() -> None:
    assert [name for name in WRITTEN if text_of(name).count(b"\n") > MOST_LINES] == []
