"""Wire layouts and sets of ids and messages, for bulk processing.

`LAYOUTS` has each revision's bytes, `Fields` describes a fixed-size head, `Shape` fields and the parts between them,
`IntervalSet` holds ids as few intervals,
`RefCounts` how many peers are owed each message, `MessageSet` messages by sender, id and checksum (`checksum_of`),
whichever ids follow one another.
"""

from __future__ import annotations

from ._common.intervals import IntervalSet, RefCounts, spans_of
from ._node.message_set import Handled, Known, MessageSet, checksum_of
from ._wire.layouts import LAYOUTS, OPENING, Fields, Layout, Shape

__all__ = [
    "LAYOUTS",
    "OPENING",
    "Fields",
    "Handled",
    "IntervalSet",
    "Known",
    "Layout",
    "MessageSet",
    "RefCounts",
    "Shape",
    "checksum_of",
    "spans_of",
]
