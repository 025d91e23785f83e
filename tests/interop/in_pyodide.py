"""Tests of the core in WebAssembly: a program for `interop/pyodide/python.mjs`, in the root of the checkout.

    node interop/pyodide/python.mjs tests/interop/in_pyodide.py wire|node|patterns|reactive [options of pytest]

They are the files that `make core` watches, without their searches. `LEFT_OUT` has the others, and is told.
"""

import os
import sys

sys.path.append("interop/pyodide/node_modules/site-packages")
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
sys.dont_write_bytecode = True

import pytest  # noqa: E402
from hypothesis import Phase, settings  # noqa: E402

from scripts.coverage_core import TESTS  # noqa: E402

LEFT_OUT: dict[str, str] = {
    "wire/test_decoding.py::test_a_body_above_the_formats_limit": "nothing has 2^31 bytes where an address has 32 bits",
    "patterns/test_patterns.py::test_the_kernels_tests_are_green_with_patterns_taken_away": "it starts a process",
}
"""Tests, with the reason why they cannot run here."""


def main(room: str, *options: str) -> int:
    settings.register_profile(
        "pyodide",
        deadline=None,
        derandomize=True,
        database=None,
        max_examples=5,
        phases=(Phase.explicit, Phase.generate),
    )
    settings.load_profile("pyodide")
    files = [file for file in TESTS if file.startswith(f"tests/{room}/")]
    lacking = {test: reason for test, reason in LEFT_OUT.items() if test.startswith(f"{room}/")}
    for test, reason in lacking.items():
        sys.stdout.write(f"left out: {test}: {reason}\n")
    apart = [f"--deselect=tests/{test}" for test in lacking]
    # The common fixtures make certificates, which no test of the core needs, with what WebAssembly does not have.
    return pytest.main(["-q", "--noconftest", "-p", "no:cacheprovider", "-m", "not search", *apart, *options, *files])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
