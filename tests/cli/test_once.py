"""The one-off `tolliver send`: never a second instance of a UUID (T-61)."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

from tolliver_transports.certs import make_certificate
from tolliver_transports.derived import new_prefix

from tolliver_proto import is_derived

from .commands import SECONDS, free_address, listener, tolliver
from .conftest import Who


def test_under_an_instances_certificate_it_refuses_and_says_why(who: Who) -> None:
    directory = Path(str(who("bob")[1]))
    result = tolliver("send", "c", "k", "x", "--connect", free_address(), *who("bob"))
    assert result.exit_code == 1
    assert "bob.pem is one instance's own" in result.stderr
    assert "--database FILE" in result.stderr
    assert "--derive" in result.stderr
    assert not (directory / "bob.db").exists(), "no database where none was asked for"


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
