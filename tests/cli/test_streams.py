"""`tolliver publish` and `tolliver stream` between real processes."""

from __future__ import annotations

import base64
import json
import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from uuid import UUID

import pytest

from tests import zygote
from tests.cli.commands import COMMAND, SECONDS, Listener, Result, run_process, running, tolliver
from tests.cli.conftest import Who
from tests.cli.test_errors import the_line
from tests.ports import free_address
from tolliver_proto import Revision
from tolliver_proto.recording import BlockHeader, Direction, encode_block

LINES = [b"line %d \xc3\xa9" % number for number in range(2000)] + [b"", b"\xff\x00\x1b[2J no text", b"the last"]
PLAIN = ("--plaintext",)
Publish = Callable[..., AbstractContextManager[Listener]]


@pytest.fixture
def publish(tmp_path: Path) -> Publish:
    """`publish(who, file, *arguments)`: a running `tolliver publish`."""

    @contextmanager
    def run(who: tuple[object, ...], *arguments: object, stdin: int = subprocess.DEVNULL) -> Iterator[Listener]:
        where = () if "--connect" in arguments else ("--listen", "127.0.0.1:0")
        with running(tmp_path / "published", "publish", *arguments, *where, *who, stdin=stdin) as publisher:
            yield publisher

    return run


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    file = tmp_path / "lines"
    file.write_bytes(b"\n".join(LINES))
    return file


def stream(name: str, publisher: Listener, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    """`tolliver stream` to its end, with its output as it is."""
    command = [*COMMAND, "stream", name, "--connect", publisher.address, *map(str, arguments)]
    return zygote.run(command, capture_output=True, timeout=SECONDS, check=False)


# Files.


@pytest.mark.parametrize("trio", [(), pytest.param(("--trio",), marks=pytest.mark.thorough)], ids=["asyncio", "trio"])
def test_each_subscriber_gets_all_lines_over_tls(
    who: Who, lines: Path, publish: Publish, trio: tuple[str, ...]
) -> None:
    with publish(who("alice"), lines, "--as", "log", *trio) as alice:
        for arguments in ((), ("--demand", 1000, *trio)):
            done = stream("log", alice, *who("bob"), *arguments)
            assert (done.returncode, done.stdout) == (0, b"\n".join(LINES) + b"\n")
            (summary,) = done.stderr.decode().splitlines()
            assert summary.startswith(f"tolliver: 2,003 elements of {sum(map(len, LINES)):,} bytes in ")
        said = alice.until_said("stream 2 of 'log' ends")
        assert alice.interrupt() == 0
    assert said[0] == f"tolliver: publishing {lines} as 'log', listening on {alice.address}; Ctrl-C ends"
    assert sum("127.0.0.1" in line and line.endswith(") is connected") for line in said) == 2
    assert "tolliver: stream 1 of 'log' begins" in said
    assert "tolliver: stream 1 of 'log' ends after 2,003 elements: complete" in said


def test_records_and_the_ways_to_write_them(tmp_path: Path, publish: Publish) -> None:
    file = tmp_path / "records"
    file.write_bytes(bytes(range(240)) * 1000)
    with publish(PLAIN, file, "--as", "records", "--record-size", 16) as publisher:
        assert stream("records", publisher, *PLAIN, "--raw").stdout == file.read_bytes()
        done = stream("records", publisher, *PLAIN, "--hex", "--count", 3, "--demand", 1)
        assert done.stdout.decode().splitlines() == [bytes(range(at, at + 16)).hex() for at in (0, 16, 32)]
        assert done.returncode == 0
        assert "3 elements of 48 bytes in " in done.stderr.decode()
        publisher.until_said("stream 2 of 'records' ends after 3 elements: its subscriber has left")


def test_both_sides_record_and_decode_shows_the_frames(tmp_path: Path, publish: Publish) -> None:
    file, given, taken = tmp_path / "log", tmp_path / "given", tmp_path / "taken"
    file.write_bytes(b"one\n\x1b[2J\n" + bytes(300_000) + b"\n")
    with publish(PLAIN, file, "--as", "log", "--record", given) as publisher:
        for _ in range(2):
            assert stream("log", publisher, *PLAIN, "--record", taken).returncode == 0
        publisher.until_said(" is gone", 2)
        assert publisher.interrupt() == 0
    recorded = {}
    for directory in (given, taken):
        shown = [tolliver("decode", one, "--json") for one in sorted(directory.glob("*.rec"))]
        assert {(one.exit_code, one.stderr) for one in shown} == {(0, "")}
        recorded[directory] = [json.loads(line) for one in shown for line in one.stdout.splitlines()]
    for directory, outward, inward in ((given, "in", "out"), (taken, "out", "in")):
        ways = [(row["direction"], row["frame"]) for row in recorded[directory] if row["frame"] != "request"]
        once = [(outward, "client_hello"), (inward, "server_hello"), (outward, "subscribe"), (inward, "subscribed")]
        assert ways[:8] == [*once, *[(inward, "on_next")] * 3, (inward, "on_complete")]
        assert ways.count((inward, "on_complete")) == 2
    elements = [row["element"] for row in recorded[given] if row["frame"] == "on_next"]
    assert [*map(base64.b64decode, elements)] == [b"one", b"\x1b[2J", bytes(300_000)] * 2
    table = tolliver("decode", given, "--direction", "in").stdout
    assert "\tsubscribe\t'log'\t\t1\tinitial_demand 256\n" in table
    assert "on_next" not in table
    refused = tolliver("recordings", "export", given, "--pcapng", tmp_path / "capture")
    assert (refused.exit_code, "bytes of streams, and no messages" in refused.stderr) == (1, True)


def test_a_cut_recording_of_streams_is_told(tmp_path: Path) -> None:
    path = tmp_path / "cut.rec"
    header = BlockHeader(0, UUID(int=0), None, 3, Direction.IN, Revision.DRAFT_2, 1, streams=True)
    path.write_bytes(b"".join(encode_block(header, data) for data in (b"\x01\x00\x00", b"\x7f\x00", b"\x7f")))
    result = tolliver("decode", path)
    assert (result.exit_code, "client_hello" in result.stdout) == (1, True)
    (line,) = result.stderr.splitlines()
    assert "connection 3, in: " in line


def test_a_file_that_grows_is_followed(tmp_path: Path, publish: Publish) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"one\ntw")
    output = tmp_path / "out"
    with publish(PLAIN, file, "--as", "log", "--follow") as publisher:
        arguments = ("stream", "log", "--connect", publisher.address, *PLAIN, "--count", "3")
        with output.open("wb") as out, zygote.Process([*COMMAND, *arguments], stdout=out) as taking:
            publisher.until_said("stream 1 of 'log' begins")
            with file.open("ab") as more:
                more.write(b"o\nthree\n")
            assert taking.wait(SECONDS) == 0
        assert output.read_bytes() == b"one\ntwo\nthree\n"
        publisher.until_said("ends after 3 elements: its subscriber has left")


def test_a_followed_file_that_becomes_shorter_ends_the_stream(tmp_path: Path, publish: Publish) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"one\n")
    with publish(PLAIN, file, "--as", "log", "--follow") as publisher:
        command = [*COMMAND, "stream", "log", "--connect", publisher.address, *PLAIN]
        with zygote.Process(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as taking:
            assert taking.stdout is not None
            assert taking.stdout.readline() == b"one\n"
            file.write_bytes(b"")
            _, errors = taking.communicate(timeout=SECONDS)
        assert taking.returncode == 1
        assert b"the file has become shorter: subscribe again" in errors
        publisher.until_said("ends after 1 element: the file has become shorter")


# Standard input.


def test_standard_input_goes_to_one_subscriber_as_it_comes(publish: Publish) -> None:
    reader, writer = os.pipe()
    with (
        os.fdopen(writer, "wb", buffering=0) as pipe,
        os.fdopen(reader) as stdin,
        publish(PLAIN, "-", "--as", "log", stdin=stdin.fileno()) as publisher,
    ):
        pipe.write(b"one\nand the ")
        assert stream("log", publisher, *PLAIN, "--count", 1).stdout == b"one\n"
        publisher.until_said("stream 1 of 'log' ends after 1 element: its subscriber has left")
        done = stream("log", publisher, *PLAIN)
        assert done.returncode == 1
        assert b"'log' was given to a subscriber already, and its source can be read but once" in done.stderr
        assert publisher.interrupt() == 0


def test_a_record_that_is_cut_ends_the_stream_with_an_error(tmp_path: Path, publish: Publish) -> None:
    (tmp_path / "in").write_bytes(b"abcdefghij")
    with (
        (tmp_path / "in").open("rb") as stdin,
        publish(PLAIN, "-", "--as", "r", "--record-size", 4, stdin=stdin.fileno()) as publisher,
    ):
        done = stream("r", publisher, *PLAIN)
        assert (done.returncode, done.stdout) == (1, b"abcd\nefgh\n")
        assert b"the stream 'r' ended with an error: ValueError: the last record has 2 of 4 bytes\n" in done.stderr
        publisher.until_said("ends after 2 elements: the last record has 2 of 4 bytes")


# Peers that connect.


def test_the_publisher_may_connect(who: Who, tmp_path: Path, lines: Path, publish: Publish) -> None:
    with (
        running(tmp_path / "out", "stream", "log", "--listen", "127.0.0.1:0", *who("bob")) as bob,
        publish(who("alice"), lines, "--as", "log", "--connect", bob.address) as alice,
    ):
        assert bob.process.wait(SECONDS) == 0
        assert (tmp_path / "out").read_bytes() == b"\n".join(LINES) + b"\n"
        assert alice.process.wait(SECONDS) == 0  # nobody else can come


def test_a_publisher_that_only_connects_says_when_its_peer_is_lost(
    tmp_path: Path, lines: Path, publish: Publish
) -> None:
    with (
        running(tmp_path / "out", "stream", "log", "--listen", "127.0.0.1:0", *PLAIN) as bob,
        publish(PLAIN, lines, "--as", "log", "--follow", "--connect", bob.address) as alice,
    ):
        alice.until_said("begins")
        bob.process.kill()
        assert alice.process.wait(SECONDS) == 1
        alice.until_said("is gone: ")


def test_access_rules_say_who_may_have_it(who: Who, tmp_path: Path, lines: Path, publish: Publish) -> None:
    (tmp_path / "acl.toml").write_text('default = "deny"\n')
    with publish(who("alice"), lines, "--as", "log", "--acl", tmp_path / "acl.toml") as alice:
        done = stream("log", alice, *who("bob"))
    assert done.returncode == 1
    assert b"access denied" in done.stderr


# Failures.


def test_names_and_errors_of_others_are_escaped(lines: Path, publish: Publish) -> None:
    with publish(PLAIN, lines, "--as", "x*") as publisher:
        done = stream("x\x1b[2J", publisher, *PLAIN, "--count", 1)
        assert done.returncode == 0
        said = publisher.until_said("ends after")
        assert all(line.isprintable() for line in said)
        assert any(r"'x\x1b[2J' begins" in line for line in said)
        refused = stream("no\x1b[2J", publisher, *PLAIN)
        assert refused.returncode == 1
        assert refused.stderr.decode().rstrip("\n").isprintable()
        assert b"nothing is published here as" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("nowhere", "--as", "x"), "nowhere: No such file or directory"),
        ((".", "--as", "x"), ".: Is a directory"),
        (("/dev/zero", "--as", "x"), "/dev/zero is no regular file, which each subscriber could read: feed it to -"),
        (("f", "--as", "x", "--record-size", "4"), "f has 7 bytes, which is no multiple of 4: 3 would be left over"),
        (("f", "--as", "x", "--record-size", "16777217"), "an element has at most 16,777,216 bytes"),
        (("-", "--as", "x", "--follow"), "standard input is read until it ends: --follow needs a FILE"),
        (("f", "--as", "x"), "no certificates: give either --certs DIR --name NAME"),
        (("f", "--as", "x", "--plaintext", "--listen", "0.0.0.0"), "would leave this machine"),
    ],
    ids=["missing", "directory", "device", "rest", "large", "follow-stdin", "no-certificates", "plaintext"],
)
def test_what_cannot_be_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f").write_bytes(b"1234567")
    assert text in the_line(tolliver("publish", *arguments))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("x", "--plaintext"), "which peer has it? Give one --connect HOST:PORT, or --listen HOST:PORT"),
        (("x", "--plaintext", "--connect", "a", "--connect", "b"), "which peer has it?"),
        (("x", "--plaintext", "--connect", "localhost", "--raw", "--hex"), "--raw, --hex and --json: give one of them"),
        (("x", "--connect", "localhost"), "no certificates"),
        (("x", "--plaintext", "--connect", "example.org"), "plaintext with example.org:7012 would leave this machine"),
    ],
    ids=["nobody", "two", "raw-and-hex", "no-certificates", "plaintext"],
)
def test_what_cannot_be_streamed(arguments: tuple[str, ...], text: str) -> None:
    assert text in the_line(tolliver("stream", *arguments))


def test_nobody_is_there() -> None:
    result: Result = run_process("stream", "x", "--plaintext", "--connect", free_address())
    assert "cannot reach 127.0.0.1" in the_line(result)


def test_an_interrupted_stream_is_not_a_complete_one(tmp_path: Path) -> None:
    with running(tmp_path / "out", "stream", "x", "--listen", "127.0.0.1:0", *PLAIN) as waiting:
        assert waiting.interrupt() == 130
        assert waiting.until_said("interrupted")


# Terminals.


def until_seen(terminal: int, text: bytes) -> bytes:
    """The output of a program on a terminal, as soon as the text is in it."""
    seen = b""
    deadline = time.monotonic() + SECONDS
    while text not in seen:
        assert time.monotonic() < deadline, seen
        if select.select([terminal], [], [], 0.1)[0]:
            seen += os.read(terminal, 4096)
    return seen


def test_on_a_terminal_elements_are_escaped(tmp_path: Path, publish: Publish) -> None:
    (tmp_path / "f").write_bytes(b"one \x1b[2J\n\xff two\n")
    ours, theirs = pty.openpty()
    with publish(PLAIN, tmp_path / "f", "--as", "f") as publisher, os.fdopen(ours), os.fdopen(theirs) as terminal:
        command = [*COMMAND, "stream", "f", "--connect", publisher.address, *PLAIN]
        with subprocess.Popen(command, stdout=terminal, stderr=subprocess.DEVNULL) as taking:
            assert taking.wait(SECONDS) == 0
        assert until_seen(ours, b"two").startswith(b"one \\x1b[2J\r\nb'\\xff two")


def test_the_rate_is_shown_on_a_terminal_where_the_elements_go_elsewhere(tmp_path: Path, publish: Publish) -> None:
    (tmp_path / "f").write_bytes(b"12345678\n" * 1000)
    ours, theirs = pty.openpty()
    with (
        publish(PLAIN, tmp_path / "f", "--as", "f", "--follow") as publisher,
        os.fdopen(ours),
        os.fdopen(theirs) as terminal,
    ):
        command = [*COMMAND, "stream", "f", "--connect", publisher.address, *PLAIN]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=terminal) as taking:
            shown = until_seen(ours, b"1,000 elements of 8,000 bytes")
            assert re.search(rb"[\d,]+/s, [\d,]+ B/s, 1,000 elements", shown)
            taking.send_signal(signal.SIGINT)
            assert taking.wait(SECONDS) == 130
            assert b"interrupted" in until_seen(ours, b"interrupted")
