"""`tolliver send --via`: a shell hands over to the instance that `tolliver run` is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tolliver import blocking
from tolliver._cli.config import load

from .commands import tolliver


@pytest.fixture
def socket_path(tmp_path: Path) -> Iterator[Path]:
    """The socket of an instance with one subscriber."""
    path = tmp_path / "s"
    plain: dict[str, Any] = {"plaintext": True, "listen": "127.0.0.1:0"}
    left = blocking.InstanceOptions(database=tmp_path / "left.db", accept=f"unix:{path}", **plain)
    right = blocking.InstanceOptions(database=tmp_path / "right.db", subscriptions=["news"], **plain)
    with blocking.create_instance(left) as alice, blocking.create_instance(right) as bob:
        bob.new_connection(f"127.0.0.1:{alice.port}")
        alice.wait_subscribed("news", "")
        yield path


def test_a_message_goes_once_with_its_key_and_lines_go_in_batches(socket_path: Path, tmp_path: Path) -> None:
    for _ in range(2):
        done = tolliver("send", "news", "k", "hello", "--via", socket_path, "--message-key", "one")
        assert (done.exit_code, done.stderr) == (0, "")
        assert done.stdout.startswith("stored 1 of 1 message for 1 recipient, in ")
    lines = tmp_path / "lines"
    lines.write_text("a\nb\nc\n")
    done = tolliver("send", "news", "k", "--file", lines, "--via", f"unix:{socket_path}", "--json")
    assert done.exit_code == 0
    assert '"stored": 3' in done.stdout
    done = tolliver("send", "nobody", "k", "hello", "--via", socket_path)
    assert done.exit_code == 1
    assert "1 of 1 message not stored: no peer is subscribed to 'nobody' 'k'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("hello", "--via", "/nowhere/s"), "no instance was reached at /nowhere/s: there is no such socket"),
        (("hello", "--via", "/nowhere/s", "--unreliable"), "leave --unreliable out"),
        (("-", "--via", "/nowhere/s", "--message-key", "k"), "--message-key names one message"),
        (("hello", "--connect", "127.0.0.1:1", "--plaintext", "--message-key", "k"), "--message-key needs --via"),
    ],
)
def test_a_wrong_call_is_told_in_a_line(arguments: tuple[str, ...], said: str) -> None:
    done = tolliver("send", "news", "k", *arguments)
    assert done.exit_code in (1, 2)
    assert said in done.stderr


def test_a_file_says_where_programs_hand_over(tmp_path: Path) -> None:
    path = tmp_path / "alice.toml"
    path.write_text('plaintext = true\ndatabase = "a.db"\naccept = "unix:run/s?mode=660"\n')
    accept = load(path).options().accept
    assert accept is not None
    assert (accept.path, accept.mode) == (tmp_path / "run" / "s", 0o660)
    path.write_text('plaintext = true\nlisten = "unix:l"\nremotes = ["unix:r", "localhost"]\n')
    options = load(path).options()
    assert options.listen is not None
    assert options.listen[0] == f"unix:{tmp_path / 'l'}"
    assert [one.host for one in options.remotes] == [f"unix:{tmp_path / 'r'}", "localhost"]
    path.write_text('plaintext = true\ndatabase = "a.db"\naccept = "run/s"\n')
    with pytest.raises(ValueError, match="accept: 'run/s': write unix:PATH"):
        load(path)
