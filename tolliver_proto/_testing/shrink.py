"""Shrinking: from a failing simulation to a short one that fails alike.

A smaller world is another story. So each simplification (fewer nodes, operations, seconds, faults) is tried with a few
seeds, and kept if one of them breaks the same promise at the same place. The number of simulations is bounded, not
their time, because this package has no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from .adapter_loop import Weather
from .deployments import Deployments
from .invariants import SimFailure

_SEEDS = 8  # further seeds for each simplification
_LENGTHS = ("handler_patience", "half_open_for")  # durations of the weather, which are no faults

FAULTS = sorted(name.removeprefix("_op_") for name in dir(Deployments) if name.startswith("_op_"))
FAULTS += [name for name in Weather.__slots__ if name not in _LENGTHS]
"""Names that `never` may have."""

Life = Callable[[int, dict[str, Any]], SimFailure | None]
Kind = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Shrunk:
    """Result of shrinking: a short simulation that fails, `SimNet(seed, **scenario).run()`."""

    seed: int
    scenario: dict[str, Any]
    failure: SimFailure
    lives: int
    """Number of simulations that the search has run."""


def kind(failure: SimFailure) -> Kind:
    """Returns the class of a failure, and the function and line that raised it: failures with equal ones mostly have
    the same cause.
    """
    error = failure.__cause__ or failure
    where, trace = ("", 0), error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_name != "check":
            where = trace.tb_frame.f_code.co_name, trace.tb_lineno
        trace = trace.tb_next
    return type(error).__name__, *where


class Story(Protocol):
    """A simulation; `run()` carries it out from start to end."""

    def run(self) -> object: ...


class Net(Story, Protocol):
    """A simulated network, which can be made again with other arguments."""

    @property
    def size(self) -> int: ...


def shrink_seed(
    net: Callable[..., Net], seed: int, seconds: float, lives: int, faults: Collection[str] = tuple(FAULTS)
) -> Shrunk | None:
    """Returns a short simulation that fails as `net(seed)` does, or None if that does not fail.

    Arguments are those of `shrink`; `seconds` is how long the faults last in `net(seed)`.
    """
    start = {"nodes": net(seed).size, "operations": 80, "seconds": seconds, "never": ()}
    return shrink_from(net, seed, start, lives, faults)


def shrink_from(
    net: Callable[..., Story], seed: int, start: dict[str, Any], lives: int, faults: Collection[str]
) -> Shrunk | None:
    """Returns a short simulation that fails as `net(seed)` does, or None if that does not fail. The search begins with
    the arguments `start`; the others are those of `shrink`.
    """

    def live(seed: int, scenario: dict[str, Any]) -> SimFailure | None:
        try:
            net(seed, **scenario).run()
        except SimFailure as failure:
            return failure
        return None

    failure = live(seed, {})
    if failure is None:
        return None
    return shrink(live, failure, seed, start, lives, faults)


def shrink(
    live: Life,
    failure: SimFailure,
    seed: int,
    scenario: dict[str, Any],
    lives: int,
    faults: Collection[str] = tuple(FAULTS),
) -> Shrunk:
    """Returns the shortest simulation found that fails as `failure` does. `live(seed, scenario)` runs one simulation,
    and returns its failure or None; at most `lives` are run. `faults` names the faults that the search tries to leave
    out.
    """
    wanted = kind(failure)
    best = Shrunk(seed, scenario, failure, 0)
    tried = 0

    def improve(simplify: Callable[[dict[str, Any]], Iterator[dict[str, Any]]]) -> bool:
        nonlocal best, tried
        for simpler in simplify(best.scenario):
            for one in dict.fromkeys((best.seed, *range(_SEEDS))):
                if tried >= lives:
                    return False
                tried += 1
                found = live(one, simpler)
                if found is not None and kind(found) == wanted:
                    best = Shrunk(one, simpler, found, tried)
                    return True
        return False

    ways = (_fewer_nodes, partial(_fewer_faults, faults), _fewer_operations, _less_time)
    while sum(improve(way) for way in ways):  # each way has its turn
        pass
    return Shrunk(best.seed, best.scenario, best.failure, tried)


def _fewer_nodes(scenario: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for nodes in range(2, scenario.get("nodes", 0)):
        yield {**scenario, "nodes": nodes}


def _fewer_faults(faults: Collection[str], scenario: dict[str, Any]) -> Iterator[dict[str, Any]]:
    never = scenario["never"]
    left = [name for name in faults if name not in never]
    half = len(left) // 2
    halves = [left[half:], left[:half]] if half else []
    for unwanted in (*halves, *([name] for name in left)):
        yield {**scenario, "never": (*never, *unwanted)}


def _fewer_operations(scenario: dict[str, Any]) -> Iterator[dict[str, Any]]:
    now = scenario["operations"]
    for operations in sorted({now // 8, now // 4, now // 2, now * 3 // 4, now - 1} - {0, now}):
        yield {**scenario, "operations": operations}


def _less_time(scenario: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for seconds in (scenario["seconds"] / 4, scenario["seconds"] / 2):
        if seconds >= 0.5:
            yield {**scenario, "seconds": seconds}
