"""Kinds of adapters by name, which the suite runs over.

Decisions of the node run on one kind, the work of an adapter on each adapter, that of a loop on every loop. A behaviour
that does not say which it is runs on one adapter in `make test`: three take turns, so each has a third of all. Kinds
that have their lines in common with another are marked `loops`, those whose turn it is not `turns`: `make loops` runs
both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from itertools import pairwise, permutations
from typing import Any
from zlib import crc32

import pytest

from .facade import World

# name: the adapter's module, and the module and the maker of a world for it
_ALL: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "asyncio": ("anyio", "on_anyio", lambda on: partial(on.AnyioWorld, backend="asyncio")),
    "uvloop": ("anyio", "on_anyio", lambda on: partial(on.AnyioWorld, backend="asyncio", use_uvloop=True)),
    "trio": ("anyio", "on_anyio", lambda on: partial(on.AnyioWorld, backend="trio")),
    "twisted": ("twisted", "on_twisted", lambda on: on.TwistedWorld.epoll),
    "twisted-asyncio": ("twisted", "on_twisted", lambda on: on.TwistedWorld.on_asyncio),
    "blocking": ("blocking", "on_blocking", lambda on: on.BlockingWorld),
}
_ADAPTERS = "tolliver"
_EACH = ("asyncio", "twisted", "blocking")


def _params(kinds: Iterable[str], unmarked: Iterable[str]) -> list[Any]:
    return [pytest.param(kind, marks=[] if kind in unmarked else pytest.mark.loops) for kind in kinds]


KINDS = list(_ALL)
ADAPTERS = _params(KINDS, _EACH)
"""Each adapter on one loop; on the others where loops are asked for."""
ONE_KIND = pytest.mark.parametrize("kind", _EACH[:1])
"""For what the node decides by itself: the actions that carry it out are tested over every kind elsewhere."""
EACH_ADAPTER = pytest.mark.parametrize("kind", _EACH)
"""For what takes its time and does not depend on which loop an adapter runs on."""
EVERY_LOOP = pytest.mark.parametrize("kind", _params(KINDS, (*_EACH, "trio")))
"""For what loops do each in a way of its own: to wait, to cancel, to read and write."""
_RING = ("asyncio", "trio", "twisted", "blocking", "asyncio")
PAIRS = [
    pytest.param(*pair, marks=[] if pair in pairwise(_RING) else pytest.mark.loops) for pair in permutations(KINDS, 2)
]
"""A ring of four, in which each dials one and listens to another; all ordered pairs where loops are asked for."""


def by_turns(behaviour: str) -> list[Any]:
    """All kinds: of the adapters one that its name decides is not left to `make loops`."""
    turn = _EACH[crc32(behaviour.encode()) % len(_EACH)]
    return [
        pytest.param(kind, marks={turn: []}.get(kind, pytest.mark.turns if kind in _EACH else pytest.mark.loops))
        for kind in KINDS
    ]


def make_world(kind: str) -> World:
    adapter, living, choose = _ALL[kind]
    made: World = choose(import_module(f"{__package__}.{living}"))(kind, import_module(f"{_ADAPTERS}.{adapter}"))
    return made
