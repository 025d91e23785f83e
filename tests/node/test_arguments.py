"""Checks of arguments: what each accepts, and the words of what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any
from uuid import UUID

import pytest

from tolliver_proto import LocalProtocolError
from tolliver_proto._common.arguments import (
    MOST,
    check_count,
    check_peer,
    check_seconds,
    check_timeout,
    check_type,
    listed,
)
from tolliver_proto.store import VALUES, queue_id

from .play import Play

PEER = UUID("01890000-0000-7000-8000-00000000aaaa")


def test_what_is_meant_is_accepted() -> None:
    check_type("name", "x", str | bytes, "a text")
    for count in (0, 1, MOST):
        check_count("count", count)
    check_count("count", 3, 3, 3)
    for seconds in (0.001, 1, 10**9):
        check_seconds("lease", seconds)
    check_seconds("lease", inf, is_endless=True)
    check_seconds("retry_in", 0, or_zero=True)
    for timeout in (None, -1, 0, 0.5, inf):
        check_timeout(timeout)
    check_peer("peer", PEER)
    check_peer("peer", VALUES, or_owner=True)
    assert listed("items", (one for one in "ab")) == ("a", "b")


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: check_type("name", 3, str, "a text"), TypeError, "name=3: give a text"),
        (lambda: check_type("name", True, int, "a number"), TypeError, "name=True: give a number"),
        (lambda: check_count("count", "3"), TypeError, "count='3': give a number, 0 or more"),
        (lambda: check_count("count", -1), ValueError, "count=-1: give a number, 0 or more"),
        (lambda: check_count("count", 0, 1), ValueError, "count=0: give a number, 1 or more"),
        (lambda: check_count("count", 4, 1, 3), ValueError, "count=4: give a number, at most 3"),
        (lambda: check_seconds("lease", "3"), TypeError, "lease='3': give seconds, above 0"),
        (lambda: check_seconds("lease", 0), ValueError, "lease=0: give seconds, above 0"),
        (lambda: check_seconds("lease", inf), ValueError, "lease=inf: give seconds, above 0"),
        (lambda: check_seconds("lease", 2**60, is_endless=True), ValueError, "lease=1152921504606846976: give"),
        (lambda: check_seconds("retry_in", -1, or_zero=True), ValueError, "retry_in=-1: give seconds, 0 or more"),
        (lambda: check_timeout("3"), TypeError, "timeout='3': give seconds, or None"),
        (lambda: check_timeout(nan), ValueError, "timeout=nan: give seconds, or None"),
        (lambda: check_peer("peer", str(PEER)), TypeError, f"peer='{PEER}': give the UUID of a peer"),
        (lambda: check_peer("peer", VALUES), LocalProtocolError, f"peer={VALUES}: this UUID owns jobs or last values"),
        (lambda: check_peer("peer", queue_id("c")), LocalProtocolError, "owns jobs or last values"),
        (lambda: listed("items", 3), TypeError, "items=3: give a list"),  # type: ignore[arg-type]  # that is the point
        (lambda: listed("items", "abc"), TypeError, "items='abc': give a list"),
    ],
)
def test_a_refusal_names_the_argument_its_value_and_what_to_give(
    call: Callable[[], Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as refused:
        call()
    assert text in str(refused.value)


@pytest.mark.parametrize(
    ("call", "arguments", "error", "text"),
    [
        ("send", ([], "", b""), TypeError, "the name"),
        ("unreliable_send", ("", [], b""), TypeError, "the name"),
        ("send_many", ([("c", "", b""), ("c", b"")],), TypeError, "items has"),
        ("repin", (PEER, "00"), TypeError, "spki_sha256="),
        ("repin", (PEER, bytes(31)), ValueError, "spki_sha256="),
    ],
)
def test_a_node_refuses_before_anything_changes(
    call: str, arguments: tuple[Any, ...], error: type[Exception], text: str
) -> None:
    play = Play()
    with pytest.raises(error, match=text):
        getattr(play.node, call)(*arguments)
    assert play.run() == []
    assert play.node.idle
