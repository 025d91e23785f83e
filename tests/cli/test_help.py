"""Help of commands, completion in shells, and output in pipes and on terminals."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tolliver._cli.commands import app
from tolliver._cli.helping import HEADINGS, INSTANCE, Group
from tolliver._options.table import TABLE, flag_of
from typer.main import get_command

from tests.cli.commands import COMMAND, SECONDS, run_process, tolliver

CERTIFICATES = ("certs", "certs", "alice")


def commands() -> dict[str, Any]:
    """All of them, by what is typed."""

    def within(group: Any, typed: str) -> Iterator[tuple[str, Any]]:
        for name, command in group.commands.items():
            if isinstance(command, Group):
                yield from within(command, f"{typed}{name} ")
            else:
                yield f"{typed}{name}", command

    return dict(within(get_command(app), ""))


COMMANDS = commands()
SCRIPTS = {
    "completion",
    "config example",
    "config schema",
    "letters export",
    "outbox-table",
    "inbox-table",
}  # their output is a file


@pytest.mark.parametrize("typed", COMMANDS)
def test_each_has_examples_that_can_be_typed_and_its_exit_statuses(typed: str) -> None:
    shown = tolliver(*typed.split(), "--help").stdout
    examples, _, statuses = shown.partition("\nExamples:\n")[2].partition("\n\nExit status:\n")
    assert {line.split()[0] for line in statuses.splitlines()} >= {"0", "1", "2"}
    assert examples
    for example in examples.splitlines():
        command, *arguments = shlex.split(example.split(" > ")[0])
        assert command == "tolliver"
        words = typed.split()
        if words[-1] == "list" and "list" not in arguments:
            words = words[:-1]
        assert arguments[: len(words)] == words
        COMMANDS[typed].make_context(typed, arguments[len(words) :]).close()


@pytest.mark.parametrize("typed", COMMANDS)
def test_each_can_answer_in_json_and_names_what_its_options_take(typed: str) -> None:
    options = [one for one in COMMANDS[typed].params if one.param_type_name == "option"]
    assert ("--json" in {name for one in options for name in one.opts}) is (typed not in SCRIPTS)
    assert [one.name for one in options if not one.is_flag and not one.metavar] == []
    assert [one.name for one in options if not one.help] == []


@pytest.mark.parametrize("typed", ["", *COMMANDS])
def test_help_in_a_pipe_is_not_wrapped_and_not_padded(typed: str) -> None:
    lines = tolliver(*typed.split(), "--help").stdout.splitlines()
    assert lines[0].startswith("Usage: ")
    assert [line for line in lines if line != line.rstrip() or "<" in line or "│" in line] == []
    command = COMMANDS.get(typed)
    for one in command.params if command else []:
        shown = any(line.startswith(f"  {one.opts[0]}") for line in lines)
        assert shown is (one.rich_help_panel != INSTANCE) or one.param_type_name == "argument"


def test_each_command_stands_under_one_heading() -> None:
    named = [name for names in HEADINGS.values() for name in names]
    assert sorted(named) == sorted({typed.split()[0] for typed in COMMANDS})
    shown = tolliver("-h").stdout
    assert [line[:-1] for line in shown.splitlines() if line in {f"{one}:" for one in HEADINGS}] == [*HEADINGS]
    assert all(f"\n  {name}  " in shown for name in named)


@pytest.mark.parametrize("typed", ["", "outbox", *COMMANDS])
def test_h_is_help(typed: str) -> None:
    assert tolliver(*typed.split(), "-h") == tolliver(*typed.split(), "--help")


def test_the_package_runs_as_the_command() -> None:
    shown = run_process("--version", command=(sys.executable, "-m", "tolliver"))
    assert shown == run_process("--version")
    assert shown.exit_code == 0


@pytest.mark.parametrize("typed", ["listen", "send", "replay"])
def test_every_option_of_an_instance_is_a_flag(typed: str) -> None:
    flags = {name for one in COMMANDS[typed].params for name in (*one.opts, *one.secondary_opts)}
    assert {flag_of(key) for key in TABLE} - flags <= {"--channel"}  # `send` subscribes to nothing


def test_a_line_that_cannot_be_meant_is_told_plainly() -> None:
    result = tolliver("listen", "--limits.max-bdy", "5")
    assert result.exit_code == 2
    assert "No such option: --limits.max-bdy" in result.stderr
    assert "│" not in result.stderr


# Terminals.


def on_a_terminal(*arguments: object, columns: int = 80) -> str:
    """Output of the command on a terminal."""
    theirs, ours = pty.openpty()
    env = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
    with subprocess.Popen([*COMMAND, *map(str, arguments)], stdout=ours, stderr=ours, env=env) as process:
        os.close(ours)
        shown = b""
        try:
            while piece := os.read(theirs, 65536):
                shown += piece
        except OSError:  # Linux says so at the end of a terminal
            pass
        assert process.wait(SECONDS) == 0
    os.close(theirs)
    return re.sub("\x1b\\[[0-9;]*m", "", shown.decode().replace("\r\n", "\n"))


def test_on_a_terminal_help_is_wrapped_and_a_wide_row_has_a_line_for_each_cell(tmp_path: Path) -> None:
    lines = on_a_terminal("send", "--help").splitlines()
    examples = lines.index("Examples:")
    assert max(map(len, lines[:examples])) <= 80
    made = on_a_terminal("certs", tmp_path, "alice", "--host", "a.example")
    rows = dict(line.split(maxsplit=1) for line in made.splitlines()[-7:])
    assert list(rows) == ["name", "uuid", "names", "spki_sha256", "expires", "certificate", "key"]
    assert rows["names"] == "a.example"
    wide = on_a_terminal("options", columns=350).splitlines()
    assert wide[0].split() == ["flag", "key", "takes", "default", "help", "sentence"]
    assert len(wide) == len(TABLE) + 1


# Shells.


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """An environment in which `tolliver` is found."""
    program = tmp_path / "bin" / "tolliver"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tolliver.cli "$@"\n')
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}


DRIVERS = {
    "bash": """
        COMP_WORDS=($LINE); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _tolliver_completion tolliver; printf '%s\\n' "${COMPREPLY[@]}"
    """,
    "zsh": "words=(${=LINE}); CURRENT=${#words}; _tolliver_completion",
    "fish": "complete -C $LINE",
}
BEFORE = {"zsh": "compdef() { : }; _arguments() { print -r -- $@ }; _files() { : }\n"}


@pytest.mark.parametrize("name", DRIVERS)
def test_a_shell_completes_commands_and_options(name: str, shell: dict[str, str], tmp_path: Path) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    script = tmp_path / "script"
    script.write_text(BEFORE.get(name, "") + tolliver("completion", name).stdout + DRIVERS[name])
    for line, word, other in (
        ("tolliver lis", "listen", "send"),
        ("tolliver listen --limits.max-b", "--limits.max-body", "--limits.max-handshake"),
        ("tolliver outbox re", "retry", "drop"),
        ("tolliver send c k --probe m", "message", "ack"),
    ):
        ended = subprocess.run(
            [name, str(script)],
            env={**shell, "LINE": line},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
        )
        assert word in ended.stdout, (line, ended)
        assert other not in ended.stdout


def test_certificates_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = json.loads(tolliver(*CERTIFICATES, "--host", "a.example", "--host", "::1", "--json").stdout)
    assert (made["name"], made["names"]) == ("alice", ["a.example", "::1"])
    pinned = json.loads(tolliver("pin", "certs/alice.pem", "--json").stdout)
    assert {name: made[name] for name in ("names", "spki_sha256", "expires", "certificate")} == {
        name: pinned[name] for name in ("names", "spki_sha256", "expires", "certificate")
    }
    assert "localhost, " in tolliver("certs", "other", "bob").stdout
