"""Protocol of a growing log, which a streaming query reads.

Recordings and a stage on disk are both such a log; each has this form in a file of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from ..read._ranges import Span
from ._offsets import Offset

log = logging.getLogger("tolliver.spark")


class Bounds(NamedTuple):
    """Bounds of a batch: whole blocks, at least one. None is no bound."""

    rows: int | None = None
    bytes: int | None = None


class Log(Protocol):
    """The source of a stream. Every method may raise StoreError; places are offsets as Spark has them."""

    def first(self) -> Offset:
        """The oldest place from which one can read."""

    def head(self) -> Offset:
        """Its end now. Called many times a second."""

    def advance(self, start: Mapping[str, Any], end: Mapping[str, Any], bounds: Bounds) -> Offset:
        """The end of a batch from `start`, at most `end`; equal to `start` if there is nothing."""

    def spans(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Span]:
        """The bytes between two places."""

    def consumed(self, offset: Mapping[str, Any]) -> None:
        """The query will not read again what stands before."""
