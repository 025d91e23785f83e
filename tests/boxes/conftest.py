"""Fixtures of the tests of boxes: a program's database of each kind, and two connected instances."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .kinds import KINDS, PARAMS, Bank, postgres, sqlite
from .postgres import server as running


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """One server for all tests of a process."""
    with running() as found:
        yield found


@pytest.fixture(params=PARAMS)
def bank(request: pytest.FixtureRequest, tmp_path: Path) -> Bank:
    kind = str(request.param)
    plain = postgres(request.getfixturevalue("server")) if kind[0] == "p" else sqlite(tmp_path)
    return KINDS[kind](plain)
