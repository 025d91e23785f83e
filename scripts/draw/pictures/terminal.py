"""Sessions in a terminal, each recorded once and drawn as lines that appear.

    python -m scripts.draw.pictures.terminal demo|top     plays that session, and records it anew

A recording has each line of the screen with the time at which it came there and left; pauses are cut short. Where
nothing moves, or somebody wants no motion, the picture is the last screen.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import TYPE_CHECKING, NamedTuple
from xml.sax.saxutils import escape

from .svg import picture, rectangle

if TYPE_CHECKING:
    import pyte

ROOT = Path(__file__).resolve().parents[3]
HUB, STATUS = 17011, (19464, 19465, 19466)
"""Ports of the session of `top`."""
_TOLLIVER = (sys.executable, "-m", "tolliver")
_EVERY, _PAUSE = 1.0, 2.0
"""Seconds between two looks at the screen, and the longest pause."""

Run = tuple[str, str]
"""Text, and its class."""


class Line(NamedTuple):
    """A row of the screen from `begin` on, in seconds; `end` is None for what stays."""

    row: int
    begin: float
    end: float | None
    runs: Sequence[Run]


class Session(NamedTuple):
    """A command in a terminal of that size. It is shown `speed` times as fast as it was, again and again if `loops`.

    `world` is what it looks at, in a directory; the command is ended after `seconds`, None for its own end.
    """

    title: str
    command: tuple[str, ...]
    shown_as: str
    columns: int
    rows: int
    speed: float
    loops: bool = False
    world: Callable[[Path], AbstractContextManager[object]] = nullcontext
    skip: float = 0.0
    seconds: float | None = None

    def recording(self, name: str) -> Path:
        return Path(__file__).with_name(f"{name}.json")


@contextmanager
def _three_instances(directory: Path) -> Iterator[None]:
    """Alice sends forty readings in a second to bob and carol; bob is killed, and comes back."""
    from tolliver.blocking import TLS, InstanceOptions, create_instance

    named = (*_TOLLIVER, "certs", "certs", "alice", "bob", "carol")
    subprocess.run(named, cwd=directory, check=True, capture_output=True)
    certs, over = directory / "certs", Event()
    tls = TLS(certs / "alice.pem", certs / "alice.key", certs / "ca.pem")
    options = InstanceOptions(
        database=directory / "alice.db", tls=tls, listen=f"127.0.0.1:{HUB}", status=f"127.0.0.1:{STATUS[0]}"
    )

    def listen(name: str, port: int) -> subprocess.Popen[bytes]:
        where = ("--connect", f"127.0.0.1:{HUB}", "--certs", "certs", "--name", name, "--status", f"127.0.0.1:{port}")
        command = (*_TOLLIVER, "listen", *where, "--channel", "readings")
        return subprocess.Popen(command, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    with create_instance(options) as alice:
        bob, carol = listen("bob", STATUS[1]), listen("carol", STATUS[2])
        alice.wait_subscribed("readings")

        def give() -> None:
            while not over.wait(0.025):
                alice.send("readings", "cpu", b"0.25")

        def fell() -> None:
            nonlocal bob
            over.wait(9.0)
            bob.kill()
            bob.wait()
            over.wait(8.0)
            bob = listen("bob", STATUS[1])

        threads = [Thread(target=give), Thread(target=fell)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join()
            for process in (bob, carol):
                process.kill()
                process.wait()


SESSIONS = {
    "demo": Session(
        "The demo in a terminal",
        (sys.executable, "-m", "examples.demo", "--seconds", "12", "--no-audit"),
        "python -m examples.demo --seconds 12 --no-audit",
        columns=120,
        rows=80,
        speed=3.0,
    ),
    "top": Session(
        "tolliver top while a receiver is killed and comes back",
        (*_TOLLIVER, "top", "--interval", "1", *(f"127.0.0.1:{port}" for port in STATUS)),
        "tolliver top 127.0.0.1:19464 127.0.0.1:19465 127.0.0.1:19466",
        columns=100,
        rows=16,
        speed=1.5,
        loops=True,
        world=_three_instances,
        skip=4.0,
        seconds=27.0,
    ),
}


def _style(cell: pyte.screens.Char) -> str:
    """A class for the colour of a cell: named as `rich` has it, or six digits as `textual` has it."""
    if re.fullmatch(r"[0-9a-f]{6}", cell.fg):
        red, green, blue = bytes.fromhex(cell.fg)
        if green > max(red, blue) + 60:
            return "good"
        if red > max(green, blue) + 60:
            return "bad"
    named = {"red": "bad", "brightred": "bad", "green": "good", "brightgreen": "good", "brightblack": "faint"}
    return named.get(cell.fg, "title" if cell.bold else "")


def _shown(screen: pyte.Screen) -> list[tuple[Run, ...]]:
    rows = ([screen.buffer[row][column] for column in range(screen.columns)] for row in range(screen.lines))
    return [_runs([(cell.data, _style(cell)) for cell in row]) for row in rows]


def _runs(row: Sequence[tuple[str, str]]) -> tuple[Run, ...]:
    runs: list[Run] = []
    for letter, style in row:
        if runs and (runs[-1][1] == style or letter == " "):
            runs[-1] = (runs[-1][0] + letter, runs[-1][1])
        else:
            runs.append((letter, style))
    if runs:
        runs[-1] = (runs[-1][0].rstrip(), runs[-1][1])
    return tuple(run for run in runs if run[0])


def screens(session: Session, directory: Path) -> Iterator[tuple[float, list[tuple[Run, ...]]]]:
    """Plays the session in a terminal of ours: the screen, each time with the seconds since the beginning."""
    import pyte

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", session.rows, session.columns, 0, 0))
    path = os.pathsep.join([str(ROOT), str(ROOT / "transports")])
    size = {"COLUMNS": str(session.columns), "LINES": str(session.rows)}
    environment = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": path, **size}
    process = subprocess.Popen(
        session.command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=directory, env=environment
    )
    os.close(theirs)
    screen = pyte.Screen(session.columns, session.rows)
    stream = pyte.ByteStream(screen)
    begun = looked = time.monotonic()
    try:
        while session.seconds is None or time.monotonic() - begun < session.seconds:
            data = b""
            if select.select([ours], [], [], _EVERY)[0]:
                try:
                    data = os.read(ours, 65536)
                except OSError:  # the other end is closed
                    break
            stream.feed(re.sub(rb"\x1b\[2(?=(;\d+)*m)", b"\x1b[90", data))  # dim is not known there
            if time.monotonic() - looked >= _EVERY:
                looked = time.monotonic()
                yield looked - begun, _shown(screen)
        yield time.monotonic() - begun, _shown(screen)
    finally:
        os.close(ours)
        if session.seconds is not None:
            process.kill()
        if process.wait() and session.seconds is None:
            raise SystemExit(f"{chr(10).join(screen.display)}\nthe session ended with status {process.returncode}")


def record(name: str, directory: Path) -> None:
    """Play the session, its files in `directory`, and write what was seen."""
    session = SESSIONS[name]
    with session.world(directory):
        looks = [(at - session.skip, rows) for at, rows in screens(session, directory) if at >= session.skip]
    write(lines_of(looks, session.speed), session.recording(name))


def lines_of(looks: Sequence[tuple[float, list[tuple[Run, ...]]]], speed: float) -> list[Line]:
    """Each row as long as it stays the same, in a time whose pauses are cut."""
    found: list[Line] = []
    standing: dict[int, tuple[float, tuple[Run, ...]]] = {}
    clock = before = 0.0
    for at, rows in looks:
        clock, before = clock + min(at - before, _PAUSE) / speed, at
        for number in range(max(len(rows), *standing, 0)) if standing else range(len(rows)):
            row = rows[number] if number < len(rows) else ()
            begin, old = standing.get(number, (0.0, ()))
            if row != old:
                if old:
                    found.append(Line(number, round(begin, 1), round(clock, 1), old))
                standing[number] = (clock, row)
    found += [Line(number, round(begin, 1), None, row) for number, (begin, row) in standing.items() if row]
    return sorted(found, key=lambda line: (line.begin, line.row))


def write(lines: Sequence[Line], path: Path) -> None:
    path.write_text("[\n" + ",\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n]\n", "utf-8")


def read(path: Path) -> list[Line]:
    rows = json.loads(path.read_text("utf-8"))
    return [Line(row, begin, end, [(text, style) for text, style in runs]) for row, begin, end, runs in rows]


_MOTION = """
.term { font: 12px ui-monospace, monospace; white-space: pre; } .gone { visibility: hidden; }
@media (prefers-reduced-motion: reduce) { text { animation: none !important; } }
"""
_ONCE = """
@keyframes come { from { visibility: hidden; } to { visibility: visible; } }
@keyframes pass { from { visibility: visible; } to { visibility: hidden; } }
"""
_HIGH, _WIDE, _LEFT, _TOP, _REST = 17, 7.3, 14, 28, 3.0
"""Of a letter and of the paper, in pixels; seconds that the last screen stays before a loop begins again."""


def drawn(name: str) -> str:
    session = SESSIONS[name]
    lines = read(session.recording(name))
    wide = _LEFT * 2 + _WIDE * session.columns
    parts = [rectangle("box rule", 4, 4, wide - 8, _height(lines) - 8, 8)]
    parts.append(f'<text class="faint term" x="{_LEFT}" y="{_TOP}">$ {session.shown_as}</text>')
    moves = _Loop(lines) if session.loops else _Once()
    for line in lines:
        gone = "" if line.end is None else " gone"
        inner = "".join(f'<tspan class="{style or "ink"}">{escape(text)}</tspan>' for text, style in line.runs)
        parts.append(
            f'<text class="ink term{gone}" x="{_LEFT}" y="{_TOP + _HIGH * (line.row + 1)}" '
            f'style="animation:{moves.of(line)}" xml:space="preserve">{inner}</text>'
        )
    last = sorted((line for line in lines if line.end is None), key=lambda line: line.row)
    told = " / ".join("".join(text for text, _ in line.runs).strip() for line in last)
    return picture(session.title, told, wide, _height(lines), parts, _MOTION + moves.styles())


class _Once:
    """Lines that come and go one time."""

    def of(self, line: Line) -> str:
        if line.end is None:
            return f"come {line.begin}s step-end"
        return f"pass {line.end - line.begin:.1f}s step-end {line.begin}s"

    def styles(self) -> str:
        return _ONCE


class _Loop:
    """Lines that come and go again and again: a set of key frames for each pair of times."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._whole = max(line.begin for line in lines) + _REST
        self._times: dict[tuple[float, float | None], str] = {}

    def of(self, line: Line) -> str:
        name = self._times.setdefault((line.begin, line.end), f"k{len(self._times)}")
        return f"{name} {self._whole:.1f}s step-end infinite"

    def styles(self) -> str:
        frames = []
        for (begin, end), name in self._times.items():
            steps = [(0.0, "hidden"), (begin, "visible"), *([(end, "hidden")] if end is not None else [])]
            shown = " ".join(f"{100 * at / self._whole:.2f}% {{ visibility: {how}; }}" for at, how in steps)
            frames.append(f"@keyframes {name} {{ {shown} }}")
        return "\n".join(frames)


def _height(lines: Sequence[Line]) -> float:
    return _TOP + _HIGH * (2 + max((line.row for line in lines if line.end is None), default=0))


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        record(sys.argv[1], Path(made))
