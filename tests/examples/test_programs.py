"""Programs of examples/: each runs as a user runs it, says what it did, and ends by itself."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests import zygote
from tests.certificates import Certificates

FOLDER = Path(__file__).parents[2] / "examples"
PATIENCE = 180  # seconds, far above what any of them takes
SAID = {
    "from_spark": "Spark has the acknowledgement of every row",
    "into_spark": "a row: cpu2 2 %",
    "on_asyncio": "bob has acknowledged all of them",
    "on_threads": "done: 10 jobs",
    "on_trio": "alice has nothing left to send",
    "on_twisted": "alice asks for [1, 3] and bob answers 0.3333333333333333",
    "two_banks": "400 transfers, each once: 2000000 in both accounts",
    "over_tls": "bob has ended a connection in order",
    "own_loop": "CLIENT Closed(error=None)",
    "with_fastapi": 'the service says {"stored for":1}',
}
"""A line that shows that the program came to its end."""
MOST_LINES = dict.fromkeys(SAID, 62) | {"over_tls": 151, "two_banks": 112}
NEEDS = {"with_fastapi": "fastapi"}
IN_SPARK = ("into_spark", "from_spark")
"""Run by tests/spark/test_page.py, in the session that its tests share."""


def test_every_program_is_listed_and_short() -> None:
    programs = {path.stem: path.read_text("utf-8").count("\n") for path in FOLDER.glob("[!_]*.py")}
    assert programs.keys() == SAID.keys()
    assert {name: lines for name, lines in programs.items() if lines > MOST_LINES[name]} == {}
    table = (FOLDER.parent / "docs" / "adapters.md").read_text("utf-8")
    assert {*re.findall(r"\]\(\.\./examples/(\w+)\.py\)", table)} == SAID.keys()


def run(command: list[str], folder: Path) -> tuple[int, str, str]:
    """Its exit code and what it said; nothing that it started outlives it, also where it comes to no end."""
    pipe = subprocess.PIPE
    with zygote.Process(command, cwd=folder, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        try:
            said, complained = process.communicate(timeout=PATIENCE)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, said, complained


def test_no_program_has_a_port_of_its_own_so_that_it_runs_beside_itself() -> None:
    fixed = re.compile(r"127\.0\.0\.1(?::(?!0\b|\{)|\", (?!0\)))")
    assert [path.name for path in FOLDER.glob("[!_]*.py") if fixed.search(path.read_text("utf-8"))] == []


@pytest.mark.parametrize("name", [name for name in SAID if name not in IN_SPARK])
def test_the_program_says_what_it_did_and_ends(name: str, tmp_path: Path, certs: Certificates) -> None:
    if name in NEEDS and find_spec(NEEDS[name]) is None:
        pytest.skip(f"{name} needs {NEEDS[name]}, which is not installed")
    for member in ("alice", "bob"):
        certs.tls(member)
    (tmp_path / "certs").symlink_to(certs.directory)
    command = [sys.executable, "-W", "error", str(FOLDER / f"{name}.py")]
    code, said, complained = run(command, tmp_path)
    assert (code, SAID[name] in said.splitlines()) == (0, True), said + complained


INTERRUPTED = """
import builtins, os, runpy, signal, sys

def interrupt(*_words, **_more):
    builtins.print = said
    os.kill(os.getpid(), signal.SIGINT)

said, builtins.print = builtins.print, interrupt
runpy.run_path(sys.argv[1], run_name="__main__")
"""
"""Ctrl-C in place of the first line that the program says."""


@pytest.mark.parametrize("name", [name for name in SAID if name != "from_spark"])  # its first line comes out of a job
def test_ctrl_c_ends_the_program_without_a_traceback(name: str, tmp_path: Path, certs: Certificates) -> None:
    if name in NEEDS and find_spec(NEEDS[name]) is None:
        pytest.skip(f"{name} needs {NEEDS[name]}, which is not installed")
    for member in ("alice", "bob"):
        certs.tls(member)
    (tmp_path / "certs").symlink_to(certs.directory)
    command = [sys.executable, "-c", INTERRUPTED, str(FOLDER / f"{name}.py")]
    _code, _said, complained = run(command, tmp_path)
    assert "Traceback" not in complained, complained


def test_the_page_about_web_applications_shows_parts_of_the_programs() -> None:
    page = (FOLDER.parent / "docs" / "web.md").read_text("utf-8")
    blocks = page.split("```python\n")[1:4]
    for block, name in zip(blocks, ("with_fastapi", "web/fastapi_app", "web/django_app"), strict=True):
        shown = block.partition("```")[0]
        assert shown
        assert shown in (FOLDER / f"{name}.py").read_text("utf-8")
