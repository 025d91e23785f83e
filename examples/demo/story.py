"""The demo's story: who publishes, who subscribes, who is killed.

One process publishes real readings of this machine to two others over mutual TLS. In the middle one
subscriber is killed with SIGKILL and comes back, and then the publisher. Everybody keeps a log that survives that; at
the end the logs are compared, message by message. In a second act, where Spark can run, a streaming query writes the
readings into a table, and its driver is killed together with its JVM. Then Spark looks whether the table has every
reading once, audits what went over the wires, which every process has recorded, and draws it. The exit status is 1 if a
reliable message was lost, or stands twice in the table.
"""

from __future__ import annotations

import shutil
import socket
import time
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from tolliver.certs import make_ca, make_certificate
from tolliver.spark.local import missing

from .child import DRIVER, HOST, PUBLISHER, ROWS, SUBSCRIBERS
from .processes import Child, DemoError
from .progress import Bar
from .publisher import DRAIN_SECONDS
from .spark_audit import audit_with_spark
from .verdict import LEGEND, explained, judge, table_of

_MARK = ".tolliver-demo"  # only a directory with this file in it is emptied
_STATUS_INTERVAL = 2.0  # seconds
_ANSWER_SECONDS = 60.0  # for a process to end after it was asked to
_SPARK_SECONDS = 600.0  # for Spark to start, to write a batch, or to end: far above what it takes
_START, _KILLS, _SECOND_ACT, _CALM, _END = "start", "kills", "second act", "calm", "end"
_USUAL = {_START: 3.0, _END: 3.0}  # seconds
_USUAL_OF_SPARK = {_START: 15.0, _SECOND_ACT: 25.0, _END: 15.0}


class Demo:
    """The cast, the story, and what is shown of it while it runs."""

    def __init__(self, console: Console, directory: Path, seconds: float, rate: float, *, spark: bool) -> None:
        self._console = console
        self._directory = directory
        self._seconds = seconds
        port = _free_port()
        self._publisher = Child(directory, PUBLISHER, "publisher", [port, rate, len(SUBSCRIBERS) + spark])
        self._subscribers = {name: Child(directory, name, "subscriber", [port]) for name in SUBSCRIBERS}
        self._drivers = [Child(directory, DRIVER, "table", [port])] if spark else []
        self._begun = time.monotonic()
        self._status_due = 0.0
        self._shown: list[str] = []
        self._over = False
        flow = {_KILLS: 0.7 * seconds, _CALM: 0.3 * seconds}
        self._bar = Bar(console, flow | (_USUAL_OF_SPARK if spark else _USUAL))
        self._counts = {name: LineCount(directory, name) for name in (PUBLISHER, DRIVER, *SUBSCRIBERS)}

    def play(self) -> None:
        """The whole story. Raises DemoError; leaves no process behind."""
        with self._bar:
            self._play()

    def _play(self) -> None:
        bob, publisher = self._subscribers["bob"], self._publisher
        try:
            with self._bar.part(_START):
                self._say("starting two subscribers, alice (everything) and bob (cpu and memory), and the publisher")
                for child in self._children:
                    child.start()
                if self._drivers:
                    self._say("and a Spark driver, whose streaming query writes all into a table: some ten seconds")
                self._until(PUBLISHER, "sent", 0)
            self._say("connected over mutual TLS; readings flow")
            with self._bar.part(_KILLS):
                for share, words, act in (
                    (
                        0.25,
                        "killing subscriber bob with SIGKILL; what he misses waits on the publisher's disk",
                        bob.kill,
                    ),
                    (0.20, "bob comes back", bob.start),
                    (0.20, "killing the publisher with SIGKILL", publisher.kill),
                    (0.05, "the publisher comes back", publisher.start),
                ):
                    self._pass(share)
                    self._say(words)
                    act()
            for driver in self._drivers:
                with self._bar.part(_SECOND_ACT):
                    self._second_act(driver)
            with self._bar.part(_CALM):
                self._pass(0.30)
            with self._bar.part(_END):
                self._finish()
        finally:
            for child in self._children:
                child.kill()

    def _finish(self) -> None:
        self._say("no more readings; the publisher drains what is still on its way")
        self._over = True
        self._publisher.stop(DRAIN_SECONDS + _ANSWER_SECONDS)
        self._status()
        for subscriber in self._subscribers.values():
            subscriber.stop(_ANSWER_SECONDS)
        for driver in self._drivers:
            self._say("the streaming query writes what is staged, and ends")
            driver.stop(_SPARK_SECONDS)
            self._status()
        if self._bar.shown:
            self._say(", ".join(self._shown), style="dim")

    def _second_act(self, driver: Child) -> None:
        """The driver dies while a batch may be running; what is sent meanwhile waits on the publisher's disk."""
        self._until(DRIVER, ROWS, 0)
        self._say("the table fills; killing the Spark driver and its JVM with SIGKILL")
        driver.kill()
        written = self._counts[DRIVER].now(ROWS)
        self._say("the driver comes back, and goes on from its checkpoint")
        driver.start()
        self._until(DRIVER, ROWS, written)

    @property
    def _children(self) -> list[Child]:
        return [*self._subscribers.values(), *self._drivers, self._publisher]

    def _until(self, name: str, kind: str, count: int) -> None:
        """Until a process has logged more of this."""
        deadline = time.monotonic() + _SPARK_SECONDS
        while self._counts[name].now(kind) <= count:
            self._look()
            if time.monotonic() > deadline:
                what = f"{name} said nothing new for {_SPARK_SECONDS:g} s"
                raise DemoError(f"{what}: see the .err files in {self._directory}")

    def _pass(self, share: float) -> None:
        end = time.monotonic() + share * self._seconds
        while time.monotonic() < end:
            self._look()

    def _look(self) -> None:
        for child in self._children:
            child.check()
        self._bar.move()
        if time.monotonic() >= self._status_due:
            self._status_due = time.monotonic() + _STATUS_INTERVAL
            self._status()
        time.sleep(0.02)

    def _status(self) -> None:
        shown = [f"sent {self._counts[PUBLISHER].now('sent'):,}"]
        for name, child in self._subscribers.items():
            shown.append(
                f"{name} has {self._counts[name].now('got'):,}{'' if child.alive or self._over else ' (down)'}"
            )
        if self._drivers:
            down = "" if self._drivers[0].alive or self._over else " (down)"
            shown.append(f"the table has {self._counts[DRIVER].now(ROWS):,}{down}")
        if not (self._publisher.alive or self._over):
            shown.append("publisher down")
        if shown != self._shown:
            self._shown = shown
            if self._bar.shown:
                self._bar.move(", ".join(shown))
            else:
                self._say(", ".join(shown), style="dim")

    def _say(self, words: str, style: str = "") -> None:
        now = time.monotonic() - self._begun
        self._console.print(f"{now:6.1f} s  {escape(words)}", style=style, highlight=False)


class LineCount:
    """Counts of the lines of a kind that a process has logged so far, of all its runs; reads each byte once.

    Of `ROWS`, the sum of what they say.
    """

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._name = name
        self._offsets: dict[Path, int] = {}
        self._counts: dict[str, int] = {}

    def now(self, kind: str = "sent") -> int:
        for path in self._directory.glob(f"{self._name}.*.log"):
            with path.open("rb") as file:
                file.seek(self._offsets.get(path, 0))
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._offsets[path] = self._offsets.get(path, 0) + len(whole)
            for line in whole.splitlines():
                word, _, rest = line.decode().partition(" ")
                self._counts[word] = self._counts.get(word, 0) + (int(rest) if word == ROWS else 1)
        return self._counts.get(kind, 0)


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        return int(server.getsockname()[1])


def prepare(directory: Path) -> None:
    """An empty directory with fresh certificates. Raises DemoError rather than empty one that is not the demo's."""
    if directory.exists():
        if any(directory.iterdir()) and not (directory / _MARK).exists():
            raise DemoError(f"{directory} is not empty and not the demo's: move it away, or give --directory")
        shutil.rmtree(directory)
    directory.mkdir(mode=0o700, parents=True)
    (directory / _MARK).touch()
    make_ca(directory)
    for name in (PUBLISHER, DRIVER, *SUBSCRIBERS):
        make_certificate(directory, name)


def report(console: Console, directory: Path) -> int:
    """Show what the logs say; returns the exit status."""
    tallies = judge(directory)
    console.print(table_of(tallies))
    console.print(LEGEND, style="dim", highlight=False)
    for line in explained(tallies):
        console.print(f"  {line}", highlight=False, markup=False)
    for tally in tallies:
        for count, what in ((tally.lost, "lost"), (tally.invented, "delivered but never sent")):
            if count:
                console.print(f"{tally.name}: {len(count):,} {what}: {', '.join(count[:5])} ...", style="bold red")
        if not tally.delivered:
            console.print(f"{tally.name}: nothing was delivered", style="bold red")
    good = all(tally.good for tally in tallies)
    if good:
        console.print("No reliable message was lost.", style="green")
    console.print(f"The logs, databases and certificates are in {escape(str(directory))}.", highlight=False)
    return 0 if good else 1


def run_demo(directory: Path, seconds: float, rate: float, check: bool, audit: bool = True) -> int:
    """Play it, or with `check` only judge the logs of an earlier run; returns the exit status."""
    console = Console(soft_wrap=True)
    try:
        if not check:
            prepare(directory)
            Demo(console, directory, seconds, rate, spark=audit and missing() is None).play()
        status = report(console, directory)
        return max(status, audit_with_spark(console, directory)) if audit else status
    except KeyboardInterrupt:
        console.print("interrupted; every process of the demo has ended")
        return 130
    except DemoError as error:
        console.print(f"demo: {error}", style="bold red", markup=False)
        return 1
