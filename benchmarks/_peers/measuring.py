"""Setting, clock and counter of the programs that are measured.

A program gets a `Setting`. The one that serves says its port and works until it is ended; the one that measures says
its figures and is over with that, whatever is still under way.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

HOST = "127.0.0.1"
BODY = bytes(100)
FLOOD = b"\1" * 100  # nobody answers it
LOOK = 256  # messages between two looks at the clock
LOT = 100  # messages between two turns of a loop that sends all the time


@dataclass(frozen=True)
class Setting:
    """Circumstances of one measurement."""

    seconds: float
    directory: str
    """Empty at the start of each measurement, on a disk."""

    certificates: str
    port: int = 0
    """Of the program that serves."""

    pid: int = 0
    """As above."""

    broker: int = 0
    """Its port."""

    loop: str = "asyncio"
    plaintext: bool = False
    way: str = ""
    """Of several that one program has."""

    outstanding: int = 1
    size: int = 100
    window: int = 0
    modules: str = ""


def say(value: object) -> None:
    print(json.dumps(value), flush=True)


def serving(port: int) -> None:
    say({"port": port, "pid": os.getpid()})


def over(figures: dict[str, float]) -> NoReturn:
    say(figures)
    os._exit(0)


class Meter:
    """Rate of what is added, from the first time on."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._began = 0.0
        self._count = 0

    def add(self, count: int = 1) -> None:
        now = time.perf_counter()
        if not self._began:
            self._began = now
            return
        self._count += count
        if now - self._began >= self._seconds:
            over({"rate": self._count / (now - self._began)})


def counter(seconds: float) -> Callable[[object], None]:
    """The callback that counts messages, the same one for everybody."""
    meter = Meter(seconds)
    left = LOOK

    def count(_message: object) -> None:
        nonlocal left
        left -= 1
        if not left:
            left = LOOK
            meter.add(LOOK)

    return count


class RoundTrips:
    """Questions one after the other: `answered` asks the next one."""

    def __init__(self, setting: Setting, ask: Callable[[], object]) -> None:
        self._seconds = setting.seconds
        self._ask = ask
        self._times: list[float] = []
        self._work: list[float] = []
        self._worked = processor_clock(setting.pid)

    def begin(self) -> None:
        self._asked, self._spent = time.perf_counter(), self._worked()
        self._end = self._asked + self._seconds
        self._ask()

    def answered(self, _answer: object = None) -> None:
        now, spent = time.perf_counter(), self._worked()
        self._times.append(now - self._asked)
        self._work.append(spent - self._spent)
        if now >= self._end and len(self._times) > 1:
            work = percentiles(self._work)
            over({**percentiles(self._times), "work p50": work["p50"], "work p99": work["p99"]})
        self._asked, self._spent = now, spent
        self._ask()


def processor_clock(pid: int) -> Callable[[], float]:
    """Processor seconds that this process has had; always 0 where the system does not tell."""
    clock = ~pid << 3 | 2  # as clock_getcpuclockid(3) makes it on Linux
    try:
        time.clock_gettime(clock)
    except (AttributeError, OSError):
        pid = 0
    if not pid:
        return lambda: 0.0
    return lambda: time.clock_gettime(clock)


def percentiles(times: list[float]) -> dict[str, float]:
    """Microseconds. The first tenth, at most 100, is warming up."""
    cut = statistics.quantiles(times[min(100, len(times) // 10) :], n=100)
    return {"p50": cut[49] * 1e6, "p99": cut[98] * 1e6}
