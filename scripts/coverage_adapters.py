"""Every line of the adapters is run by their tests, but for those that are named here with a reason; or this fails.

    python scripts/coverage_adapters.py [options of pytest, such as -n 2]
    python scripts/coverage_adapters.py --folders     only names the folders of tests that it runs

The idea: a line that no test runs is named by its text, so that the list neither goes stale when lines move nor hides a
second one like it: a line that is listed and run, or listed and gone, is an error too.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import coverage
import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "transports" / "tolliver_transports"
FOLDERS = [f"tests/{name}" for name in ("adapters", "anyio", "blocking", "twisted", "tls")]
ELSEWHERE = ("certs.py", "cli.py", "demo.py", "_sqlite.py", "_sqlite_file.py", "sqlite.py")  # tests/cli, tests/store
UNREACHED: dict[tuple[str, str], str] = {}
"""(module, line): why no test runs it here."""


def missed(data: str) -> dict[tuple[str, str], int]:
    """The lines that were not run, by module and text, with their numbers."""
    measured = coverage.Coverage(data_file=data, config_file=False)
    measured.load()
    lines = {}
    for module in sorted(PACKAGE.glob("*.py")):
        if module.name not in ELSEWHERE:
            text = module.read_text().splitlines()
            _, _, _, missing, _ = measured.analysis2(str(module))
            lines.update({(module.name, text[number - 1].strip()): number for number in missing})
    return lines


def complaints(lines: dict[tuple[str, str], int]) -> list[str]:
    new = [f"{name}:{lines[name, line]} is never run: {line}" for name, line in lines.keys() - UNREACHED.keys()]
    old = [f"{name} has no such line, or it is run: {line}" for name, line in UNREACHED.keys() - lines.keys()]
    return sorted(new) + sorted(old)


def main() -> int:
    if sys.argv[1:] == ["--folders"]:
        print(*FOLDERS)
        return 0
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "coverage.ini"
        data = Path(directory) / "data"
        config.write_text(f"[run]\nsource = {PACKAGE}\ndata_file = {data}\nconcurrency = thread\n")
        watched = [f"--cov={PACKAGE}", f"--cov-config={config}", "--cov-report="]
        status = pytest.main([*FOLDERS, "-q", *sys.argv[1:], *watched])
        if status:
            return int(status)
        wrong = complaints(missed(str(data)))
    print(*wrong, f"{len(UNREACHED)} lines of the adapters are not run, each with its reason", sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
