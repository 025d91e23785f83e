"""Fixtures of the adapter suite: each kind of adapter, and a deadline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.certificates import Certificates

from .facade import World, deadline
from .kinds import ADAPTERS, make_world
from .nodes import Nodes
from .streams import Form, Stage


@pytest.fixture(autouse=True)
def _bounded() -> None:
    deadline.restart()


@pytest.fixture(scope="session")
def worlds() -> Iterator[Callable[[str], World]]:
    """A world of each kind, made when it is first wanted and kept for the process: an instance takes 20 ms, and loops
    that come and go would hide what is left behind in one."""
    made: dict[str, World] = {}

    def world(kind: str) -> World:
        if kind not in made:
            made[kind] = make_world(kind)
        return made[kind]

    yield world
    for one in made.values():
        one.close()


@pytest.fixture(params=ADAPTERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def nodes(tmp_path: Path, certs: Certificates, worlds: Callable[[str], World], kind: str) -> Iterator[Nodes]:
    made = Nodes(tmp_path, certs, worlds(kind))
    yield made
    made.open_gates()


@pytest.fixture
def form() -> Form:
    return "plain"


@pytest.fixture
def stage(certs: Certificates, worlds: Callable[[str], World], kind: str, form: Form) -> Iterator[Stage]:
    with Stage(worlds(kind), certs, form) as made:
        yield made
