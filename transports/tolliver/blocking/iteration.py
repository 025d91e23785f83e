"""Base of blocking iterators, with a time limit for each item."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Generic, Self, TypeVar

from tolliver_proto import ConnectionClosing

T = TypeVar("T")


class BlockingIterator(Generic[T]):
    """A blocking iterator that several threads may share: each item goes to one of them."""

    _timeout: float | None
    _closed_text: ClassVar[str]
    """Text of the error of `next` after the end."""

    @abstractmethod
    def _take(self, timeout: float | None) -> T | None:
        """The next item; None when the iterator was closed. Raises TimeoutError after `timeout` seconds."""

    @abstractmethod
    def close(self) -> None:
        """End the iterator."""

    def next(self, timeout: float | None = None) -> T:
        """The next item. Raises TimeoutError after `timeout` seconds, and ConnectionClosing when the iterator was
        closed."""
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
