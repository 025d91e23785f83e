"""Fixtures of the command line's tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tolliver.certs import make_ca, make_certificate

Who = Callable[..., tuple[object, ...]]


@pytest.fixture
def who(tmp_path: Path) -> Who:
    """The options that say who an instance is: `who("alice")` makes her certificate and database when first named.

    With `own=True` they name that database, too, as `send` and `replay` want it (T-61).
    """
    directory = tmp_path / "certificates"
    make_ca(directory)

    def options(name: str, own: bool = False) -> tuple[object, ...]:
        if not (directory / f"{name}.pem").exists():
            make_certificate(directory, name)
        named = ("--database", directory / f"{name}.db") if own else ()
        return "--certs", directory, "--name", name, *named

    return options
