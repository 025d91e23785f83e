"""Test tools for tolliver and for programs built on it.

A simulated world has the parts of the product and is driven by one random generator: one seed is one trace, in memory
and repeatable. `ConnectionPair` joins two connections. `MemoryStore` is a store. `SimNet` is a network of nodes with
crashes and faults, which checks the promises of the node at every step; `shrink` makes a failure short. `ProgramNet`
has the same faults for your own programs, and `rehearse` tries a story of them with many seeds. `BeginAt` is a random
generator for a node whose message ids begin at a known number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Any

from ._testing.adapter_loop import Weather
from ._testing.app import App
from ._testing.deployments import Deployments
from ._testing.invariants import SimFailure
from ._testing.memory_store import MemoryStore
from ._testing.pair import ConnectionPair, Side
from ._testing.programs import HARM, Programs, Question
from ._testing.randomness import BeginAt
from ._testing.shrink import Shrunk, shrink_from, shrink_seed
from ._testing.virtual_clock import Report


class SimNet(Deployments):
    """`SimNet(seed).run()`: a whole life of a few nodes. Raises SimFailure for a broken promise.

    One seed is one trace. Further arguments are those of `Simulation`: the faults last for `seconds`, in which the
    applications do `operations` operations; `nodes` is the number of nodes; `trace=True` keeps all lines.
    """

    def __init__(self, seed: int, **scenario: Any) -> None:
        super().__init__(seed, Random(seed), **scenario)


def shrink(seed: int, lives: int = 400, **scenario: Any) -> Shrunk | None:
    """Returns a short life that fails as `SimNet(seed, **scenario)` does, or None if that does not fail. The search
    runs at most `lives` simulations."""
    return shrink_seed(partial(SimNet, **scenario), seed, 30.0, lives)


class ProgramNet(Programs):
    """`ProgramNet(seed, story).run()`: instances that run your programs, in one thread and in virtual time.

    `story(net)` makes the instances with `net.instance(name, program)`. It returns a function that is True when all
    work is done, or None: the work is done when nothing is pending. `program(app)` is called at each start of its
    instance, after each crash too. Faults last for `seconds`: `operations` of them, and those of the weather. Then the
    work must be done within `patience` seconds. `never` names faults that do not happen ("break", "crash", "restart",
    "split", "fill", and chances of the weather). Raises SimFailure, whose text ends with the last lines of the trace.
    """

    def __init__(self, seed: int, story: Callable[[ProgramNet], Question | None], **scenario: Any) -> None:
        super().__init__(seed, Random(seed), story, **scenario)


def rehearse(
    story: Callable[[ProgramNet], Question | None],
    seeds: Iterable[int] = range(100),
    *,
    lives: int = 200,
    **scenario: Any,
) -> list[Report]:
    """Tries the story with each seed. Raises SimFailure for the first seed that fails, with a short scenario that fails
    in the same way; the search for it runs at most `lives` simulations."""
    reports = []
    for seed in seeds:
        try:
            reports.append(ProgramNet(seed, story, **scenario).run())
        except SimFailure as failure:
            start = {"seconds": 30.0, "operations": 20, "never": (), **scenario}
            shrunk = shrink_from(
                lambda seed, **some: ProgramNet(seed, story, **{**scenario, **some}), seed, start, lives, HARM
            )
            assert shrunk is not None, "one seed is one trace"
            named = ", ".join(f"{name}={value!r}" for name, value in shrunk.scenario.items())
            raise SimFailure(
                f"{shrunk.failure}\nthe shortest of {shrunk.lives} lives: ProgramNet({shrunk.seed}, "
                f"{getattr(story, '__qualname__', story)}, {named}).run(); the first was seed {seed}"
            ) from failure
    return reports


__all__ = [
    "App",
    "BeginAt",
    "ConnectionPair",
    "MemoryStore",
    "ProgramNet",
    "Report",
    "Shrunk",
    "Side",
    "SimFailure",
    "SimNet",
    "Weather",
    "rehearse",
    "shrink",
]
