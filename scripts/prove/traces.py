"""Traces of simulated networks, here and in another checkout: does one seed still give one trace?

    git worktree add --detach /tmp/before COMMIT
    python -m scripts.prove.traces /tmp/before [--seeds 300]
    python -m scripts.prove.traces pyodide [--seeds 30]

In place of another checkout, `pyodide` is this one in WebAssembly, where npm can bring that (interop/pyodide).

A change that only moves code gives the same trace for every seed: of networks in three wire layouts, of networks of
the Reactive Streams protocol, and the same actions of a node for every program of the fuzzer's corpus. One line for
each kind says how many are equal, and which seeds differ. Where traces differ on purpose (a simplification that
orders equal deadlines otherwise), the second column counts the seeds after which every instance has handled the same
set of messages. `--handled` asks for these sets alone. Exit status 1 where something differs that was asked for.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

ROOT = Path(__file__).resolve().parents[2]
LAYOUTS = ("DRAFT_2", "GO_2026", "RUST_2026")
KINDS = (*LAYOUTS, "reactive", "corpus")
CPYTHON, PYODIDE = (sys.executable,), ("node", str(ROOT / "interop" / "pyodide" / "python.mjs"))
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")

Traces = dict[str, tuple[int, int]]
"""By seed or name of a file: checksum of the trace, checksum of what was handled."""


def simulated(make: Callable[[int], Any], seeds: int) -> Traces:
    """Traces of networks. A story that fails is a trace too: its text is compared."""
    found = {}
    for seed in range(seeds):
        try:
            report = make(seed).run()
        except AssertionError as failure:
            found[str(seed)] = (crc32(str(failure).encode()), 0)
        else:
            found[str(seed)] = (report.trace_hash, getattr(report, "handled", 0))
    return found


def corpus() -> Traces:
    """Actions of the nodes for every program of the fuzzer's corpus, in the other checkout's own form of it."""
    sys.path.remove(str(Path(__file__).parent))  # it has a `fuzz`, too
    from fuzz.node_bodies import operations
    from tolliver_proto import Node

    actions = 0
    original = Node.next_action

    def watched(node: Node) -> Any:
        nonlocal actions
        action = original(node)
        if action is not None:
            actions = crc32(_ADDRESS.sub("", repr(action)).encode(), actions)
        return action

    Node.next_action = watched  # type: ignore[assignment, method-assign]
    found = {}
    for file in sorted((ROOT / "fuzz" / "corpus" / "node").iterdir()):
        actions = 0
        operations(file.read_bytes())
        found[file.name] = (actions, 0)
    return found


def traces(kind: str, seeds: int) -> Traces:
    if kind == "corpus":
        return corpus()
    if kind == "reactive":
        from tolliver_proto.reactive.testing import StreamNet

        return simulated(StreamNet, seeds)
    from tolliver_proto import Revision
    from tolliver_proto.testing import SimNet

    return simulated(partial(SimNet, revision=Revision[kind]), seeds)


def of(checkout: Path, kind: str, seeds: int, python: Sequence[str]) -> Traces:
    """Traces of this kind in a checkout, from a process that imports its packages."""
    command = [*python, str(Path(__file__).resolve()), str(checkout), "--one", kind, "--seeds", str(seeds)]
    paths = {"PYTHONPATH": os.pathsep.join(map(str, (checkout, checkout / "transports"))), "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **paths})
    if done.returncode:
        raise SystemExit(f"{kind} in {checkout} failed:\n{done.stderr}")
    return {name: (trace, handled) for name, (trace, handled) in json.loads(done.stdout).items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="checkout to compare with, or pyodide")
    parser.add_argument("--seeds", type=int, default=300, help="of each kind (default: 300)")
    parser.add_argument("--handled", action="store_true", help="compare what was handled, not the traces")
    parser.add_argument("--one", choices=KINDS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(traces(options.one, options.seeds)))
        return 0
    from interop.pyodide import installed  # not in a process that makes traces, which another checkout may be

    kinds: Sequence[str] = KINDS
    there: tuple[Path, Sequence[str]] = (options.other.resolve(), CPYTHON)
    if str(options.other) == "pyodide":
        if lacking := installed.pyodide():
            raise SystemExit(lacking)
        kinds, there = KINDS[:-1], (ROOT, PYODIDE)
        print("left out: corpus, as it shows sets in the order of their hashes, which have 32 bits there")
    print(f"{'traces':<10} {'equal':>11} {'handled':>11}")
    status = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        both = {
            kind: [pool.submit(of, where, kind, options.seeds, python) for where, python in ((ROOT, CPYTHON), there)]
            for kind in kinds
        }
        for kind, (ours, theirs) in both.items():
            here, other = ours.result(), theirs.result()
            differ = [name for name in here if here[name][0] != other.get(name, (None,))[0]]
            unlike = [name for name in here if here[name][1] != other.get(name, (None, None))[1]]
            asked = unlike if options.handled else differ
            equal, same = (f"{len(here) - len(names)}/{len(here)}" for names in (differ, unlike))
            print(f"{kind:<10} {equal:>11} {same:>11}   {' '.join(asked[:8])}".rstrip(), flush=True)
            status |= bool(asked)
    return status


if __name__ == "__main__":
    sys.exit(main())
