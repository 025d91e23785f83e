"""Databases in memory over every adapter: every call works, and nothing is kept."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from .kinds import EACH_ADAPTER
from .nodes import AGAIN, Inbox, Nodes, address


@EACH_ADAPTER
def test_an_instance_in_memory_does_what_others_do(
    nodes: Nodes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    before = os.listdir(tmp_path)
    memory = {"database": ":memory:", "tls": None, "plaintext": True, **AGAIN}
    caplog.set_level(logging.WARNING, "tolliver")
    with nodes.open("right", **memory) as right, nodes.open("left", **memory) as left:
        said = [record.getMessage() for record in caplog.records if "keeps nothing" in record.getMessage()]
        assert len(said) == 2
        assert "a database in memory, which keeps nothing" in left.shown
        inbox = Inbox()
        left.retain("news", "", b"0")
        right.subscribe("news", handler=inbox)
        left.new_connection(address(right))
        receipt = left.send("news", "", b"1")
        left.wait_acked(receipt)
        left.flush()
        assert inbox.bodies == [b"0", b"1"]
        right.unsubscribe("news")
        assert [one.body for one in left.retained()] == [b"0"]
        assert left.dead_letters() == []
        assert left.retry(right.instance_id) == left.drop_parked(right.instance_id) == 0
        left.backup(tmp_path / "copy.db")
        left.forget_peer(right.instance_id)
        left.repin(right.instance_id)
    assert sorted(os.listdir(tmp_path)) == sorted([*before, "copy.db"])
    with nodes.open("copy", **memory | {"database": tmp_path / "copy.db"}) as copy:
        assert [one.body for one in copy.retained()] == [b"0"]
        assert copy.notices() == []
    with nodes.open("left", **memory) as left:
        assert left.retained() == []
        assert left.peers() == []
