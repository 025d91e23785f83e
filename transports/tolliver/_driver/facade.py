"""Calls that never wait, common to `Instance` and `Streams` of all adapters."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Generic, NoReturn, Protocol, TypeVar


class Core(Protocol):
    """The part of an endpoint that the public object calls here."""

    addresses: list[tuple[str, int]]

    @property
    def lock(self) -> AbstractContextManager[object]: ...

    @property
    def port(self) -> int | None: ...

    def describe(self, name: str) -> str: ...

    def refuse_copy(self) -> NoReturn: ...


C = TypeVar("C", bound=Core)


class BaseFacade(Generic[C]):
    """Base of the public objects. It holds the core in a private attribute, so that internal calls are not public."""

    def __init__(self, core: C) -> None:
        self._core = core

    @property
    def port(self) -> int | None:
        """TCP port that this endpoint listens on; None if it does not listen."""
        return self._core.port

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """(host, port) of each address that this endpoint listens on."""
        return list(self._core.addresses)

    def __repr__(self) -> str:
        with self._core.lock:
            return self._core.describe(type(self).__name__)

    def __reduce__(self) -> NoReturn:
        """Raises TypeError: an endpoint has threads and sockets, and a copy would use the same database (D-16,
        T-79)."""
        self._core.refuse_copy()
