"""Kinds of adapters by name, which the suite runs over."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from itertools import permutations
from typing import Any

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
_ADAPTERS = "tolliver_transports"

KINDS = list(_ALL)
ONE_KIND = pytest.mark.parametrize("kind", KINDS[:1])
"""For what the node decides by itself: the actions that carry it out are tested over every kind elsewhere."""
EACH_ADAPTER = pytest.mark.parametrize("kind", ["asyncio", "twisted", "blocking"])
"""For what takes its time and does not depend on which loop an adapter runs on."""
PAIRS = list(permutations(KINDS, 2))


def make_world(kind: str) -> World:
    adapter, living, choose = _ALL[kind]
    made: World = choose(import_module(f"{__package__}.{living}"))(kind, import_module(f"{_ADAPTERS}.{adapter}"))
    return made
