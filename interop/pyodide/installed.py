"""Pyodide and what its tests need, from npm and from PyPI, beside this file."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
SITE = HERE / "node_modules" / "site-packages"
"""Pytest and Hypothesis for WebAssembly."""
LONGEST = 300.0  # seconds
WHEELS = ("--only-binary", ":all:", "--python-version", "3.14", "--implementation", "cp", "--abi", "cp314")
PLATFORMS = ("--abi", "none", "--platform", "pyemscripten_2026_0_wasm32", "--platform", "any")
"""Of `pyodide` in package.json."""


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    with (HERE / "package.json").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _lacks(*command: str | Path) -> str | None:
    """Why the command did not do its work, or None."""
    done = subprocess.run(
        list(map(str, command)), cwd=HERE, capture_output=True, text=True, timeout=LONGEST, check=False
    )
    return None if done.returncode == 0 else done.stderr.strip()[-300:] or f"status {done.returncode}"


def pyodide() -> str | None:
    """Install Pyodide, if it is not there. Why it cannot be had, or None."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    with _one_at_a_time():
        if (HERE / "node_modules" / "started.snapshot").exists():
            return None
        said = _lacks("npm", "install", "--no-audit", "--no-fund", "--no-package-lock")
        said = said or _lacks("node", "python.mjs", "--keep-start")
        return said and f"npm cannot install pyodide here: {said}"


def site_packages() -> str | None:
    """Install Pytest and Hypothesis for it, if they are not there. Why they cannot be had, or None."""
    with _one_at_a_time():
        if SITE.exists():
            return None
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        said = _lacks(*pip, "--target", SITE, *WHEELS, *PLATFORMS, "pytest", "hypothesis")
        return said and f"pip cannot install wheels for WebAssembly here: {said}"
