"""Fixtures of anyio's tests: asyncio and trio, each within LIMIT seconds."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.anyio.nodes import Nodes
from tests.certificates import Certificates

LIMIT = 60.0  # seconds; a test that waits for what never comes fails instead of hanging


def _bounded(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    @functools.wraps(test)
    async def run(*args: Any, **kwargs: Any) -> None:
        with anyio.fail_after(LIMIT):
            await test(*args, **kwargs)

    return run


def pytest_itemcollected(item: pytest.Item) -> None:
    if isinstance(item, pytest.Function) and iscoroutinefunction(item.obj):
        item.obj = _bounded(item.obj)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def nodes(tmp_path: Path, certs: Certificates) -> Nodes:
    return Nodes(tmp_path, certs)
