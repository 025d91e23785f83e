"""Errors of commands: one line with a remedy, and exit status 1."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tolliver.certs import make_ca, make_certificate

from tests.cli.commands import SECONDS, Result, listener, tolliver
from tests.cli.conftest import Who
from tolliver_proto import ReservedChannel, __version__, build_info


def the_line(result: Result) -> str:
    line, *more = result.stderr.splitlines()
    assert (more, result.exit_code) == ([], 1)
    assert line.startswith("tolliver: ")
    return line


@pytest.fixture
def taken() -> Iterator[str]:
    """An address where somebody else listens already."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_certificates_of_another_ca(who: Who, tmp_path: Path) -> None:
    make_ca(tmp_path / "other")
    make_certificate(tmp_path / "other", "mallory")
    mallory = ("--certs", tmp_path / "other", "--name", "mallory")
    with listener(tmp_path / "out", who("alice"), "--listen", "127.0.0.1:0") as alice:
        result = tolliver("send", "c", "k", "x", "--connect", alice.address, *mallory, "--database", tmp_path / "m.db")
        assert "both sides need certificates of the same private CA" in the_line(result)
        assert result.stdout == ""
        result = tolliver("listen", "--connect", alice.address, *mallory)
        assert "both sides need certificates of the same private CA" in result.stderr.splitlines()[-1]
        assert result.exit_code == 1
        assert alice.interrupt() == 0


def test_a_port_in_use(who: Who, taken: str) -> None:
    assert f"cannot listen on {taken}" in the_line(tolliver("listen", "--listen", taken, *who("alice")))


def test_a_database_in_use(who: Who, tmp_path: Path) -> None:
    with listener(tmp_path / "out", who("alice"), "--listen", "127.0.0.1:0"):
        line = the_line(tolliver("listen", "--listen", "127.0.0.1:0", *who("alice")))
        assert "alice.db is in use by another instance" in line


LISTEN = ("listen", "--listen", "127.0.0.1:0")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*LISTEN, "--database", "d.db"), "no certificates: give either --certs DIR --name NAME"),
        ((*LISTEN, "--certs", "c", "--name", "n", "--plaintext"), "more than one way to say who this is"),
        ((*LISTEN, "--certs", "c", "--database", "d.db"), "--certs goes with --name"),
        ((*LISTEN, "--cert", "c", "--database", "d.db"), "--cert with --key-file and --ca"),
        ((*LISTEN, "--plaintext"), "no database: give --database FILE"),
        ((*LISTEN, "--certs", "nowhere", "--name", "n"), "cannot be read (No such file"),
        (("listen", "--plaintext", "--database", "d.db"), "nobody to talk to"),
        (("listen", "--plaintext", "--database", "d.db", "--listen", "0.0.0.0:0"), "would leave this machine"),
        (("listen", "--plaintext", "--database", "d.db", "--connect", "a:b:c"), "several colons"),
        (("send", "c", "k", "--plaintext", "--database", "d.db", "--connect", "localhost"), "what is to be sent?"),
        (
            ("send", "c", "k", "--file", "none", "--plaintext", "--database", "d.db", "--connect", "localhost"),
            "none: No such file or directory",
        ),
        (("decode", "none"), "none: No such file or directory"),
        (("decode", "."), ".: no recordings (*.rec) in this directory"),
        (
            ("replay", "none", "--plaintext", "--database", "d.db", "--to", "localhost"),
            "none: No such file or directory",
        ),
    ],
)
def test_what_is_missing_or_said_twice(
    arguments: tuple[str, ...], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert words in the_line(tolliver(*arguments))
    assert not list(tmp_path.glob("*.db"))


def test_a_traceback_for_those_who_want_one(monkeypatch: pytest.MonkeyPatch, who: Who) -> None:
    send = ("send", "tolliver", "k", "x", "--listen", "127.0.0.1:0", "--timeout", 0, *who("alice", own=True))
    assert "the protocol's own" in tolliver(*send).stderr
    monkeypatch.setenv("TOLLIVER_DEBUG", "1")
    with pytest.raises(ReservedChannel):
        tolliver(*send)


@pytest.mark.parametrize("missing", ["typer", "anyio"])
def test_what_to_install(missing: str) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; from tolliver.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", program, "send", "c", "k", "x"], capture_output=True, timeout=SECONDS, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr.decode() == f"tolliver: the module {missing} is missing: pip install 'tolliver-proto[cli]'\n"


def test_version() -> None:
    result = tolliver("--version")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"tolliver {__version__}",
        "build: compiled" if build_info().compiled else "build: pure Python",
        "wire: layout 2, and 1, go-seed, go-d05f89b, go-499b76d, go-2026, rust-2026, 2-letter",
        "database: layout 3, and 1, 2",
        "stage: layout 2, and 1",
        "recordings: layout 2, and 1",
    ]


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("certs",),
        ("listen",),
        ("send",),
        ("stage",),
        ("decode",),
        ("replay",),
        ("peers",),
        ("doctor",),
        ("outbox",),
        ("outbox", "retry"),
    ],
)
def test_help(command: tuple[str, ...]) -> None:
    result = tolliver(*command, "--help")
    assert result.exit_code == 0
    assert "Usage: " in result.stdout
