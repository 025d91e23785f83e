"""Ctrl-C that a program catches, and signal handlers that raise."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NoReturn
from weakref import WeakKeyDictionary, WeakSet

import pytest
from tolliver.blocking import StreamsOptions, create_streams

from tests.blocking.nodes import PATIENCE, Nodes, address
from tests.interrupting import CALLS, Program
from tolliver_proto.errors import AlreadyClosed

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals as POSIX has them")
ROOT = Path(__file__).parent.parent.parent
OFTEN = ("open", "close", "send", "take", "request", "put", "connect", "stream")
"""Calls for every day."""


def swept(calls: str, points: int) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "tests.interrupting", calls, str(points)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-3000:])
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_ctrl_c_that_is_caught_breaks_nothing_whatever_line_it_comes_at() -> None:
    swept_calls = swept(",".join(OFTEN), 8)
    assert [one["call"] for one in swept_calls] == list(OFTEN)
    assert all(one["interrupted"] for one in swept_calls)


@pytest.mark.thorough
@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_at_two_hundred_lines_of_each_call(call: str) -> None:
    (one,) = swept(call, 200)
    assert one["interrupted"] > 3


@pytest.mark.parametrize("call", ["take", "take_run", "messages"])
def test_a_call_that_is_made_a_thousand_times_leaves_nothing_that_stops_the_reading(tmp_path: Path, call: str) -> None:
    """An interrupt may be late where the machine is loaded: nobody settles what piles up in another iterator (D-9)."""
    program = Program(tmp_path)
    before, make, after = CALLS[call]
    assert before is None
    assert after is None
    for _ in range(1100):
        make(program)
    program.works()
    program.close()


# Python's own handler is wrapped for as long as there is an instance, and no other.


def test_the_last_that_closes_gives_pythons_own_handler_back(nodes: Nodes) -> None:
    with handling(signal.SIGINT, signal.default_int_handler):
        with nodes.open("left"), create_streams(StreamsOptions(plaintext=True)):
            assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_in_a_step_waits_for_its_end_and_the_instance_goes_on(nodes: Nodes) -> None:
    with handling(signal.SIGINT, signal.default_int_handler), nodes.open("left") as left:
        with pytest.raises(KeyboardInterrupt):
            interrupted_in_a_step(lambda: left.unreliable_send("news", "", b"x"), signal.SIGINT)
        left.subscribe("news", timeout=PATIENCE)


# Python drops what is raised where it calls back itself: there Ctrl-C waits, too.


class Finalized:
    """Ctrl-C comes while its finalizer is at work, which takes a while."""

    def __init__(self, ended: list[bool]) -> None:
        self._ended = ended

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            pass
        self._ended.append(True)


def test_ctrl_c_in_a_finalizer_comes_when_that_has_ended(nodes: Nodes) -> None:
    ended: list[bool] = []
    things = [Finalized(ended)]
    with handling(signal.SIGINT, signal.default_int_handler), nodes.open("left"):
        with pytest.raises(KeyboardInterrupt):
            dropped(things)
        assert ended == [True]


def drop_from_a_set() -> None:
    things = [Odd()]
    seen = WeakSet(things)
    dropped(things)
    assert not seen


def drop_from_a_dictionary() -> None:
    things = [Odd()]
    seen = WeakKeyDictionary({things[0]: 1})
    dropped(things)
    assert not seen


@pytest.mark.parametrize("drop", [drop_from_a_set, drop_from_a_dictionary])
def test_ctrl_c_comes_when_a_weak_reference_has_been_removed(nodes: Nodes, drop: Callable[[], None]) -> None:
    with handling(signal.SIGINT, signal.default_int_handler), nodes.open("left"), pytest.raises(KeyboardInterrupt):
        interrupted_in(lambda code: code.co_name in {"remove", "_remove"}, drop, signal.SIGINT)


def dropped(things: list[Any]) -> None:
    """The signal comes again within that time."""
    things.clear()
    time.sleep(5)


def test_a_handler_of_the_programs_own_stays(nodes: Nodes) -> None:
    heard: list[int] = []
    with handling(signal.SIGINT, lambda number, _: heard.append(number)), nodes.open("left") as left:
        interrupted_in_a_step(left.stats, signal.SIGINT)
        assert heard == [signal.SIGINT]
        left.subscribe("news", timeout=PATIENCE)


# A handler that raises.


class Odd(Exception):
    """Of the application's."""


RAISED: dict[str, BaseException] = {
    "what sys.exit raises": SystemExit(3),
    "an interrupt": KeyboardInterrupt(),
    "an error of its own": Odd("it is late"),
    "an error that calls raise, too": TimeoutError("it is late"),
}


@pytest.mark.parametrize("error", RAISED.values(), ids=RAISED)
def test_a_handler_that_raises_in_a_step_ends_the_instance_and_it_is_told(
    nodes: Nodes, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    with nodes.open("left") as left:
        left.subscribe("news", timeout=PATIENCE)
        with handling(signal.SIGUSR1, raising(error)), pytest.raises(type(error)):
            interrupted_in_a_step(lambda: left.unreliable_send("news", "", b"x"), signal.SIGUSR1)
        with pytest.raises(AlreadyClosed):
            left.send("news", "", b"x", timeout=PATIENCE)
        told = [one for one in caplog.records if one.levelno == logging.CRITICAL]
        assert ["a signal handler has raised" in one.getMessage() for one in told] == [True]
        assert told[0].exc_info is not None
    with nodes.open("left") as left:  # the database was closed with it
        assert [one.channel for one in left.subscriptions()] == ["news"]


@pytest.mark.parametrize("error", RAISED.values(), ids=RAISED)
def test_a_handler_that_raises_in_a_wait_ends_that_wait_alone(nodes: Nodes, error: BaseException) -> None:
    with nodes.open("right") as right, nodes.open("left") as left:
        messages = left.messages("news")
        with handling(signal.SIGALRM, raising(error)):
            for wait in (messages.next, lambda: left.wait_subscribed("nothing", timeout=PATIENCE)):
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                with pytest.raises(type(error)):
                    wait()
        left.new_connection(address(right), timeout=PATIENCE)
        right.wait_subscribed("news", timeout=PATIENCE)
        right.send("news", "", b"x")
        messages.next(PATIENCE).ack()


def test_what_a_call_refuses_ends_nothing(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        wrong: Any = 5
        for names in (("tolliver", "", b""), (wrong, "", b""), ("news", "", wrong)):
            with pytest.raises(Exception, match=r"."):
                left.unreliable_send(*names)
        left.subscribe("news", timeout=PATIENCE)


def raising(error: BaseException) -> Callable[[int, FrameType | None], NoReturn]:
    def handle(_number: int, _frame: FrameType | None) -> NoReturn:
        raise error

    return handle


@contextmanager
def handling(number: signal.Signals, handler: Any) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def interrupted_in_a_step(call: Callable[[], object], number: signal.Signals) -> None:
    """The signal comes when the call is in the kernel: the machine's lock is held there."""
    interrupted_in(lambda code: "tolliver_proto" in code.co_filename, call, number)


def interrupted_in(place: Callable[[CodeType], bool], call: Callable[[], object], number: signal.Signals) -> None:
    """The signal comes at the first line of that code."""

    def trace(frame: FrameType, event: str, _arg: object) -> Any:
        if event == "line" and place(frame.f_code):
            sys.settrace(before)
            frame.f_trace = None
            signal.raise_signal(number)
            return None
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
