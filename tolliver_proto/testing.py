"""Test tools for tolliver and for programs built on it.

A test's world is made of the same pieces as the product and driven by one random generator, so a seed is a whole story.
All is in memory and repeatable. `ConnectionPair` joins two connections, `MemoryStore` is a store, `SimNet` a network of
nodes with crashes and faults that checks the promises of the node at every step; `shrink` makes a failure short.
`ProgramNet` has the same faults for programs of your own, and `rehearse` tries a story of them with many seeds.
`BeginAt` is a random generator for a node whose message ids are to begin at a known place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Any

from ._testing.app import App
from ._testing.checks import SimFailure
from ._testing.clockwork import Report
from ._testing.dice import BeginAt
from ._testing.driving import Weather
from ._testing.field import Field
from ._testing.memory import MemoryStore
from ._testing.pair import ConnectionPair, Side
from ._testing.programs import HARM, Programs, Question
from ._testing.shrink import Shrunk, shrink_from, shrink_seed


class SimNet(Field):
    """`SimNet(seed).run()`: a whole life of a few nodes. Raises SimFailure where a promise is broken.

    One seed, one story. Further arguments are those of `Simulation`: `seconds` is how long the faults go on,
    `operations` how much the applications do in that time, `nodes` how many there are, `trace=True` keeps every line.
    """

    def __init__(self, seed: int, **scenario: Any) -> None:
        super().__init__(seed, Random(seed), **scenario)


def shrink(seed: int, lives: int = 400, **scenario: Any) -> Shrunk | None:
    """A short life that fails as `SimNet(seed, **scenario)` does, or None if none does; `lives` bounds the search."""
    return shrink_seed(partial(SimNet, **scenario), seed, 30.0, lives)


class ProgramNet(Programs):
    """`ProgramNet(seed, story).run()`: instances that run programs of yours, in one thread and in virtual time.

    `story(net)` gives the instances with `net.instance(name, program)`, and returns a function that says whether all is
    done; without one it is when nothing is pending. `program(app)` is called at each start of its instance, again after
    each crash. For `seconds` there are faults, `operations` of them beside the weather's; then they stop, and within
    `patience` seconds all must be done. `never` names faults that do not happen ("break", "crash", "restart", "split",
    "fill", and chances of the weather). Raises SimFailure, which ends with the last lines of the trace.
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
    """Try the story with each seed. Raises SimFailure for the first that fails, with a short scenario that fails alike;
    `lives` bounds the search for that."""
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
