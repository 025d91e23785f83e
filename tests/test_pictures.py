"""Drawn pictures of the pages: as the scripts draw them, small, with a text, and shown somewhere."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from scripts.draw.pictures import DOCS, PICTURES, message, states, terminal
from scripts.draw.states import CONNECTION
from tolliver_proto.layouts import State

KILOBYTES = 64
_SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_small_and_says_in_words_what_it_shows(name: str) -> None:
    path = DOCS / f"{name}.svg"
    text = path.read_text("utf-8")
    assert len(text) < KILOBYTES * 1024
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r"href|url\(|<script|https?://(?!www\.w3\.org/2000/svg)", text)
    drawn = ElementTree.fromstring(text)
    assert drawn.attrib["role"] == "img"
    assert len(drawn.findtext(f"{_SVG}title") or "") > 10
    assert len(drawn.findtext(f"{_SVG}desc") or "") > 80
    pages = [page.read_text("utf-8") for page in DOCS.glob("*.md")]
    assert any(re.search(rf"!\[[^]]{{20,}}\]\({name}\.svg\)", page) for page in pages)


@pytest.mark.parametrize("name", PICTURES)
def test_all_that_is_drawn_is_inside(name: str) -> None:
    """A letter is taken to be 7.5 pixels wide, or 7.3 in a terminal."""
    drawn = ElementTree.fromstring((DOCS / f"{name}.svg").read_text("utf-8"))
    width, height = float(drawn.attrib["width"]), float(drawn.attrib["height"])
    for text in drawn.iter(f"{_SVG}text"):
        x, y, kind = float(text.attrib["x"]), float(text.attrib["y"]), text.attrib["class"].split()
        wide = (6.4 if "small" in kind else 7.3) * len("".join(text.itertext()))
        left = x - wide / 2 if "middle" in kind else x - wide if "end" in kind else x
        assert left >= -1
        assert left + wide <= width + 1, "".join(text.itertext())
        assert 0 <= y <= height


# The runs that they show.


def test_no_kill_loses_a_message_that_send_has_taken() -> None:
    steps = message.Run().play().steps
    assert [(one.start, one.end) for one in steps] == [
        (message.PROGRAM, message.SENDER),
        (message.SENDER, message.DISK),
        (message.SENDER, message.PROGRAM),
        (message.SENDER, message.RECEIVER),
        (message.RECEIVER, message.HANDLER),
        (message.HANDLER, message.RECEIVER),
        (message.RECEIVER, message.SENDER),
        (message.SENDER, message.PROGRAM),
        (message.SENDER, message.DISK),
    ]
    for victim in (0, 1):
        kills = message.outcomes(len(steps), victim)
        assert len(kills) == 10
        assert all(kill.handled for kill in kills if kill.returned)


def test_every_state_and_every_way_out_of_one_is_drawn() -> None:
    text = (DOCS / "connection.svg").read_text("utf-8")
    assert all(f">{state.name}</text>" in text for state in State)
    signals = {
        CONNECTION.words[signal]
        for state in State
        for signal, step in CONNECTION.row(state)
        if step.to not in (state, State.CLOSED)
    }
    assert all(signal in text for signal in signals)
    assert {name for pair in states._SIGNALS for name in pair} == set(states._DELIVERY)


def test_a_terminal_is_read_as_it_looks(tmp_path: Path) -> None:
    said = (
        "one\\r\\n\\x1b[32mtwo\\x1b[0m of 2\\r\\n\\x1b[2mbar\\x1b[0m 1 %\\r\\x1b[2K\\x1b[38;2;135;215;0mbar\\x1b[0m 2 %"
    )
    command = (sys.executable, "-c", f"print('{said}')")
    session = terminal.Session("one", command, "one", columns=40, rows=5, speed=1.0)
    *_, (_, rows) = terminal.screens(session, tmp_path)
    assert ["".join(text for text, _ in row) for row in rows] == ["one", "two of 2", "bar 2 %", "", ""]
    assert ("two ", "good") in rows[1]
    assert ("bar ", "good") in rows[2]


def test_pauses_are_cut_and_lines_stay_as_long_as_they_stood() -> None:
    def look(*rows: str) -> list[tuple[terminal.Run, ...]]:
        return [((row, ""),) for row in rows]

    lines = terminal.lines_of([(1.0, look("a", "x")), (100.0, look("a", "y")), (101.5, look("a", "y", "z"))], speed=3.0)
    assert [(line.row, line.runs[0][0], line.end is None) for line in lines] == [
        (0, "a", True),
        (1, "x", False),
        (1, "y", True),
        (2, "z", True),
    ]
    assert lines[1].end == lines[2].begin < 1.1
