"""`tolliver stage` as a service: signals, and a full disk."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tolliver._cli.figures import Pace
from tolliver._cli.stage import shown, summary
from tolliver.certs import make_certificate
from tolliver.staging import FolderOptions, StageWriter

from tests.cli.commands import COMMAND, SECONDS, running, tolliver
from tests.cli.conftest import Who
from tests.cli.test_errors import the_line
from tests.staging.disks import small_disk
from tests.staging.stages import staged

PLAIN = ("--plaintext", "--listen", "127.0.0.1:0")


def test_it_stages_until_a_signal(tmp_path: Path, who: Who) -> None:
    directory = tmp_path / "stage"
    arguments = (directory, "--listen", "127.0.0.1:0", "--channel", "c", "--channel", "d", "--key", "k*", *who("alice"))
    with running(tmp_path / "out", "stage", *arguments) as alice:
        assert f"staging 'c' 'k*', 'd' 'k*' ('' is anything) into {directory};" in alice.words
        for channel, key in (("c", "k1"), ("d", "k2"), ("d", "other")):
            sent = tolliver("send", channel, key, "body", "--connect", alice.address, *who("bob", own=True))
            assert sent.exit_code == 0, sent
        alice.process.send_signal(signal.SIGTERM)
        assert alice.process.wait(SECONDS) == 0
        said = alice.until_said("staged 2 messages, in ")
    assert len(said) == 3
    assert [(message.channel, message.key) for _, message in staged(directory)] == [("c", "k1"), ("d", "k2")]
    StageWriter(FolderOptions(directory=directory)).close()  # the lock is free


def test_access_rules_are_read_again_on_sighup(tmp_path: Path, who: Who) -> None:
    rules, alice_is = tmp_path / "rules.toml", who("alice")
    bob = make_certificate(str(alice_is[1]), "bob").uuid
    rules.write_text(f'default = "deny"\n[peers."{bob}"]\npublish = [["other", "*"]]\n')
    arguments = (tmp_path / "stage", "--listen", "127.0.0.1:0", "--acl", rules, *alice_is)
    with running(tmp_path / "out", "stage", *arguments) as alice:
        alice.until_said(f"access rules of {rules}; SIGHUP reads them again")
        assert tolliver("send", "c", "k", "one", "--connect", alice.address, *who("bob", own=True)).exit_code == 0
        rules.write_text('default = "allow"\n')
        alice.process.send_signal(signal.SIGHUP)
        alice.until_said(f"new access rules of {rules}")
        assert tolliver("send", "c", "k", "two", "--connect", alice.address, *who("bob", own=True)).exit_code == 0
        alice.process.send_signal(signal.SIGTERM)
        assert alice.process.wait(SECONDS) == 0
    assert [message.body for _, message in staged(tmp_path / "stage")] == [b"two"]


def test_on_a_terminal_it_shows_how_it_goes(tmp_path: Path) -> None:
    main, other = pty.openpty()
    command = [*COMMAND, "stage", str(tmp_path / "stage"), *PLAIN]
    with subprocess.Popen(command, stderr=other, stdout=subprocess.DEVNULL) as process:
        os.close(other)
        shown, deadline = b"", time.monotonic() + SECONDS
        try:
            while b"0/s, staged 0 messages" not in shown:
                assert select.select([main], [], [], deadline - time.monotonic())[0], shown
                shown += os.read(main, 4096)
            process.send_signal(signal.SIGINT)
            assert process.wait(SECONDS) == 0
        finally:
            process.kill()
            os.close(main)


def test_what_is_shown() -> None:
    pace, stats = Pace(), {"staged": 1234, "duplicates": 0, "dropped": 0, "staged_bytes": 2}
    assert re.fullmatch(r"[\d,]+/s, staged 1,234 messages, 2 bytes in the stage", shown(stats, None, pace))
    assert shown(stats, "why", pace).startswith("0/s, ")
    assert shown(stats, "why", pace).endswith("; waiting: why")
    more = stats | {"duplicates": 5, "dropped": 7}
    assert summary(more, pace).startswith(
        "staged 1,234 messages, and 5 sent again that it had; 7 unreliable dropped, in "
    )


def test_a_disk_that_stays_full_ends_it_with_an_error(tmp_path: Path, who: Who) -> None:
    lines = tmp_path / "lines"
    lines.write_text(("x" * 10_000 + "\n") * 200)
    with small_disk(tmp_path / "disk", 1024):
        arguments = (tmp_path / "disk" / "stage", "--listen", "127.0.0.1:0", "--full-timeout", "0.5", *who("alice"))
        with running(tmp_path / "out", "stage", *arguments) as alice:
            to = ("--file", lines, "--connect", alice.address, "--timeout", "2")
            assert tolliver("send", "c", "k", *to, *who("bob", own=True)).exit_code == 1
            assert alice.process.wait(SECONDS) == 1
            *_, held, summary, error = alice.until_said("free some space")
    assert "the disk takes nothing: " in held
    assert summary.startswith("tolliver: staged ")
    assert "could not be written for 0.5 s: " in error
    assert "the peers keep what was not acknowledged" in error


def test_it_stages_streams_of_a_publisher_too(tmp_path: Path, who: Who) -> None:
    lines = tmp_path / "lines"
    lines.write_text("one\ntwo\n")
    publisher = ("publish", lines, "--as", "log", "--listen", "127.0.0.1:0", *who("alice"))
    with running(tmp_path / "alice", *publisher) as alice:
        streams = ("--stream", "log", "--window", "16", "--connect", alice.address, *who("bob"))
        with running(tmp_path / "out", "stage", tmp_path / "stage", *streams) as bob:
            assert f"staging 'log' of {alice.address} into {tmp_path / 'stage'};" in bob.words
            alice.until_said("stream 1 of 'log' ends after 2 elements")
            wait_until_staged(tmp_path / "stage", 2)
            bob.process.send_signal(signal.SIGTERM)
            assert bob.process.wait(SECONDS) == 0
            bob.until_said("staged 2 elements; 1 stream completed, in ")
    assert [message.body for _, message in staged(tmp_path / "stage")] == [b"one", b"two"]


def wait_until_staged(directory: Path, count: int) -> None:
    deadline = time.monotonic() + SECONDS
    while len(staged(directory)) < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--stream", "a"), "give one --connect HOST:PORT, and no --listen"),
        (("--stream", "a", "--connect", "h:1", "--listen", "127.0.0.1:0"), "give one --connect HOST:PORT"),
        (("--stream", "a", "--stream", "a", "--connect", "127.0.0.1:1"), "a --stream comes twice"),
        (("--stream", "tolliver", "--connect", "127.0.0.1:1"), "the name is the protocol's own"),
        (("--stream", "a", "--channel", "c", "--connect", "127.0.0.1:1"), "the options of messages mean nothing"),
        (("--stream", "a", "--max-bytes", "1000", "--connect", "127.0.0.1:1"), "maxStagedBytes is 1000"),
        (("--keep-bytes", "9000", "--max-bytes", "9000", "--connect", "127.0.0.1:1"), "give less, or raise that"),
        (("--window", "5", "--connect", "127.0.0.1:1"), "--window is of a --stream"),
    ],
)
def test_options_of_streams_that_make_no_sense(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    assert says in the_line(tolliver("stage", tmp_path / "s", "--plaintext", *words))


@pytest.mark.parametrize("words", [("--keep-for", "0"), ("--keep-for", "1h"), ("--keep-bytes", "1")])
def test_how_long_and_how_much_is_kept_is_a_number(tmp_path: Path, words: tuple[str, str]) -> None:
    result = tolliver("stage", tmp_path / "s", *PLAIN, *words)
    assert (result.exit_code, words[0] in result.stderr) == (2, True)


def test_what_cannot_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("")
    assert "is no stage, and not empty" in the_line(tolliver("stage", tmp_path / "other", *PLAIN))
    assert "nobody to talk to" in the_line(tolliver("stage", tmp_path / "s", "--plaintext"))
    assert "no certificates" in the_line(tolliver("stage", tmp_path / "s", "--listen", "127.0.0.1:0"))
