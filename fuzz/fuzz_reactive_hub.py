"""Fuzzes `fuzz.hub_bodies.operations` with atheris (V3). From the root of the repository:

    python -m fuzz.fuzz_reactive_hub -max_total_time=150       for 2.5 minutes
    python -m fuzz.fuzz_reactive_hub found -max_total_time=36000     for ten hours, keeping new cases in found/
    python -m fuzz.fuzz_reactive_hub crash-...     that one case again

Options are libFuzzer's. It stops at the first case that breaks a promise and writes it to a file `crash-...`.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["tolliver_proto"]):
    from fuzz import hub_bodies
    from fuzz.runner import with_seeds


def test_one_input(data: bytes) -> None:
    hub_bodies.operations(data)


if __name__ == "__main__":
    with with_seeds(sys.argv, hub_bodies.operations_seeds()) as arguments:
        atheris.Setup(arguments, test_one_input)
        atheris.Fuzz()
