"""Line and branch coverage of the core, which must be whole (V4).

    python scripts/coverage_core.py [options of pytest]

SlipCover watches: it takes its probes out of the code once they have told, so the tests are as fast as unwatched ones.
Searches are left out (the simulator's seeds, proofs by number, fuzzing, tests that are marked `search`): what they
happen to reach must not decide, and they are many times slower when they are watched. So are the tests that count
memory and calls, and those of pages and wheels. All of these run in `make test` beside it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("wire", "node", "patterns", "reactive")
LEFT_OUT = {
    *("node/proofs", "node/simulator", "node/worlds", "reactive/proofs", "reactive/streamnet"),
    *("wire/fuzz_bodies", "wire/roundtrip", "reactive/fuzz_bodies", "reactive/roundtrip"),
    *("wire/linear", "wire/two_connections", "reactive/memory", "reactive/two_connections"),
    *("wire/protocol_page", "wire/recordings_page", "wire/states_page", "reactive/reactive_page", "reactive/rulings"),
    *("wire/purity", "wire/released", "wire/wheel"),
}
TESTS = sorted(
    str(path.relative_to(ROOT))
    for part in PARTS
    for path in (ROOT / "tests" / part).rglob("test_*.py")
    if str(path.relative_to(ROOT / "tests")).removesuffix(".py").replace("test_", "") not in LEFT_OUT
)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        watcher = ["-m", "slipcover", "--branch", "--source", "tolliver_proto", "--json", "--out", str(report)]
        tests = ["-m", "pytest", *TESTS, "-q", "-m", "core and not thorough", "--hypothesis-profile=watched"]
        known = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # pytest finds that SlipCover is imported already
        status = subprocess.run([sys.executable, *watcher, *tests, *known, *sys.argv[1:]], cwd=ROOT, check=False)
        if status.returncode:
            return status.returncode
        files = json.loads(report.read_text())["files"]
    missed = [
        f"{name}: lines {found['missing_lines']}, branches {found['missing_branches']}"
        for name, found in sorted(files.items())
        if found["missing_lines"] or found["missing_branches"]
    ]
    for line in missed:
        print(line)
    if missed:
        print(
            f"{len(missed)} files of tolliver_proto are not run whole by the tests of the core: write tests for these"
        )
        return 1
    print(f"result: V4 coverage | tolliver_proto by {len(TESTS)} files of tests | 100 % statement and branch")
    return 0


if __name__ == "__main__":
    sys.exit(main())
