"""Interface of a growing log, which a streaming query reads.

Recordings and a stage are both such a log; each has a module of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from ..read._ranges import Span
from ._offsets import Offset

log = logging.getLogger("tolliver.spark")


class Bounds(NamedTuple):
    """Limits of one batch, which has whole blocks and at least one. None is no limit."""

    rows: int | None = None
    bytes: int | None = None


class Log(Protocol):
    """Data that a streaming query reads: it only grows at its end. Every method may raise StoreError; places are
    offsets as Spark stores them."""

    def begin(self) -> Offset:
        """Returns the place at which a query without a checkpoint begins: see startingOffsets."""

    def head(self) -> Offset:
        """Returns the present end of the log. Called many times a second."""

    def advance(self, start: Mapping[str, Any], end: Mapping[str, Any], bounds: Bounds) -> Offset:
        """Returns the end of a batch from `start`, at most `end`; equal to `start` if there is nothing to read."""

    def waiting(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> int | None:
        """Returns the number of messages between the places; None if it is not known, and they should be read now."""

    def spans(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Span]:
        """Returns the bytes of files between the places `start` and `end`."""

    def consumed(self, offset: Mapping[str, Any]) -> None:
        """Called when the query will not read anything before `offset` again, so that this may be deleted."""
