"""Drawn calls of Twisted and threads, which are those of asyncio."""

from __future__ import annotations

import inspect

import pytest
from tolliver import anyio, blocking, twisted

KINDS = ("Instance", "Channel", "Admin", "WorkQueue", "Streams", "StreamChannel", "Peer")


def parameters(kind: type) -> dict[str, list[str]]:
    """The names of each call's parameters, but for a time limit."""
    calls = {name: one for name, one in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}
    return {
        name: [one for one in inspect.signature(call).parameters if one != "timeout"] for name, call in calls.items()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_each_adapter_has_the_same_calls(kind: str) -> None:
    own = parameters(getattr(anyio, kind))
    for other in (blocking, twisted):
        drawn = parameters(getattr(other, kind))
        assert {name: drawn[name] for name in own} == own
        assert drawn.keys() - own.keys() <= {"close"}
