"""Doors, on a package of its own: the modules are there, and names come from them as they are asked for."""

from __future__ import annotations

from typing import Any

import pytest

from tolliver_proto._common.door import door
from tolliver_proto._wire import limits, state


def test_a_door() -> None:
    namespace: dict[str, Any] = {"here": 1}
    find, names = door("tolliver_proto._wire", namespace, {".limits": "Limits", ".state": "State, Signal as Sign"})
    assert names() == ["Limits", "Sign", "State", "here"]
    assert find("Sign") is state.Signal
    assert namespace == {"here": 1, "Sign": state.Signal}
    assert find("Limits") is limits.Limits
    with pytest.raises(AttributeError, match=r"module 'tolliver_proto\._wire' has no attribute 'Signal'"):
        find("Signal")
