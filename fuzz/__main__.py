"""Runner of one fuzz target with atheris (V3).

From the root of the repository, on Linux:

    python -m fuzz                                        the names of the targets
    python -m fuzz TARGET -max_total_time=150             for 2.5 minutes, beginning with the corpus and the seeds
    python -m fuzz TARGET found -max_total_time=36000     for ten hours, keeping new cases in found/
    python -m fuzz TARGET crash-...                       that one case again

Options are libFuzzer's. It stops at the first case that breaks a promise and writes it to a file `crash-...`.
`make fuzz MINUTES=n` runs all of them, and keeps what they find.
"""

from __future__ import annotations

import sys

from fuzz.targets import TARGETS


def main() -> int:
    if sys.argv[1:2] == [] or sys.argv[1] not in TARGETS:
        print(__doc__, "\n\nTargets:", ", ".join(TARGETS))
        return 2
    import atheris

    target = TARGETS[sys.argv.pop(1)]
    with atheris.instrument_imports(include=list(target.watched), exclude=["tolliver_proto._testing"]):
        body, seeds = target.load()
        from fuzz.runner import completed

    def test_one_input(data: bytes) -> None:
        body(data)

    with completed(target, sys.argv, seeds()) as arguments:
        atheris.Setup(arguments, test_one_input)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
