"""`make demo`: the product doing its job on this machine, and the proof that nothing was lost.

The idea: one process publishes real readings of this machine to two others over mutual TLS. In the middle one
subscriber is killed with SIGKILL and comes back, and then the publisher. Everybody keeps a log that survives that; at
the end the logs are compared, message by message. Then Spark audits what went over the wires, which every process has
recorded, and draws it. The exit status is 1 if a reliable message was lost.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from ._demo.child import HOST, PUBLISHER, RECORDINGS, SUBSCRIBERS
from ._demo.publisher import DRAIN_SECONDS
from ._demo.verdict import LEGEND, judge, table_of
from .certs import make_ca, make_certificate
from .spark._local import local_session, missing

_MARK = ".tolliver-demo"  # only a directory with this file in it is emptied
_PACKAGE = "tolliver_transports._demo"
_STATUS_INTERVAL = 2.0  # seconds
_ANSWER_SECONDS = 10.0  # for a process to end after it was asked to


class DemoError(Exception):
    """The demo could not be played to its end."""


class Child:
    """A process of the demo, through all its runs. Only these are ever killed, each by its own pid."""

    def __init__(self, directory: Path, name: str, module: str, arguments: Sequence[object]) -> None:
        self.name = name
        self._directory = directory
        self._module = module
        self._arguments = arguments
        self._run = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._run += 1
        arguments = map(str, (self._directory, self.name, self._run, *self._arguments))
        command = [sys.executable, "-m", f"{_PACKAGE}.{self._module}", *arguments]
        with self._words.open("wb") as words:
            # A session of its own: Ctrl-C is for the parent, which ends its children in order.
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=words, start_new_session=True)

    def kill(self) -> None:
        """SIGKILL: no chance to say or save anything."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._let_go()

    def stop(self, seconds: float) -> None:
        """Ask it to end in order, and wait for that."""
        process = self._process
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise DemoError(f"{self.name} does not end within {seconds:g} s: {self._last_words()}") from None
        self._let_go()
        if status:
            raise DemoError(f"{self.name} ended with status {status}: {self._last_words()}")

    def check(self) -> None:
        """Raises DemoError if it has ended by itself."""
        status = self._process.poll() if self._process is not None else None
        if status is not None:
            raise DemoError(f"{self.name} ended by itself with status {status}: {self._last_words()}")

    @property
    def alive(self) -> bool:
        return self._process is not None

    @property
    def _words(self) -> Path:
        return self._directory / f"{self.name}.{self._run}.err"

    def _last_words(self) -> str:
        words = self._words.read_text(errors="backslashreplace").strip()
        return f"{words.splitlines()[-1] if words else 'it said nothing'} (see {self._words})"

    def _let_go(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None


class Demo:
    """The cast, the story, and what is shown of it while it runs."""

    def __init__(self, console: Console, directory: Path, seconds: float, rate: float) -> None:
        self._console = console
        self._directory = directory
        self._seconds = seconds
        port = _free_port()
        self._publisher = Child(directory, PUBLISHER, "publisher", [port, rate, len(SUBSCRIBERS)])
        self._subscribers = {name: Child(directory, name, "subscriber", [port]) for name in SUBSCRIBERS}
        self._begun = time.monotonic()
        self._status_due = 0.0
        self._counts = {name: LineCount(directory, name) for name in (PUBLISHER, *SUBSCRIBERS)}

    def play(self) -> None:
        """The whole story. Raises DemoError; leaves no process behind."""
        bob, publisher = self._subscribers["bob"], self._publisher
        try:
            self._say("starting two subscribers, alice (everything) and bob (cpu and memory), and the publisher")
            for child in (*self._subscribers.values(), publisher):
                child.start()
            self._until_published()
            for share, words, act in (
                (0.25, "killing subscriber bob with SIGKILL; what he misses waits on the publisher's disk", bob.kill),
                (0.20, "bob comes back", bob.start),
                (0.20, "killing the publisher with SIGKILL", publisher.kill),
                (0.05, "the publisher comes back", publisher.start),
            ):
                self._pass(share)
                self._say(words)
                act()
            self._pass(0.30)
            self._say("no more readings; the publisher drains what is still on its way")
            publisher.stop(DRAIN_SECONDS + _ANSWER_SECONDS)
            self._status()
            for subscriber in self._subscribers.values():
                subscriber.stop(_ANSWER_SECONDS)
        finally:
            for child in (publisher, *self._subscribers.values()):
                child.kill()

    def _until_published(self) -> None:
        deadline = time.monotonic() + 30.0
        while not self._counts[PUBLISHER].now():
            self._look()
            if time.monotonic() > deadline:
                raise DemoError(f"nothing was published within 30 s: see the .err files in {self._directory}")
        self._say("connected over mutual TLS; readings flow")

    def _pass(self, share: float) -> None:
        end = time.monotonic() + share * self._seconds
        while time.monotonic() < end:
            self._look()

    def _look(self) -> None:
        for child in (self._publisher, *self._subscribers.values()):
            child.check()
        if time.monotonic() >= self._status_due:
            self._status_due = time.monotonic() + _STATUS_INTERVAL
            self._status()
        time.sleep(0.02)

    def _status(self) -> None:
        shown = [f"sent {self._counts[PUBLISHER].now('sent'):,}"]
        for name, child in self._subscribers.items():
            shown.append(f"{name} has {self._counts[name].now('got'):,}{'' if child.alive else ' (down)'}")
        if not self._publisher.alive:
            shown.append("publisher down")
        self._say(", ".join(shown), style="dim")

    def _say(self, words: str, style: str = "") -> None:
        now = time.monotonic() - self._begun
        self._console.print(f"{now:6.1f} s  {escape(words)}", style=style, highlight=False)


class LineCount:
    """How many lines a process has logged so far, of all its runs; reads each byte once."""

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
                word = line.split(b" ", 1)[0].decode()
                self._counts[word] = self._counts.get(word, 0) + 1
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
    for name in (PUBLISHER, *SUBSCRIBERS):
        make_certificate(directory, name)


def report(console: Console, directory: Path) -> int:
    """Show what the logs say; returns the exit status."""
    tallies = judge(directory)
    console.print(table_of(tallies))
    console.print(LEGEND, style="dim", highlight=False)
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


def audit_recordings(console: Console, directory: Path) -> int:
    """Have Spark say it, too, of what went over the wires; returns the exit status. Without Spark, say what to do."""
    reason = missing()
    if reason is not None:
        console.print(f"No audit of the recordings by Spark: {reason}.", highlight=False, markup=False)
        return 0
    from ._demo.curves import curves_of
    from .spark.audit import audit

    console.print("Spark audits the recordings of the three processes, which takes about half a minute.", style="dim")
    page = directory / "report.html"
    with local_session() as spark, audit(spark, [directory / RECORDINGS]) as found:
        found.write_html(page, curves_of(spark, directory / RECORDINGS / next(iter(SUBSCRIBERS))))
        for end, row in found.by_receiver().items():
            counts = ", ".join(f"{name} {count:,}" for name, count in row.items())
            console.print(f"  to {end}: {counts}", highlight=False, markup=False)
            if not row["delivered"]:
                raise DemoError(f"the recordings say nothing of what came to {end}: see {directory / RECORDINGS}")
        lost = found.lost
    console.print(f"lost = {lost:,}", style="bold red" if lost else "green", highlight=False)
    console.print(f"The report, to open in a browser: {escape(str(page))}", highlight=False)
    return 1 if lost else 0


def run_demo(directory: Path, seconds: float, rate: float, check: bool, audit: bool = True) -> int:
    """Play it, or with `check` only judge the logs of an earlier run; returns the exit status."""
    console = Console(soft_wrap=True)
    try:
        if not check:
            prepare(directory)
            Demo(console, directory, seconds, rate).play()
        status = report(console, directory)
        return max(status, audit_recordings(console, directory)) if audit else status
    except KeyboardInterrupt:
        console.print("interrupted; every process of the demo has ended")
        return 130
    except DemoError as error:
        console.print(f"demo: {error}", style="bold red", markup=False)
        return 1
