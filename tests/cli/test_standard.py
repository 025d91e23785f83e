"""Standard streams of commands: pipes that stand still, that break, that end late, and that are closed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tolliver.blocking import InstanceOptions, create_instance

from tests.cli.commands import COMMAND, SECONDS, Listener, listener, unread, until
from tolliver_proto import Message, Revision, encode

ANY = ("--listen", "127.0.0.1:0")


def plain(directory: Path, name: str) -> tuple[object, ...]:
    return "--plaintext", "--database", directory / f"{name}.db"


@contextmanager
def started(*arguments: object, **streams: int) -> Iterator[subprocess.Popen[bytes]]:
    """A command whose streams are pipes unless they are given; killed in the end."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE) | streams
    with subprocess.Popen([*COMMAND, *map(str, arguments)], **pipes) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            process.kill()


def bob_at(directory: Path, address: str, name: str = "bob") -> InstanceOptions:
    return InstanceOptions(database=directory / f"{name}.db", plaintext=True, remotes=[address])


# Output that finds no room.


@pytest.mark.parametrize(
    "words",
    [("--version",), ("--help",), ("config", "example"), ("config", "schema"), ("completion", "bash"), ("options",)],
)
def test_output_without_room_is_named(tmp_path: Path, words: tuple[str, ...]) -> None:
    """As a full disk does, a limit on the size of files lets nothing in."""
    ended = subprocess.run(
        ["sh", "-c", 'ulimit -f 0; exec "$@" > out', "sh", *COMMAND, *words],
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        timeout=SECONDS,
        check=False,
    )
    said = ended.stderr.decode()
    assert said.startswith("tolliver: standard output cannot be written (File too large): make room"), said
    assert (said.count("\n"), ended.returncode) == (1, 1)


# A producer whose lines come now and then.


@pytest.fixture
def alice(tmp_path: Path) -> Iterator[Listener]:
    with listener(tmp_path / "out", plain(tmp_path, "alice"), *ANY) as alice:
        yield alice


@pytest.mark.parametrize(("loop", "signal_number"), [("--trio", signal.SIGTERM), ("", signal.SIGINT)])
def test_lines_go_as_they_come_and_a_signal_stores_what_was_read(
    alice: Listener, tmp_path: Path, signal_number: signal.Signals, loop: str
) -> None:
    if loop:
        pytest.importorskip("trio", reason="trio is not installed: pip install trio")
    words = ("send", "c", "k", "-", "--connect", alice.address, *plain(tmp_path, "bob"), *([loop] if loop else []))
    with started(*words) as bob:
        assert bob.stdin is not None
        bob.stdin.write(b"line 0\n")
        bob.stdin.flush()
        until(lambda: len(alice.lines()) == 1)
        bob.stdin.write(b"".join(b"line %d\n" % number for number in range(1, 501)))
        bob.stdin.flush()
        until(lambda: len(alice.lines()) == 501)
        bob.stdin.write(b"half a line")
        bob.stdin.flush()
        bob.send_signal(signal_number)
        assert bob.wait(SECONDS) == 128 + signal_number
        assert bob.stdout is not None
        assert bob.stderr is not None
        assert b"stored 501 of 501 messages" in bob.stdout.read()
        assert b"Traceback" not in (said := bob.stderr.read()), said
        assert [line.rpartition("line ")[2] for line in alice.lines()] == [str(number) for number in range(501)]


def test_lines_for_a_peer_that_is_away_are_stored_at_a_signal(tmp_path: Path) -> None:
    with create_instance(InstanceOptions(database=":memory:", plaintext=True, listen="127.0.0.1:0")) as alice:
        alice.subscribe("c", "k")
        address = f"127.0.0.1:{alice.port}"
        with create_instance(bob_at(tmp_path, address)) as bob:
            bob.wait_subscribed("c", "k", timeout=SECONDS)
    words = ("send", "c", "k", "-", "--connect", address, "--timeout", 0.1, *plain(tmp_path, "bob"))
    with started(*words) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(500 * b"line\n")
        process.stdin.flush()
        until(lambda: unread(process) == 0)
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 128 + signal.SIGTERM
        assert b"Traceback" not in (said := process.stderr.read()), said
    with create_instance(bob_at(tmp_path, address)) as bob:
        assert bob.stats()["pending"] == 500


# A reader that stands still.


def test_a_reader_that_stands_still_holds_messages_and_nothing_else(tmp_path: Path) -> None:
    """As `less` does: the loop lives on, nothing is lost, and a signal ends it."""
    count = 2_000
    with (
        (tmp_path / "err").open("wb") as errors,
        started("listen", "--json", *ANY, *plain(tmp_path, "alice"), stderr=errors.fileno()) as process,
    ):
        alice = Listener(process, tmp_path / "nothing", tmp_path / "err")
        with create_instance(bob_at(tmp_path, alice.address)) as bob:
            bob.wait_subscribed("c", "k", timeout=SECONDS)
            bob.send_many([("c", "k", bytes(100))] * count)
            until(lambda: bob.stats()["pending"] < count)  # some are printed, and nobody reads them
            seen = bob.stats()["pending"]
            time.sleep(0.3)
            assert 0 < bob.stats()["pending"] <= seen
            with create_instance(bob_at(tmp_path, alice.address, "carol")) as carol:
                carol.wait_subscribed("c", "k", timeout=SECONDS)
            assert process.stdout is not None
            for _ in range(count // 2):
                assert process.stdout.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait(SECONDS) == 0


def test_standard_error_that_stands_still_holds_nothing(tmp_path: Path) -> None:
    """A pipe that is full of words: messages come and go all the same."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    out = (tmp_path / "out").open("wb")
    (rules := tmp_path / "acl.toml").write_text('default = "allow"\n')
    words = ("listen", *ANY, *plain(tmp_path, "alice"), "--acl", rules)
    with started(*words, stderr=writing, stdout=out.fileno()) as process:
        said = b""
        while b"SIGHUP reads them again" not in said:
            said += os.read(reading, 4096)
        address = said.partition(b"listening on ")[2].split()[0].decode()
        try:
            while True:
                os.write(writing, bytes(4096))
        except BlockingIOError:
            os.set_blocking(writing, True)
        with create_instance(bob_at(tmp_path, address)) as bob:
            bob.wait_subscribed("c", "k", timeout=SECONDS)
            for _ in range(10):
                process.send_signal(signal.SIGHUP)  # of which it says a word
                bob.wait_acked(bob.send("c", "k", b"x"), timeout=SECONDS)
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0
    os.close(reading)
    os.close(writing)
    out.close()


# A reader that goes away.


def recorded(directory: Path) -> Path:
    path = directory / "stream"
    path.write_bytes(b"".join(encode(Message("c", "k", bytes(100), at), Revision.DRAFT_2) for at in range(1, 5_000)))
    return path


@pytest.mark.parametrize("arguments", [("decode", "--json"), ("decode",)], ids=" ".join)
def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with started(*arguments, recorded(tmp_path)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(SECONDS) == 1
        assert process.stderr.read() == b""


def test_a_listener_whose_reader_goes_away(tmp_path: Path) -> None:
    with (
        (tmp_path / "err").open("wb") as errors,
        started("listen", *ANY, *plain(tmp_path, "alice"), stderr=errors.fileno()) as process,
    ):
        alice = Listener(process, tmp_path / "nothing", tmp_path / "err")
        assert process.stdout is not None
        process.stdout.close()
        with create_instance(bob_at(tmp_path, alice.address)) as bob:
            bob.wait_subscribed("c", "k", timeout=SECONDS)
            bob.send("c", "k", b"x")
            assert process.wait(SECONDS) == 1
            assert bob.stats()["pending"] == 1, "what was not printed is not acknowledged"
    assert (tmp_path / "err").read_text().splitlines() == alice.words.splitlines()


# Descriptors that are closed.

CLOSED = {"<&-": "standard input", ">&-": "standard output", "2>&-": ""}
SEND = ("send", "c", "k", "-", *ANY, "--plaintext", "--database", "bob.db", "--timeout", "0.1")
SCENES: list[tuple[tuple[str, ...], str, bool]] = [
    # command, what is closed, and whether the command needs that
    (("--version",), "<&-", False),
    (("--version",), ">&-", True),
    (("decode", "-"), "<&-", True),
    (SEND, "<&-", True),
    (SEND, "2>&-", False),
    (("publish", "-", "--as", "x", *ANY, "--plaintext"), "<&-", True),
    (("listen", "--json", *ANY, "--plaintext", "--database", "a.db", "--count", "1"), ">&-", True),
]
WRONG_WAY = [
    # command, what is open for the other direction, and its name
    (("decode", "-"), "0>other", "standard input"),
    (SEND, "0>other", "standard input"),
    (("publish", "-", "--as", "x", *ANY, "--plaintext"), "0>other", "standard input"),
    (("--version",), ">&0", "standard output"),
]
MORE = [
    (words, closed, False)
    for words in (
        ("--help",),
        ("config", "example"),
        ("options",),
        ("decode", "stream"),
        ("decode", "--json", "stream"),
        ("certs", "certs", "alice"),
        ("check", "bob.db"),
        ("outbox", "list", "bob.db"),
        ("peers", "bob.db"),
        ("top",),
        ("status", "nowhere"),
        ("doctor", "--database", "bob.db"),
        ("stream", "x", "--connect", "127.0.0.1:9", "--plaintext"),
    )
    for closed in CLOSED
]


@pytest.mark.parametrize(
    ("words", "closed", "needed"),
    [*SCENES, *(pytest.param(*scene, marks=pytest.mark.thorough) for scene in MORE)],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, tuple) else str(value),
)
def test_a_closed_descriptor_is_named_or_not_needed(
    tmp_path: Path, words: tuple[str, ...], closed: str, needed: bool
) -> None:
    recorded(tmp_path)
    ended = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, *words],
        input=b"",
        capture_output=True,
        cwd=tmp_path,
        timeout=SECONDS,
        check=False,
    )
    said = ended.stderr.decode()
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    assert "Bad file descriptor" not in said
    assert ended.returncode >= 0
    if needed:
        assert f"{CLOSED[closed]} is closed" in said
        assert ended.returncode == 1


@pytest.mark.parametrize(("words", "redirected", "name"), WRONG_WAY)
def test_a_descriptor_of_the_wrong_direction_is_named(
    tmp_path: Path, words: tuple[str, ...], redirected: str, name: str
) -> None:
    (tmp_path / "in").write_bytes(b"")
    ended = subprocess.run(
        ["sh", "-c", f'exec "$@" <in {redirected}', "sh", *COMMAND, *words],
        capture_output=True,
        cwd=tmp_path,
        timeout=SECONDS,
        check=False,
    )
    said = ended.stderr.decode()
    assert f"tolliver: {name} is closed or of the wrong direction: give it a file or a pipe" in said
    assert ("Traceback" in said, ended.returncode) == (False, 1)
