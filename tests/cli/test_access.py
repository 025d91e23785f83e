"""`tolliver listen --acl FILE`: rules that are read again on a signal."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from tolliver.certs import make_certificate

from tests.cli.commands import SECONDS, Listener, listener, tolliver
from tests.cli.conftest import Who


def wait_for(words: str, errors: Path, alice: Listener) -> None:
    deadline = time.monotonic() + SECONDS
    while words not in errors.read_text():
        assert alice.process.poll() is None, errors.read_text()
        assert time.monotonic() < deadline, errors.read_text()
        time.sleep(0.01)


def test_rules_are_read_again_on_sighup(who: Who, tmp_path: Path) -> None:
    alice_is = who("alice")
    bob = make_certificate(str(alice_is[1]), "bob").uuid
    rules, errors = tmp_path / "rules.toml", tmp_path / "out.err"
    rules.write_text(f'default = "deny"\n[peers."{bob}"]\npublish = [["weather", "*"]]\n')
    with listener(tmp_path / "out", alice_is, "--listen", "127.0.0.1:0", "--acl", rules) as alice:
        wait_for(f"access rules of {rules}; SIGHUP reads them again", errors, alice)

        def send(channel: str, body: str) -> None:
            result = tolliver("send", channel, "k", body, "--connect", alice.address, *who("bob", own=True))
            assert result.exit_code == 0, result.stderr

        send("weather", "one")
        send("tides", "two")
        rules.write_text('default = "allow"\n')
        alice.process.send_signal(signal.SIGHUP)
        wait_for(f"new access rules of {rules}", errors, alice)
        send("tides", "three")
        rules.write_text('default = "perhaps"\n')
        alice.process.send_signal(signal.SIGHUP)
        wait_for(f"the access rules stay as they were: access rules in {rules}: default is 'perhaps'", errors, alice)
        send("tides", "four")
        assert alice.interrupt() == 0
        assert [line.split()[-1] for line in alice.lines()] == ["one", "three", "four"]


def test_a_file_that_says_nothing_clear_is_refused_at_the_start(who: Who, tmp_path: Path) -> None:
    (tmp_path / "rules").write_text("")
    listen = ("listen", "--listen", "127.0.0.1:0", *who("alice"), "--acl")
    empty, missing = tolliver(*listen, tmp_path / "rules"), tolliver(*listen, tmp_path / "none")
    assert empty.exit_code == missing.exit_code == 1
    assert empty.stderr == (
        f'tolliver: access rules in {tmp_path}/rules: default is missing: write default = "deny" or default = "allow"\n'
    )
    assert missing.stderr == f"tolliver: {tmp_path}/none: No such file or directory\n"
