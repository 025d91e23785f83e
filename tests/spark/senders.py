"""Sender into a stream: an instance over TLS."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
from tolliver.blocking import TLS, InstanceOptions, create_instance

from tolliver_proto import Limits

_WAITING = 20_000  # messages that may wait for their acknowledgements


class Sender(threading.Thread):
    """Sends `count` messages whose bodies are numbers from `first` on, as soon as somebody subscribes, until `stop`.

    The same numbers are sent once each, whoever receives and however often that one dies. `count` None: no end.
    """

    def __init__(
        self, database: Path, address: str, tls: TLS, first: int, count: int | None, run: int = 500, pause: float = 0.0
    ) -> None:
        super().__init__(daemon=True)
        self.options = InstanceOptions(
            database=database,
            tls=tls,
            remotes=[address],
            retry_interval=1.0,
            limits=Limits(redial_max=2.0),  # more than 30 dials in a minute would wait for the next one (T-52)
        )
        self.first = first
        self.sent = 0
        self.allowed: float = float("inf")
        """Number that may be sent by now."""
        self.count = count
        self._run = run
        self._pause = pause
        self._ending = threading.Event()
        self._drained = threading.Event()
        self._failed: BaseException | None = None

    def run(self) -> None:
        try:
            self._send()
        except BaseException as error:
            self._failed = error
            raise
        finally:
            self._drained.set()

    def _send(self) -> None:
        with create_instance(self.options) as instance:
            while not self._ending.is_set() and (self.count is None or self.sent < self.count):
                subscribed = any(peer.subscriptions for peer in instance.peers())  # else T-62 may keep it all the same
                if not subscribed or self.sent >= self.allowed or instance.stats()["pending"] > _WAITING:
                    time.sleep(0.005)
                    continue
                some = self._run if self.count is None else min(self._run, self.count - self.sent)
                bodies = range(self.first + self.sent, self.first + self.sent + some)
                receipt = instance.send_many([("readings", f"k{at % 7}", b"%d" % at) for at in bodies])
                assert receipt.deliveries == some
                self.sent += some
                self._ending.wait(self._pause)
            while instance.stats()["pending"]:
                time.sleep(0.01)

    def end(self) -> None:
        """Send no more. It goes on until all is acknowledged."""
        self._ending.set()

    def drained(self, patience: float) -> bool:
        """True if all that was sent is acknowledged within so many seconds."""
        self._drained.wait(patience)
        assert self._failed is None, self._failed
        return self._drained.is_set()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


def stager_of(stage: Path) -> int:
    """The process that receives into a stage, or did last; 0 if there was none."""
    try:
        return int((stage / "lock").read_text())
    except (OSError, ValueError):
        return 0


def alive(pid: int) -> bool:
    """True if the process is still there, and not just its name."""
    try:
        return pid != 0 and bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def ends(pid: int, patience: float) -> bool:
    """True if the process ends within so many seconds."""
    end = time.monotonic() + patience
    while alive(pid):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
