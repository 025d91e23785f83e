"""Ctrl-C during the calls of programs on threads, which catch it and go on.

    python -m tests.interrupting CALL[,CALL...] [POINTS]  at each line of the call, or at about so many of them
    python -m tests.interrupting random DIRECTORY TRIALS SEED  at random moments; the seed chooses the call

Two instances, and two ends of streams, stand in this process. A trial makes the call on the main thread, catches the
KeyboardInterrupt, and looks whether everything works as before: messages arrive and are acknowledged, elements flow,
what was being opened can be opened. The last line of the output is JSON: the call, trials, how many were interrupted,
and what broke. The first that breaks ends the process.
"""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from tolliver.blocking import InstanceOptions, StreamsOptions, create_instance, create_streams

from tolliver_proto.errors import NoResponders

PATIENCE = 20.0  # seconds: what has not come by then has broken
_NOT_HERE = "iteration.py"  # nothing is called there behind what is taken: Python does not look for signals
_OURS = (
    os.sep + "tolliver" + os.sep,
    os.sep + "tolliver_proto" + os.sep,
    os.sep + "threading.py",
    os.sep + "_weakrefset.py",
)
_SENDER = """
import os, sys, time
for line in sys.stdin:
    end = time.perf_counter() + float(line)
    while time.perf_counter() < end:
        pass
    os.kill(os.getppid(), 2)
"""


class Program:
    """Instances and streams that calls are made on: `left` and `right`, `giver` and `taker` are connected."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.right, self.left = (self.instance(name).__enter__() for name in ("right", "left"))
        self.right.subscribe("news", handler=lambda _: None)
        self.right.respond("ask", lambda request: bytes(request.body))
        self.left.new_connection(self.address, timeout=PATIENCE)
        self.queue = self.left.work_queue("jobs")
        self.jobs = self.right.work("jobs")
        threading.Thread(target=self._work, daemon=True).start()
        for channel in ("sport", "runs", "races"):  # each for one iterator: what nobody takes would stop the reading
            self.left.subscribe(channel)
        self.sport, self.runs = self.left.messages("sport"), self.left.message_runs("runs")
        self.feed = self.left.events()
        self.receipt = self.left.send("news", "", b"first")
        self._wait_for_responder()
        for channel in ("sport", "runs", "races"):
            self.right.wait_subscribed(channel, timeout=PATIENCE)
        self.giver = self.streams(listen="127.0.0.1:0").__enter__()
        self.giver.publish("numbers", lambda _: (b"%d" % number for number in range(10**9)))
        self.taker = self.streams().__enter__()
        self.taker.connect(self.giver_address, timeout=PATIENCE)
        self.numbers = self.taker.subscribe("numbers", prefetch=4)
        self.opened: Any = None
        """Opened by a call, beside these."""
        self.taken: Any = None
        """A delivery that a call was given, and is to settle."""

    def _wait_for_responder(self) -> None:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with suppress(NoResponders):
                self.left.request("ask", b"")
                return
            time.sleep(0.01)

    def instance(self, name: str) -> Any:
        options = InstanceOptions(database=self._directory / f"{name}.db", listen="127.0.0.1:0", plaintext=True)
        return create_instance(options)

    def streams(self, **options: Any) -> Any:
        return create_streams(StreamsOptions(plaintext=True, **options))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.right.port}"

    @property
    def giver_address(self) -> str:
        return f"127.0.0.1:{self.giver.port}"

    def _work(self) -> None:
        for job in self.jobs:
            job.ack()

    def close(self) -> None:
        for one in (self.taker, self.giver, self.left, self.right):
            one.close()

    def works(self) -> None:
        """Raises where something has broken."""
        if self.opened is not None:
            self.opened.close()
            self.opened = None
        if self.taken is not None:
            self.taken.ack()
        self.left.wait_acked(self.left.send("news", "", b"works"), timeout=PATIENCE)
        assert self.left.request("ask", b"works", timeout=PATIENCE).body == b"works"
        self.left.wait_acked(self.queue.put(b"works", timeout=PATIENCE), timeout=PATIENCE)
        self.numbers.next(PATIENCE)
        receipt = self.right.send_many([("sport", "", b"works"), ("runs", "", b"works")])
        self._take(self.sport)
        self._take(self.runs)
        self.right.wait_acked(receipt, timeout=PATIENCE)

    def _take(self, messages: Any) -> None:
        """Up to what was sent just now: the calls have left some."""
        is_there = False
        while not is_there:
            taken = messages.next(PATIENCE)
            is_there = b"works" in [one.message.body for one in (taken if hasattr(taken, "__iter__") else (taken,))]
            taken.ack()


Call = Callable[[Program], object]


def _open(program: Program) -> None:
    program.opened = program.instance("third")
    program.opened.__enter__()


def _close(program: Program) -> None:
    program.opened.close()


def _close_again(program: Program) -> None:
    if program.opened is not None:
        program.opened.close()
    _open(program)
    program.opened.send("news", "", b"")


def _open_streams(program: Program) -> None:
    program.opened = program.streams(listen="127.0.0.1:0")
    program.opened.__enter__()


def _open_streams_again(program: Program) -> None:
    if program.opened is not None:
        program.opened.close()
    _open_streams(program)
    program.opened.connect(program.giver_address, timeout=PATIENCE)


def _take(program: Program) -> None:
    """A message of another thread's."""
    program.right.unreliable_send("sport", "", b"taken")
    program.taken = program.sport.next(PATIENCE)
    program.taken.ack()


def _take_run(program: Program) -> None:
    program.right.unreliable_send("runs", "", b"taken")
    program.taken = program.runs.next(PATIENCE)
    program.taken.ack()


def _messages(program: Program) -> None:
    with program.left.messages("races") as messages:
        program.right.unreliable_send("races", "", b"taken")
        messages.next(PATIENCE).ack()


def _respond(program: Program) -> None:
    program.left.respond("answers", lambda request: bytes(request.body)).close()


def _register(program: Program) -> None:
    program.left.register_callback("weather", "", lambda _: None).close()


def _events(program: Program) -> None:
    with program.left.events(timeout=0.001) as events:
        list(events)


def _connect(program: Program) -> None:
    program.left.new_connection(program.address, timeout=PATIENCE)


def _dial(program: Program) -> None:
    """Nobody is there."""
    try:
        program.left.new_connection("127.0.0.1:1", timeout=0.003)
    finally:
        program.left.remove_connection("127.0.0.1:1")


def _work(program: Program) -> None:
    with program.left.work("others", timeout=0.001) as jobs:
        list(jobs)


def _take_number(program: Program) -> None:
    program.numbers.next(PATIENCE)


def _stream(program: Program) -> None:
    with program.taker.subscribe("numbers", prefetch=2) as numbers:
        numbers.next(PATIENCE)
        numbers.next_run(2, PATIENCE)


def _publish(program: Program) -> None:
    program.opened = program.giver.publish("letters", [b"a"])
    program.opened.close()


def _connect_streams(program: Program) -> None:
    with program.streams() as third:
        third.connect(program.giver_address, timeout=PATIENCE)


CALLS: dict[str, tuple[Call | None, Call, Call | None]] = {
    # before it, the call, a look afterwards
    "open": (None, _open, _close_again),
    "close": (_open, _close, _close_again),
    "send": (None, lambda program: program.left.send("news", "", b"x"), None),
    "send_many": (None, lambda program: program.left.send_many([("news", "", b"x")] * 20), None),
    "unreliable_send": (None, lambda program: program.left.unreliable_send("news", "", b"x"), None),
    "retain": (None, lambda program: program.left.retain("news", "last", b"x"), None),
    "retained": (None, lambda program: program.left.retained(), None),
    "ask_retained": (
        lambda program: program.left.subscribe("news"),
        lambda program: program.left.ask_retained("news"),
        None,
    ),
    "wait_acked": (None, lambda program: program.left.wait_acked(program.left.send("news", "", b"x")), None),
    "flush": (None, lambda program: program.left.flush(timeout=PATIENCE), None),
    "subscribe": (None, lambda program: program.left.subscribe("weather"), None),
    "unsubscribe": (None, lambda program: program.left.unsubscribe("weather"), None),
    "take": (None, _take, None),
    "take_run": (None, _take_run, None),
    "messages": (None, _messages, None),
    "register_callback": (None, _register, None),
    "request": (None, lambda program: program.left.request("ask", b"x", timeout=PATIENCE), None),
    "gather": (None, lambda program: program.left.gather("ask", b"x", timeout=PATIENCE), None),
    "durable": (None, lambda program: program.left.request("ask", b"x", timeout=PATIENCE, durable=True), None),
    "respond": (None, _respond, None),
    "put": (None, lambda program: program.queue.put(b"x"), None),
    "pending": (None, lambda program: program.queue.pending(), None),
    "work": (None, _work, None),
    "events": (None, _events, None),
    "new_connection": (None, _connect, None),
    "dial": (None, _dial, None),
    "dead_letters": (None, lambda program: program.left.admin.dead_letters(), None),
    "status": (None, lambda program: program.left.status(), None),
    "open streams": (None, _open_streams, _open_streams_again),
    "close streams": (_open_streams, _close, _open_streams_again),
    "connect": (None, _connect_streams, None),
    "publish": (None, _publish, None),
    "take element": (None, _take_number, None),
    "stream": (None, _stream, None),
}


class Trials:
    """Makes them, one after the other, on one program."""

    def __init__(self, name: str, program: Program) -> None:
        self.name = name
        self.before, self.call, self.after = CALLS[name]
        self.program = program
        self.trials = self.interrupted = 0
        self.happens_once = self.before is not None or self.after is not None
        """The call is not made again and again until it is interrupted."""
        self.late = 0
        """Interrupts that came when the call was over."""

    def one(self, around: Callable[[Call, Program], object]) -> bool:
        """False where the call ended before it was interrupted."""
        if self.before is not None:
            self.before(self.program)
        self.trials += 1
        was_interrupted = False
        try:
            around(self.call, self.program)
        except KeyboardInterrupt:
            was_interrupted = True
        except TimeoutError:
            pass
        self.interrupted += was_interrupted
        if self.after is not None:
            self.after(self.program)
        self.program.works()
        return was_interrupted

    def say(self, broken: str = "") -> None:
        told = {
            "call": self.name,
            "kills": self.trials,
            "interrupted": self.interrupted - self.late,
            "rig": {self.name: 1},
            "failed": int(broken != ""),
            "broken": broken,
        }
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


class Tracer:
    """Interrupts a call at the line of our own code that has this number."""

    def __init__(self, line: int) -> None:
        self.seen = 0
        self._line = line

    def __call__(self, call: Call, program: Program) -> None:
        sys.settrace(self._trace)
        try:
            call(program)
        finally:
            sys.settrace(None)
        if self.is_through:
            time.sleep(PATIENCE)  # it came in a finalizer, which Python leaves to nobody: it comes again
            raise AssertionError("no KeyboardInterrupt has come")

    @property
    def is_through(self) -> bool:
        return self.seen > self._line

    def _trace(self, frame: FrameType, event: str, _arg: object) -> Any:
        file = frame.f_code.co_filename
        if file.endswith(_NOT_HERE) or not any(part in file for part in _OURS):
            return None
        if event == "line":
            self.seen += 1
            if self.is_through:
                sys.settrace(None)
                frame.f_trace = None
                signal.raise_signal(signal.SIGINT)
                return None
        return self._trace


def sweep(trials: Trials, points: int) -> None:
    """At so many lines, from the first to the last."""
    trials.one(lambda call, program: call(program))  # the first time more is made than later
    tracer = Tracer(2**31)
    trials.one(tracer)
    line, stride = 0, max(1, tracer.seen // points)
    while tracer.is_through or not line:
        tracer = Tracer(line)
        trials.one(tracer)
        line += stride


def at_random(trials: Trials, count: int, seed: int) -> None:
    chance, took = random.Random(seed), []
    for _ in range(10):
        began = time.perf_counter()
        trials.one(lambda call, program: call(program))
        took.append(time.perf_counter() - began)
    trials.trials = 0
    with subprocess.Popen([sys.executable, "-c", _SENDER], stdin=subprocess.PIPE, text=True) as sender:
        assert sender.stdin is not None
        usual = statistics.median(took)

        def around(call: Call, program: Program) -> None:
            assert sender.stdin is not None
            sender.stdin.write(f"{chance.uniform(0, 1.2 * usual)}\n")
            sender.stdin.flush()
            end = time.monotonic() + PATIENCE
            while time.monotonic() < end:
                with suppress(TimeoutError):
                    call(program)
                if trials.happens_once:
                    trials.late += 1
                    time.sleep(PATIENCE)  # it comes a little later
            raise AssertionError("no KeyboardInterrupt has come")

        for _ in range(count):
            trials.one(around)
        sender.stdin.close()


def main() -> None:
    names, *how = sys.argv[1:]
    if is_random := names == "random":
        names = list(CALLS)[int(how[2]) % len(CALLS)]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    with tempfile.TemporaryDirectory() as directory:
        program = Program(Path(directory))
        for name in names.split(","):
            trials = Trials(name, program)
            try:
                if is_random:
                    at_random(trials, int(how[1]), int(how[2]))
                else:
                    sweep(trials, int(how[0]) if how else 2**31)
            except BaseException as error:
                trials.say("".join(traceback.format_exception(error)))
                os._exit(1)  # its state is unknown
            trials.say()
        program.close()


if __name__ == "__main__":
    main()
