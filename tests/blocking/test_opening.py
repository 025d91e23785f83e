"""Openings that an exception ends in their midst: whatever was opened until then is closed again."""

from __future__ import annotations

import gc
import sys
import threading
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import pytest
from tolliver.blocking import InstanceOptions, StreamsOptions, create_instance, create_streams
from tolliver.blocking.process import running

from tests.blocking.nodes import PATIENCE, Nodes
from tests.opening import Interruption, few_descriptors
from tolliver_proto import LocalProtocolError, TolliverError

ROOMS = ("_messages/instance.py", "_driver/endpoint.py", "blocking/endpoint.py", "blocking/instance.py")


def made(what: str, database: Path) -> Any:
    if what == "streams":
        return create_streams(StreamsOptions(listen="127.0.0.1:0", plaintext=True))
    return create_instance(InstanceOptions(database=database, listen="127.0.0.1:0", plaintext=True))


def left_open(database: Path) -> dict[str, object]:
    gc.collect()
    return {
        "threads": [one.name for one in threading.enumerate() if one.name.startswith("tolliver")],
        "running": list(running),
        "ports": [one.laddr for one in psutil.Process().net_connections() if one.status == psutil.CONN_LISTEN],
        "files": [one.path for one in psutil.Process().open_files() if one.path.startswith(str(database))],
    }


def test_what_is_open_is_not_opened_again_and_goes_on(nodes: Nodes) -> None:
    options = StreamsOptions(listen="127.0.0.1:0", plaintext=True)
    with nodes.open("left") as left, create_streams(options) as streams:
        for one in (left, streams):
            with pytest.raises(LocalProtocolError, match="is open already: make another one"), one:
                pytest.fail("two in one")
        left.subscribe("news", timeout=PATIENCE)
        streams.publish("news", [b"x"])
    with left, streams:  # but one after the other
        left.subscribe("news", timeout=PATIENCE)


@pytest.mark.skipif(sys.platform == "win32", reason="files and ports are counted as POSIX does")
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("what", ["an instance", "streams"])
def test_an_exception_on_any_line_leaves_nothing_open(tmp_path: Path, what: str, step: int) -> None:
    """On each seventh line, and on each."""
    database = tmp_path / "node.db"
    nothing = left_open(database)
    for number in count(1, step):
        opening = made(what, database)
        with Interruption(number, ROOMS) as interruption:
            opening.__enter__()
        if not interruption.happened:
            break
        assert left_open(database) == nothing, f"at line {number} of them"
    opening.close()
    assert number > 20  # lines


@pytest.mark.skipif(sys.platform == "win32", reason="descriptors are limited as POSIX does")
@pytest.mark.parametrize("what", ["an instance", "streams"])
def test_without_descriptors_it_says_so_and_leaves_nothing_open(tmp_path: Path, what: str) -> None:
    """With one more each time, until there are enough."""
    database = tmp_path / "node.db"
    nothing, errors = left_open(database), list[str]()
    for free in count():
        opening = made(what, database)
        try:
            with few_descriptors(free):
                opening.__enter__()
        except TolliverError as error:
            errors.append(str(error))
        else:
            break
        assert left_open(database) == nothing
    opening.close()
    assert len(errors) > 2
    assert all("Too many open files" in error or "SQLITE_CANTOPEN" in error for error in errors)
    assert "`ulimit -n`" in errors[-1]
