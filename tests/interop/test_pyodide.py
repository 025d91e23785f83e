"""The project in WebAssembly: Pyodide, Python 3.14 as browsers run it (interop/pyodide)."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from interop.pyodide import installed
from tests.wire.test_wheel import FIRST_MESSAGE, build

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "interop" / "pyodide" / "python.mjs"
LONGEST = 1800.0  # seconds: a busy machine must not fail a test

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module", autouse=True)
def _pyodide() -> None:
    if reason := installed.pyodide():
        pytest.skip(reason)


def run(*command: object) -> str:
    done = subprocess.run(
        list(map(str, command)), cwd=ROOT, capture_output=True, text=True, timeout=LONGEST, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def test_a_handshake_and_a_message_with_the_wheel_alone(tmp_path: Path) -> None:
    program = tmp_path / "first.py"
    path = f"import sys; sys.path[:] = [{str(build(tmp_path))!r}, *sys.path[2:]]\n"
    program.write_text(f"{path}print(sys.platform, *sys.version_info[:2])\n{FIRST_MESSAGE}", "utf-8")
    lines = run("node", PYTHON, program).splitlines()
    assert lines[0] == "emscripten 3 14"
    assert re.fullmatch(r"\S+\.whl/tolliver_proto/__init__\.py \[\]", lines[1])


@pytest.mark.parametrize("room", ["wire", "node", "patterns", "reactive"])
def test_the_core_passes_its_tests(room: str, record_property: Callable[[str, object], None]) -> None:
    """All that `make core` watches, but what `in_pyodide` leaves out by name."""
    if reason := installed.site_packages():
        pytest.skip(reason)
    said = run("node", PYTHON, ROOT / "tests" / "interop" / "in_pyodide.py", room)
    found = re.search(r"(\d+) passed", said)
    assert found is not None, said
    record_property("tests of the core in WebAssembly", int(found[1]))
    record_property("tests of the core left out there", said.count("left out: "))


def test_one_seed_gives_one_trace_here_and_there(record_property: Callable[[str, object], None]) -> None:
    said = run(sys.executable, "-m", "scripts.prove.traces", "pyodide", "--seeds", 20)
    equal = re.findall(r"^\S+ +(\d+)/(\d+) ", said, re.MULTILINE)
    assert len(equal) == 4
    assert all(same == all_of_them == "20" for same, all_of_them in equal)
    record_property("traces equal in WebAssembly", 20 * len(equal))


def test_a_node_over_tls_sockets_of_node_js_dials_and_listens() -> None:
    """With an instance, in both roles and through kills, and with another one of its kind."""
    said = run(
        *(sys.executable, "-m", "interop.matrix", "asyncio", "pyodide"),
        *("--scenario", "messages", "--scenario", "kills", "--kills", 2),
    )
    for pair in ("asyncio pyodide", "pyodide asyncio", "pyodide pyodide"):
        for scenario in ("messages", "kills"):
            assert f"{scenario} {pair}: passed draft-2" in said
