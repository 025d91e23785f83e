"""A close whose database does not answer in time: what was to be stored, and what is said of it."""

from __future__ import annotations

import pytest

from tests.opening import written_into
from tolliver_proto import Limits, Receipt
from tolliver_proto.errors import AlreadyClosed, StoreError

from .facade import until
from .kinds import EACH_ADAPTER
from .nodes import Nodes

HASTY = {"limits": Limits(close_timeout=0.05), "listen": None}
LONG = "takes long: a commit has not ended."


def said(caplog: pytest.LogCaptureFixture, words: str) -> bool:
    return any(words in message for message in caplog.messages)


def closed_while_locked(nodes: Nodes, lets_go: bool, caplog: pytest.LogCaptureFixture) -> None:
    """SQLite tries for a second to get by another program's lock: the first commit ends within the close, the second
    begins then; or is never begun, where the first one takes longer."""
    with nodes.open("left") as left:
        nodes.visit(left)
    with nodes.open("left", **HASTY) as left, written_into(nodes.directory / "left.db") as writer:
        stored = []
        for number in (1, 2):
            stored.append(left.start("send", "news", "", b"x"))
            until(lambda number=number: left.stats()["pending"] == number)  # type: ignore[misc]
        closed = left.start_close()
        until(lambda: said(caplog, LONG), "the warning")
        if lets_go:
            writer.let_go()
        outcomes = [call.outcome() for call in stored]
        closed.wait()
    assert all(isinstance(one, (Receipt, StoreError, AlreadyClosed)) for one in outcomes)
    stored_there = sum(isinstance(one, Receipt) for one in outcomes)
    assert lets_go or not stored_there
    with nodes.open("left") as left:
        assert left.stats()["pending"] == stored_there


@EACH_ADAPTER
def test_a_commit_that_outlasts_its_close_is_told_and_answers_its_calls(
    nodes: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    closed_while_locked(nodes, True, caplog)


def test_a_commit_that_fails_after_its_close_is_told_and_answers_its_calls(
    nodes: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    closed_while_locked(nodes, False, caplog)


def test_removals_that_a_close_cannot_write_are_told(nodes: Nodes, caplog: pytest.LogCaptureFixture) -> None:
    """The message is acknowledged, and its row is still there: it is sent again."""
    with nodes.open("right", subscriptions=["news"]) as right, nodes.open("left", **HASTY) as left:
        gate = nodes.gate()
        right.register_callback("news", "", lambda _: gate)
        left.new_connection(f"127.0.0.1:{right.port}")
        left._call("wait_subscribed", "news", "")
        receipt = left.send("news", "", b"x")
        with written_into(nodes.directory / "left.db"):
            gate.open()
            left.wait_acked(receipt)
            left.start_close().wait()
    assert said(caplog, "takes long: the last changes are not written.") or said(caplog, LONG)
    with nodes.open("left") as left:
        assert left.stats()["pending"] == 1


def test_a_close_in_time_says_nothing(nodes: Nodes, caplog: pytest.LogCaptureFixture) -> None:
    with nodes.open("left", listen=None) as left:
        left.retain("values", "k", b"x")
    assert not caplog.messages
