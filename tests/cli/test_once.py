"""The one-off `tolliver send`: never a second instance of a UUID (T-61)."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from uuid import UUID

from tolliver.blocking import TLS, InstanceOptions, create_instance
from tolliver.certs import make_certificate
from tolliver.derived import new_prefix

from tests import zygote
from tests.ports import free_address
from tolliver_proto.node import is_derived

from .commands import COMMAND, SECONDS, listener, tolliver, unread, until
from .conftest import Who


def test_under_an_instances_certificate_it_refuses_and_says_why(who: Who) -> None:
    directory = Path(str(who("bob")[1]))
    result = tolliver("send", "c", "k", "x", "--connect", free_address(), *who("bob"))
    assert result.exit_code == 1
    assert "bob.pem is one instance's own" in result.stderr
    assert "--database FILE" in result.stderr
    assert "--derive" in result.stderr
    assert not (directory / "bob.db").exists(), "no database where none was asked for"


def test_beside_that_instance_it_changes_nothing_for_it(who: Who, tmp_path: Path) -> None:
    """The empty list of a second database took the place of the running one's, and 1,000 waiting messages with it."""
    directory = Path(str(who("alice")[1]))
    options = InstanceOptions(
        database=tmp_path / "alice.db",
        listen="127.0.0.1:0",
        tls=TLS(*(directory / one for one in ("alice.pem", "alice.key", "ca.pem"))),
    )
    with create_instance(options) as alice:
        to = ("--connect", f"127.0.0.1:{alice.port}")
        where = ("--database", tmp_path / "bob.db", "--count", 2)
        with listener(tmp_path / "out", who("bob"), *to, *where) as bob:
            while not any(peer.subscriptions for peer in alice.peers()):
                time.sleep(0.01)
            for body in (b"before", b"after"):
                alice.wait_acked(alice.send("c", "k", body, require_recipients=1), timeout=SECONDS)
                assert tolliver("send", "c", "k", "x", *to, *who("bob")).exit_code == 1
            assert bob.process.wait(SECONDS) == 0
        assert [peer.held for peer in alice.peers()] == [()]


def test_with_a_certificate_for_many_senders_each_run_is_one_of_its_own(who: Who, tmp_path: Path) -> None:
    directory = Path(str(who("alice")[1]))
    make_certificate(directory, "sender", derive=new_prefix())
    with listener(tmp_path / "out", who("alice"), "--listen", "127.0.0.1:0", "--json", "--count", 2) as alice:
        to = ("--connect", alice.address, "--certs", directory, "--name", "sender")
        for body in ("one", "two"):
            assert tolliver("send", "c", "k", body, *to).exit_code == 0
        assert alice.process.wait(SECONDS) == 0
    peers = {json.loads(line)["peer"] for line in alice.lines()}
    assert len(peers) == 2
    assert all(is_derived(UUID(peer)) for peer in peers)
    assert not list(directory.glob("sender.db*")), "and it leaves no database"
    refused = tolliver("send", "c", "k", "x", *to, "--no-wait")
    assert refused.exit_code == 1
    assert "give --database FILE with --no-wait" in refused.stderr


def test_a_signal_waits_for_acknowledgements_where_nothing_is_kept(who: Who, tmp_path: Path) -> None:
    """The database ends with the command: what was read would be lost with it."""
    directory = Path(str(who("alice")[1]))
    make_certificate(directory, "sender", derive=new_prefix())
    with listener(tmp_path / "out", who("alice"), "--listen", "127.0.0.1:0") as alice:
        words = ("send", "c", "k", "-", "--connect", alice.address, "--certs", directory, "--name", "sender")
        with zygote.Process([*COMMAND, *map(str, words)], stdin=subprocess.PIPE) as sender:
            assert sender.stdin is not None
            sender.stdin.write(b"first\n")
            sender.stdin.flush()
            until(lambda: len(alice.lines()) == 1)
            alice.process.send_signal(signal.SIGSTOP)
            sender.stdin.write(500 * b"line\n")
            sender.stdin.flush()
            until(lambda: unread(sender) == 0)
            sender.send_signal(signal.SIGTERM)
            alice.process.send_signal(signal.SIGCONT)
            assert sender.wait(SECONDS) == 128 + signal.SIGTERM
        assert len(alice.lines()) == 501
