"""Runner of one fuzz target with atheris or hypothesis (V3).

From the root of the repository:

    python -m fuzz                                   the names of the targets
    python -m fuzz TARGET --seconds 30               by atheris, which is led by coverage, on Linux
    python -m fuzz TARGET --hypothesis               for 30 seconds without it: random cases and damaged good ones
    python -m fuzz TARGET crash-...                  that one case again, also with --hypothesis
    python -m fuzz TARGET found -max_total_time=60   keeps new cases in found/; all other options are libFuzzer's
    python -m fuzz MODULE:BODY ...                   a target of your own: docs/testing.md

It stops at the first case that breaks a promise and writes it to a file `crash-...`. `make fuzz MINUTES=n` runs all of
them, and keeps what they find.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from fuzz.targets import TARGETS, Target, named


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False, allow_abbrev=False)
    parser.add_argument("target", nargs="?", default="")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--hypothesis", action="store_true")
    options, given = parser.parse_known_args(arguments)
    target = named(options.target)
    if target is None:
        print(__doc__, "\n\nTargets:", ", ".join(TARGETS))
        return 2
    if options.hypothesis:
        from fuzz.by_hypothesis import fuzzed

        return fuzzed(target, 30.0 if options.seconds is None else options.seconds, [Path(file) for file in given])
    if options.seconds is not None:
        given.append(f"-max_total_time={max(1, round(options.seconds))}")
    return by_atheris(target, given)


def by_atheris(target: Target, given: list[str]) -> int:
    try:
        import atheris
    except ModuleNotFoundError:
        print("atheris is missing: pip install '.[fuzz]' (Linux, up to Python 3.13), or go on without it: --hypothesis")
        return 2
    with atheris.instrument_imports(include=list(target.watched), exclude=["tolliver_proto._testing"]):
        body, seeds = target.load()
        from fuzz.runner import completed

    def test_one_input(data: bytes) -> None:
        body(data)

    with completed(target, [sys.argv[0], *given], seeds()) as arguments:
        atheris.Setup(arguments, test_one_input)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
