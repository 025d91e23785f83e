"""Wire layouts as data, and sets of ids and of messages, for bulk processing.

`LAYOUTS` has each revision's bytes, `Fields` describes a fixed-size head, `IntervalSet` holds ids as few intervals,
`MessageSet` messages by sender, id and checksum (`checksum_of`), whichever ids follow one another.
"""

from __future__ import annotations

from ._node.intervals import IntervalSet, spans_of
from ._node.message_set import Handled, Known, MessageSet, checksum_of
from ._wire.layouts import LAYOUTS, Fields, Layout

__all__ = [
    "LAYOUTS",
    "Fields",
    "Handled",
    "IntervalSet",
    "Known",
    "Layout",
    "MessageSet",
    "checksum_of",
    "spans_of",
]
