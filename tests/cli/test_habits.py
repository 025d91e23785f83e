"""Options about how peers speak, on the command line (T-03, T-22, T-42)."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from tolliver_transports._cli.commands import choices

from tests.cli.commands import tolliver
from tests.cli.conftest import Who
from tolliver_proto import Dialect, Revision


def test_they_reach_the_instance(tmp_path: Path) -> None:
    meant = Dialect(strict_uuid7=True, accept_either=True, unreliable_id=2**32 - 1)
    chosen = {one.name: one.default for one in inspect.signature(choices.place_of).parameters.values()}
    chosen |= {
        "at": "127.0.0.1:0",
        "plaintext": True,
        "database": tmp_path / "node.db",
        "revision": Revision.DRAFT_2,
        "dialect": "strict-uuid7,accept-either,unreliable-id:4294967295",
    }
    assert choices.place_of(**chosen).options(dial=False).dialect == meant


@pytest.mark.parametrize("command", ["listen", "stage"])
def test_an_id_that_a_message_may_have_marks_none(command: str, who: Who, tmp_path: Path) -> None:
    what = [tmp_path / "stage"] if command == "stage" else []
    whose = who("alice")[: 4 if command == "stage" else None]
    result = tolliver(command, *what, "--listen", "127.0.0.1:0", *whose, "--dialect", "unreliable-id:5")
    assert result.exit_code == 1
    assert "unreliable_id is 5: ids from 1 to 2^31-2 are messages' own" in result.stderr
