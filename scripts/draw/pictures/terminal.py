"""A session of the demo in a terminal, recorded once and drawn as lines that appear.

    python -m scripts.draw.pictures.terminal     plays the demo, and records it anew

The recording has each line of the screen with the time at which it came there and left; pauses are cut short. Where
nothing moves, or somebody wants no motion, the picture is the last screen.
"""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from xml.sax.saxutils import escape

from .svg import picture, rectangle

ROOT = Path(__file__).resolve().parents[3]
RECORDING = Path(__file__).with_name("demo.json")
COLUMNS, ROWS = 120, 80
DEMO = (sys.executable, "-m", "examples.demo", "--seconds", "12", "--no-audit")
_EVERY, _PAUSE, _SPEED = 1.0, 2.0, 3.0
"""Seconds between two looks at the screen, the longest pause, and how much faster than life it is shown."""

Run = tuple[str, str]
"""Text, and its class."""
_CODE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])")


class Line(NamedTuple):
    """A row of the screen from `begin` on, in seconds; `end` is None for what stays."""

    row: int
    begin: float
    end: float | None
    runs: Sequence[Run]


class Screen:
    """A terminal that knows what `rich` uses: colours, lines that are erased, a cursor that goes up."""

    def __init__(self) -> None:
        self.rows: list[list[tuple[str, str]]] = [[]]
        self._row = self._column = 0
        self._style = ""

    def feed(self, text: str) -> None:
        place = 0
        while place < len(text):
            code = _CODE.match(text, place)
            if code is not None:
                self._control(code[1], code[2])
                place = code.end()
                continue
            self._put(text[place])
            place += 1

    def _put(self, letter: str) -> None:
        if letter == "\n":
            self._row += 1
            self.rows += [[] for _ in range(self._row + 1 - len(self.rows))]
        elif letter == "\r":
            self._column = 0
        elif letter.isprintable():
            if self._column == COLUMNS:
                self._put("\n")
                self._column = 0
            row = self.rows[self._row]
            row += [(" ", "")] * (self._column + 1 - len(row))
            row[self._column] = (letter, self._style)
            self._column += 1

    def _control(self, given: str, kind: str) -> None:
        numbers = [int(one) for one in given.split(";") if one.isdigit()] or [0]
        if kind == "A":
            self._row = max(0, self._row - (numbers[0] or 1))
        elif kind == "K":
            self.rows[self._row] = [] if numbers[0] == 2 else self.rows[self._row][: self._column]
        elif kind == "m":
            self._style = _styled(numbers)

    def shown(self) -> list[tuple[Run, ...]]:
        return [_runs(row) for row in self.rows]


def _styled(numbers: Sequence[int]) -> str:
    for number, style in (
        (31, "bad"),
        (91, "bad"),
        (32, "good"),
        (92, "good"),
        (2, "faint"),
        (90, "faint"),
        (1, "title"),
    ):
        if number in numbers and 38 not in numbers:
            return style
    return ""


def _runs(row: Sequence[tuple[str, str]]) -> tuple[Run, ...]:
    runs: list[Run] = []
    for letter, style in row:
        if runs and runs[-1][1] == style:
            runs[-1] = (runs[-1][0] + letter, style)
        else:
            runs.append((letter, style))
    while runs and not runs[-1][0].strip():
        runs.pop()
    return tuple(runs)


def record(directory: Path) -> None:
    """Play the demo in a terminal of ours, its files in `directory`, and write what was seen."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    path = os.pathsep.join([str(ROOT), str(ROOT / "transports")])
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "PYTHONPATH": path}
    process = subprocess.Popen(DEMO, stdout=theirs, stderr=theirs, cwd=directory, env=environment)
    os.close(theirs)
    screen, decoder = Screen(), codecs.getincrementaldecoder("utf-8")("replace")
    looks: list[tuple[float, list[tuple[Run, ...]]]] = []
    begun = time.monotonic()
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:
            data = b""
        now = time.monotonic() - begun
        if looks and now - looks[-1][0] < _EVERY and data:
            screen.feed(decoder.decode(data))
            continue
        screen.feed(decoder.decode(data))
        looks.append((now, screen.shown()))
        if not data:
            break
    os.close(ours)
    if process.wait():
        said = "\n".join("".join(text for text, _ in row) for row in screen.shown())
        raise SystemExit(f"{said}\nthe demo ended with status {process.returncode}")
    write(lines_of(looks))


def lines_of(looks: Sequence[tuple[float, list[tuple[Run, ...]]]]) -> list[Line]:
    """Each row as long as it stays the same, in a time whose pauses are cut."""
    found: list[Line] = []
    standing: dict[int, tuple[float, tuple[Run, ...]]] = {}
    clock = before = 0.0
    for at, rows in looks:
        clock, before = clock + min(at - before, _PAUSE) / _SPEED, at
        for number in range(max(len(rows), *standing, 0)) if standing else range(len(rows)):
            row = rows[number] if number < len(rows) else ()
            begin, old = standing.get(number, (0.0, ()))
            if row != old:
                if old:
                    found.append(Line(number, round(begin, 1), round(clock, 1), old))
                standing[number] = (clock, row)
    found += [Line(number, round(begin, 1), None, row) for number, (begin, row) in standing.items() if row]
    return sorted(found, key=lambda line: (line.begin, line.row))


def write(lines: Sequence[Line], path: Path = RECORDING) -> None:
    path.write_text("[\n" + ",\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n]\n", "utf-8")


def read(path: Path = RECORDING) -> list[Line]:
    rows = json.loads(path.read_text("utf-8"))
    return [Line(row, begin, end, [(text, style) for text, style in runs]) for row, begin, end, runs in rows]


_MOTION = """
.term { font: 12px ui-monospace, monospace; white-space: pre; } .gone { visibility: hidden; }
@keyframes come { from { visibility: hidden; } to { visibility: visible; } }
@keyframes pass { from { visibility: visible; } to { visibility: hidden; } }
@media (prefers-reduced-motion: reduce) { text { animation: none !important; } }
"""
_HIGH, _WIDE, _LEFT, _TOP = 17, 7.3, 14, 28


def drawn(path: Path = RECORDING) -> str:
    lines = read(path)
    parts = [rectangle("box rule", 4, 4, _LEFT * 2 + _WIDE * COLUMNS - 8, _height(lines) - 8, 8)]
    parts.append(f'<text class="faint term" x="{_LEFT}" y="{_TOP}">$ python {" ".join(DEMO[1:])}</text>')
    for line in lines:
        when = (
            f"come {line.begin}s step-end"
            if line.end is None
            else f"pass {line.end - line.begin:.1f}s step-end {line.begin}s"
        )
        gone = "" if line.end is None else " gone"
        inner = "".join(f'<tspan class="{style or "ink"}">{escape(text)}</tspan>' for text, style in line.runs)
        parts.append(
            f'<text class="ink term{gone}" x="{_LEFT}" y="{_TOP + _HIGH * (line.row + 1)}" '
            f'style="animation:{when}" xml:space="preserve">{inner}</text>'
        )
    last = sorted((line for line in lines if line.end is None), key=lambda line: line.row)
    told = " / ".join("".join(text for text, _ in line.runs).strip() for line in last)
    return picture("The demo in a terminal", told, _LEFT * 2 + _WIDE * COLUMNS, _height(lines), parts, _MOTION)


def _height(lines: Sequence[Line]) -> float:
    return _TOP + _HIGH * (2 + max((line.row for line in lines if line.end is None), default=0))


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        record(Path(made))
