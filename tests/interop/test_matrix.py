"""Matrix of peers: its judgement of endpoints that go wrong, its page, and one pair in earnest."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from interop import matrix
from interop.matrix import Scenario, page, play, summary

ROOT = Path(__file__).parents[2]
FEW = {"messages": Scenario("", 3, (0, 10))}
POSTMAN = """
import hashlib, os, pathlib, sys, threading, time
fault, given = sys.argv[1], {name[8:]: value for name, value in os.environ.items() if name.startswith("INTEROP_")}
if fault == "unsupported" or given["WIRE"] != "go-2026":
    sys.exit(127)
boxes = pathlib.Path(given["STATE"]).parent
mine, theirs = (boxes / f"{given[who]}.box" for who in ("NAME", "PEER"))
say = lambda *words: os.write(1, (" ".join(words) + "\\n").encode())
say("hello" if fault == "rude" else "ready")
if fault == "dies":
    sys.exit(3)

def read():
    mine.touch()
    with mine.open() as box:
        while True:
            if not (line := box.readline()):
                time.sleep(0.001)
                continue
            key, file = line.split()
            digest = hashlib.sha256(pathlib.Path(file).read_bytes()).hexdigest()
            if fault == "changes":
                digest = digest[::-1]
            if fault != "loses" or not key.endswith(".1"):
                say("handled", "left.99" if fault == "invents" else key, digest)

threading.Thread(target=read, daemon=True).start()
asked = []
for line in sys.stdin:
    verb, key, file = line.split()
    asked.append(key)
    if fault == "late" and asked.count(key) == 1:
        say("nobody", key)
        continue
    with theirs.open("a") as box:
        box.write(f"{key} {file}\\n")
    say("stored", key)
os._exit(fault == "lingers")
"""
"""An endpoint without a network: each writes into the other's box, a file. Its argument is a fault of it."""


@pytest.mark.parametrize(
    ("fault", "result"),
    [
        ("none", "passed"),
        ("late", "passed"),
        ("unsupported", "unsupported"),
        ("rude", "the first line of right is not `ready`"),
        ("dies", "right ended by itself, with status 3"),
        ("changes", r"right handled left\.\d with another body"),
        ("invents", r"right handled left\.99, which was not sent"),
        ("loses", "1 of left never came, 0 of right never came; 0 were not kept; nothing new in 1 s"),
        ("lingers", "right ended with status 1"),
    ],
)
def test_an_endpoint_is_judged_by_what_both_say(
    fault: str, result: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that listens is without fault. The only wire that they speak is the second one that is tried."""
    monkeypatch.setattr(matrix, "PATIENCE", 1.0 if fault == "loses" else 30.0)
    (tmp_path / "postman.py").write_text(POSTMAN, "utf-8")
    commands = {who: (sys.executable, str(tmp_path / "postman.py"), who) for who in ("none", fault)}
    [cell] = play(commands, FEW, [("none", fault)]).values()
    assert re.fullmatch(result, str(cell.get("why", cell["result"])))
    if result == "passed":
        assert cell == {"result": "passed", "wire": "go-2026", "messages": 6, "twice": 0, "kills": 0}


def test_what_is_not_there_is_left_out_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert [*matrix.available(["asyncio", "js", "pyodide"])] == ["asyncio"]
    assert capsys.readouterr().out == (
        "left out: js, as node is not installed\nleft out: pyodide, as node is not installed\n"
    )


def test_one_pair_in_earnest() -> None:
    """Over kills of either side; the rest is `python -m interop.matrix`."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    command = [sys.executable, "-m", "interop.matrix", "asyncio", "js", "--pair", "--scenario", "kills", "--kills", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed, 0 failed, 0 unsupported" in done.stdout


def test_the_page_is_drawn_from_what_was_run() -> None:
    cells = json.loads(matrix.RECORD.read_text("utf-8"))
    assert matrix.PAGE.read_text("utf-8") == page(cells)
    assert len(cells) == len(matrix.SCENARIOS) * len(matrix.ENDPOINTS) ** 2
    assert " 0 failed" in summary(cells)
