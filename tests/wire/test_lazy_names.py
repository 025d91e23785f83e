"""Lazy names of a package: the modules are loaded, and the names taken from them, at the first use."""

from __future__ import annotations

from typing import Any

import pytest

from tolliver_proto._common.lazy_names import lazy_names
from tolliver_proto._wire import limits, state


def test_names_are_loaded_when_they_are_used() -> None:
    namespace: dict[str, Any] = {"here": 1}
    find, names = lazy_names(
        "tolliver_proto._wire", namespace, {".limits": "Limits", ".state": "State, Signal as Sign"}
    )
    assert names() == ["Limits", "Sign", "State", "here"]
    assert find("Sign") is state.Signal
    assert namespace == {"here": 1, "Sign": state.Signal}
    assert find("Limits") is limits.Limits
    with pytest.raises(AttributeError, match=r"module 'tolliver_proto\._wire' has no attribute 'Signal'"):
        find("Signal")
