"""The core on Python 3.14 in WebAssembly: Pyodide, as browsers run it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.wire.test_wheel import FIRST_MESSAGE, build

PYODIDE = "pyodide@314"
"""Its major version is that of Python."""
PROGRAM = """
import { readFileSync } from "node:fs";
import { loadPyodide } from "pyodide";
const [wheel, code] = JSON.parse(readFileSync("given.json"));
const python = await loadPyodide();
python.FS.writeFile("/core.whl", readFileSync(wheel));
python.runPython("import sys; sys.path.insert(0, '/core.whl'); print(sys.platform, *sys.version_info[:2])");
python.runPython(code);
"""


@pytest.mark.thorough
def test_a_handshake_and_a_message_in_webassembly(tmp_path: Path) -> None:
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("npm and node are not installed")
    fetched = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", PYODIDE],
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
        check=False,
    )
    if fetched.returncode:
        pytest.skip(f"npm cannot install {PYODIDE} here")
    (tmp_path / "given.json").write_text(json.dumps([str(build(tmp_path)), FIRST_MESSAGE]))
    (tmp_path / "program.mjs").write_text(PROGRAM)
    done = subprocess.run(
        ["node", "program.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["emscripten 3 14", "/core.whl/tolliver_proto/__init__.py []"]
