"""Calls that never wait, common to instances and streams."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Generic, NoReturn, Protocol, TypeVar


class Core(Protocol):
    """An endpoint, which can describe itself."""

    addresses: list[tuple[str, int]]

    @property
    def lock(self) -> AbstractContextManager[object]: ...

    @property
    def port(self) -> int | None: ...

    def describe(self, name: str) -> str: ...

    def refuse_copy(self) -> NoReturn: ...


C = TypeVar("C", bound=Core)


class BaseFacade(Generic[C]):
    """The user's object: it holds a core, whose inner calls stay out of sight."""

    def __init__(self, core: C) -> None:
        self._core = core

    @property
    def port(self) -> int | None:
        """The port that it listens on, or None."""
        return self._core.port

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each address that it listens on."""
        return list(self._core.addresses)

    def __repr__(self) -> str:
        with self._core.lock:
            return self._core.describe(type(self).__name__)

    def __reduce__(self) -> NoReturn:
        """It has threads and connections, and a copy would be a second one on the same database (D-16, T-79)."""
        self._core.refuse_copy()
