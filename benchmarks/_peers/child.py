"""A measured process: `python -m benchmarks._peers.child MODULE:PROGRAM SETTING CORES IDLE LIFE`."""

from __future__ import annotations

import json
import os
import signal
import sys
from importlib import import_module

from benchmarks._peers.measuring import Setting


def main(program: str, setting: str, cores: str, idle: str, life: str) -> None:
    if cores:
        os.sched_setaffinity(0, map(int, cores.split(",")))
    if idle and hasattr(os, "SCHED_IDLE"):  # runs when nobody else wants the core, and gives it up at once
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    signal.alarm(int(life))  # so that nothing is left behind
    module, _, name = program.partition(":")
    getattr(import_module(f"benchmarks._peers.{module}"), name)(Setting(**json.loads(setting)))


if __name__ == "__main__":
    main(*sys.argv[1:])
