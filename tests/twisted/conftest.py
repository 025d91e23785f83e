"""Fixtures of Twisted's tests: two reactors for what is about reactors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.certificates import Certificates

from .nodes import Nodes
from .reactors import REACTORS, Loop, running

OTHERS = ("asyncio",)


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.loops] * (name in OTHERS)) for name in REACTORS])
def loop(request: pytest.FixtureRequest) -> Iterator[Loop]:
    with running(request.param) as loop:
        yield loop


@pytest.fixture
def nodes(tmp_path: Path, certs: Certificates, loop: Loop) -> Nodes:
    return Nodes(tmp_path, certs, loop.reactor)
