"""Peers with one fault each, by which a conformance kit is judged: does it see them?

    python -m tests.conform.faults NAME listen|dial HOST:PORT --certs DIR --name NAME
    python -m tests.conform.faults --list

It takes the options of `tests.conform.contract`, but for the adapter. `faulty(fault, ...)` does the same in a test.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from scripts.planted.place import planted

from .fault import Fault, Role
from .message_faults import MESSAGE_FAULTS
from .peers import PROJECT, peer
from .stream_faults import STREAM_FAULTS

FAULTS: tuple[Fault, ...] = (*MESSAGE_FAULTS, *STREAM_FAULTS)
ADAPTER = "asyncio"
_CHANGED = ("tolliver_proto", "transports")
_SHARED = ("tests", "scripts")


def plant(fault: Fault, project: Path) -> None:
    """Make the directory a project whose peer has the fault. Raises SystemExit where a place of the fault is gone."""
    for name in _CHANGED:
        shutil.copytree(PROJECT / name, project / name)
    for name in _SHARED:
        (project / name).symlink_to(PROJECT / name)
    for bug in fault.bugs:  # one after the other, as two may be in one file
        path, text = planted(bug, project)
        path.write_text(text, "utf-8")


@contextmanager
def faulty(fault: Fault, role: Role, address: str, certs: Path, name: str, *options: str) -> Iterator[str]:
    """The address of the running peer, which it listens on or dials. In the role "cross" it listens, and dials the
    `--remote` of the options.
    """
    with tempfile.TemporaryDirectory() as directory:
        project = Path(directory)
        plant(fault, project)
        given = ["dial" if role == "dial" else "listen", address, "--certs", str(certs), "--name", name, *options]
        with peer(_arguments(fault, given), project) as said:
            yield said


def _arguments(fault: Fault, given: Sequence[str]) -> list[str]:
    return [ADAPTER, *given, *(["--streams"] if fault.protocol == "streams" else [])]


def main(arguments: Sequence[str] | None = None) -> int:
    name, *given = arguments if arguments is not None else sys.argv[1:] or ["--help"]
    if name == "--list":
        sys.stdout.writelines(f"{one.name:32} {one.ruling:6} {','.join(one.roles):12} {one.wrong}\n" for one in FAULTS)
        return 0
    fault = next((one for one in FAULTS if one.name == name), None)
    if fault is None:
        sys.stderr.write(f"{__doc__}\n{name!r} is no fault: --list has them\n")
        return 2
    over = {signal.SIGINT, signal.SIGTERM}
    with tempfile.TemporaryDirectory() as directory:
        plant(fault, Path(directory))
        with peer(_arguments(fault, given), Path(directory)) as said:
            signal.pthread_sigmask(signal.SIG_BLOCK, over)
            sys.stdout.write(f"{said}\n")
            sys.stdout.flush()
            signal.sigwait(over)
    return 0


if __name__ == "__main__":
    sys.exit(main())
