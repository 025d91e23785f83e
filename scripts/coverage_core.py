"""Line and branch coverage of the core, which must be whole (V4).

    python scripts/coverage_core.py [options of pytest, such as -n 2]

Searches are left out (the simulator's seeds, proofs by number, fuzzing, tests that are marked `search`): what they
happen to reach must not decide, and they are many times slower when they are watched. So are the tests that count
memory and calls. All of these run in `make test` beside it.
"""

from __future__ import annotations

import sys

import pytest

WIRE = (
    "vectors",
    "decoding",
    "limits",
    "transitions",
    "versions",
    "connection",
    "layouts",
    "third_layout",
    "recording",
    "recording_groups",
    "records",
    "lazy_names",
)
NODE = (
    "answers",
    "corners",
    "dialects",
    "floods",
    "foreign",
    "lines",
    "message_set",
    "numbers",
    "parts",
    "programs",
    "promises",
    "testing",
    "throttled",
)
KERNEL = {
    "commits": (
        "full_disk",
        "storing",
    ),
    "outboxes": (
        "addressing",
        "connect_wait",
        "expiry",
        "flushing",
        "ids",
        "quota",
        "sending",
        "strikes",
        "undelivered",
        "upkeep",
        "windows",
    ),
    "lists": (
        "holds",
        "mute",
        "peer_lists",
    ),
    "inboxes": (
        "dead_letters",
        "dropped_messages",
        "duplicates",
        "first_moments",
        "handling",
        "ordered_handling",
        "pending",
        "receiving",
        "redelivery",
        "withheld",
    ),
    "links": (
        "absence",
        "access",
        "connecting",
        "derived",
        "dial_causes",
        "duels",
        "links",
        "probes",
        "silence",
    ),
}
"""Tests of the node's parts, by part."""
PATTERNS = ("last_values", "patterns", "queues", "request_stories", "requests", "retained")
REACTIVE = (
    "connection",
    "decoding",
    "hub",
    "hub_calls",
    "hub_closing",
    "hub_deadlines",
    "hub_dials",
    "monitor",
    "publisher",
    "rules",
    "runs",
    "subscriber",
    "testing",
    "transitions",
    "vectors",
)
PARTS = {
    "wire": WIRE,
    "node": NODE,
    **{f"node/{part}": names for part, names in KERNEL.items()},
    "patterns": PATTERNS,
    "reactive": REACTIVE,
}
TESTS = [f"tests/{part}/test_{name}.py" for part, names in PARTS.items() for name in names]


def main() -> int:
    watched = [
        "--hypothesis-profile=watched",
        "--cov=tolliver_proto",
        "--cov-branch",
        "--cov-report=term-missing:skip-covered",
        "--cov-fail-under=100",
    ]
    status = pytest.main([*TESTS, "-q", "-m", "core", *sys.argv[1:], *watched])
    if status == 0:
        print(f"result: V4 coverage | tolliver_proto by {len(TESTS)} files of tests | 100 % statement and branch")
    return status


if __name__ == "__main__":
    sys.exit(main())
