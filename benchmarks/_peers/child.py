"""A measured process: `python -m benchmarks._peers.child MODULE:PROGRAM SETTING CORES NICE LIFE`."""

from __future__ import annotations

import json
import os
import signal
import sys
from importlib import import_module

from benchmarks._peers.measuring import Setting


def main(program: str, setting: str, cores: str, nice: str, life: str) -> None:
    if cores:
        os.sched_setaffinity(0, map(int, cores.split(",")))
    os.nice(int(nice))
    signal.alarm(int(life))  # whatever goes wrong, nothing is left behind
    module, _, name = program.partition(":")
    getattr(import_module(f"benchmarks._peers.{module}"), name)(Setting(**json.loads(setting)))


if __name__ == "__main__":
    main(*sys.argv[1:])
