"""Fixtures of the adapter suite: each kind of adapter, and a deadline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.certificates import Certificates

from .facade import World, deadline
from .kinds import by_turns, make_world
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


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that does not say itself on which kinds it runs has those of its turn."""
    said = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "kind" in metafunc.fixturenames and not any("kind" in names for names in said):
        metafunc.parametrize("kind", by_turns(metafunc.definition.nodeid))


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
