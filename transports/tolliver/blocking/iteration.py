"""Iteration on threads, with a time limit for each item."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Generic, Self, TypeVar

from tolliver_proto import ConnectionClosing

T = TypeVar("T")


class BlockingIterator(Generic[T]):
    """An iterator for any number of threads: each item goes to one of them."""

    _timeout: float | None
    _closed_text: ClassVar[str]
    """The text of the error at its end."""

    @abstractmethod
    def _take(self, timeout: float | None) -> T | None:
        """The next one; None when it was closed. Raises TimeoutError after `timeout` seconds."""

    @abstractmethod
    def close(self) -> None:
        """Take no more."""

    def next(self, timeout: float | None = None) -> T:
        """The next one. Raises TimeoutError after `timeout` seconds, and ConnectionClosing when it was closed."""
        item = self._take(timeout)
        if item is None:
            raise ConnectionClosing(self._closed_text)
        return item

    def __next__(self) -> T:
        try:
            item = self._take(self._timeout)
        except TimeoutError:
            item = None
        if item is None:
            raise StopIteration
        return item

    def __iter__(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()
